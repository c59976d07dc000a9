"""Sessions of browsers end with their user, whatever the clocks of the nodes say."""

from __future__ import annotations

from pathlib import Path

from longhall.directory.accounts import DEFAULT_TENANT, User, entry_of
from longhall.front.identity import Principal
from longhall.front.web_sessions import WebSessions
from tests.front.authentication import Accounts

ALICE = Principal(DEFAULT_TENANT, "alice", "user")
CHANGED_MS = 1_000_000  # The leader's clock is decades behind that of the node where users log in.


async def _nowhere(session_id: str, until_ms: int) -> None:
    """No session ends by a logout here."""


def _sessions(accounts: Accounts) -> WebSessions:
    return WebSessions(accounts.authenticator, b"shared", 3_600_000, lambda size: bytes(size), _nowhere)


def _put(accounts: Accounts, user: User) -> None:
    accounts.change(entry_of("alice", user))


def test_a_session_ends_with_a_change_of_its_user_by_a_clock_that_is_behind(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    _put(accounts, User(DEFAULT_TENANT, created_ms=CHANGED_MS))
    sessions = _sessions(accounts)
    first = sessions.begin(ALICE)
    assert sessions.principal_of(first) == ALICE
    _put(accounts, User(DEFAULT_TENANT, created_ms=CHANGED_MS, changed_ms=CHANGED_MS + 1))
    assert sessions.principal_of(first) is None, "it was begun before the change"
    second = sessions.begin(ALICE)
    assert sessions.principal_of(second) == ALICE


def test_a_session_begun_where_a_change_is_known_counts_where_it_is_not_known_yet(tmp_path: Path) -> None:
    ahead, behind = Accounts(tmp_path / "a"), Accounts(tmp_path / "b")
    _put(ahead, User(DEFAULT_TENANT, created_ms=CHANGED_MS, changed_ms=CHANGED_MS + 5))
    _put(behind, User(DEFAULT_TENANT, created_ms=CHANGED_MS))
    assert _sessions(behind).principal_of(_sessions(ahead).begin(ALICE)) == ALICE
    assert _sessions(ahead).principal_of(_sessions(behind).begin(ALICE)) is None
