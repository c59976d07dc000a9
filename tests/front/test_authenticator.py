"""Who a client is, from what it shows: passwords, tokens, access keys; rotation, disabling and guessing."""

from __future__ import annotations

import asyncio
import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec
import pytest

import longhall.front.authenticator as authenticator_module
from longhall.directory.accounts import DEFAULT_TENANT, AccessKey, ScramKey, Tenant, Token, User, entry_of
from longhall.directory.directory import Directory
from longhall.errors import Code, LonghallError
from longhall.front.authenticator import (
    NONE,
    PREPARED_OF_ADDRESS_MAX,
    REQUIRED,
    Authenticator,
    DoorAuthentication,
)
from longhall.front.failed_logins import FREE_FAILURES, FREE_FAILURES_OF_ADDRESS, SHUT_OUT_MS_MAX, FailedLogins
from longhall.front.identity import ANONYMOUS, Principal, caller_of, principal_of, principal_of_key
from longhall.front.master_key import MasterKey, read_master_key
from longhall.world.ports import Janitor
from longhall.world.real.clock import RealClock
from tests.front.authentication import Accounts, of_file

ALICE = Principal(DEFAULT_TENANT, "alice", "user")
HERE = "127.0.0.1"
T = TypeVar("T")


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    made = Accounts(tmp_path)
    made.put("alice", "correct horse")
    return made


def test_a_door_asks_as_soon_as_there_are_users(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    door = accounts.door
    assert (door.required, door.login("any", "any", HERE)) == (False, ANONYMOUS)
    accounts.put("alice", "correct horse")
    assert door.required
    assert door.login("any", "any", HERE) is None
    assert door.login("alice", "correct horse", HERE) == ALICE
    assert not door.may_go_on(ANONYMOUS)


def test_the_modes_of_authentication(tmp_path: Path) -> None:
    assert Accounts(tmp_path, REQUIRED).door.required
    free = Accounts(tmp_path, NONE)
    free.put("alice", "correct horse")
    assert not free.door.required
    assert DoorAuthentication(free.authenticator, "x", always=True).required
    file = of_file({"AKIA1": "s"})
    assert file.required
    assert not DoorAuthentication(file.authenticator, "kafka", file=False).required


def test_a_process_that_does_not_know_the_users_refuses_nobody_for_good() -> None:
    directory = Directory(known=False)
    unknowing = Authenticator(directory, MasterKey("", makes=False), RealClock(), b"s")
    door = DoorAuthentication(unknowing, "x")
    assert door.required
    for ask in (
        lambda: door.login("alice", "x", HERE),
        lambda: unknowing.secret_of("AKIA1"),
        lambda: unknowing.check_token("lht_x"),
        lambda: unknowing.scram_keys("alice", "SCRAM-SHA-256"),
    ):
        with pytest.raises(LonghallError) as caught:
            ask()
        assert caught.value.code is Code.NOT_READY


def test_disabled_users_tenants_and_lost_marks_end_logins(accounts: Accounts) -> None:
    door, user = accounts.door, accounts.directory.accounts.users["alice"]
    assert door.may_go_on(ALICE)
    accounts.change(entry_of("alice", msgspec.structs.replace(user, enabled=False)))
    assert door.login("alice", "correct horse", HERE) is None
    assert not door.may_go_on(ALICE)
    accounts.change(entry_of("alice", msgspec.structs.replace(user, administrator=True)))
    assert door.login("alice", "correct horse", HERE) == ALICE._replace(kind="administrator")
    assert not door.may_go_on(ALICE), "its rights have changed"
    accounts.change(entry_of(DEFAULT_TENANT, Tenant(enabled=False)))
    assert door.login("alice", "correct horse", HERE) is None


def test_an_old_password_is_valid_until_its_time(accounts: Accounts, tmp_path: Path) -> None:
    now_ms = accounts.authenticator.now_ms()
    old = accounts.directory.accounts.users["alice"].scram
    new = accounts.secrets.scram_keys("battery staple", "alice")
    assert {key.salt for key in new} == {key.salt for key in old}, "SCRAM has one salt for both"
    for until_ms, expected in ((now_ms + 60_000, ALICE), (now_ms - 1, None)):
        ending = [msgspec.structs.replace(key, until_ms=until_ms) for key in old]
        accounts.change(entry_of("alice", User(DEFAULT_TENANT, scram=(*ending, *new))))
        assert accounts.authenticator.check_password("alice", "correct horse") == expected
        assert accounts.authenticator.check_password("alice", "battery staple") == ALICE


def test_a_right_password_is_hashed_once_until_something_changes(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    derive = authenticator_module.key_of_password

    def counted(keys: Sequence[ScramKey], shown: str) -> ScramKey | None:
        hashed.append(shown)
        return derive(keys, shown)

    monkeypatch.setattr(authenticator_module, "key_of_password", counted)
    for _ in range(3):
        assert accounts.authenticator.check_password("alice", "correct horse") == ALICE
    assert hashed == ["correct horse"]
    user = accounts.directory.accounts.users["alice"]
    accounts.change(entry_of("alice", msgspec.structs.replace(user, changed_ms=5)))
    assert accounts.authenticator.check_password("alice", "correct horse") == ALICE
    assert len(hashed) == 2
    hashed.clear()
    for user_name in ("alice", "nobody"):  # As much work for a user that does not exist.
        assert accounts.authenticator.check_password(user_name, "wrong") is None
    assert hashed == ["wrong"] * 4
    kept = [getattr(accounts.authenticator, name) for name in dir(accounts.authenticator) if not name.startswith("__")]
    assert "correct horse" not in repr(kept)


def test_tokens(accounts: Accounts) -> None:
    token, digest = accounts.secrets.new_token()
    accounts.change(entry_of(digest, Token("alice")))
    assert accounts.door.of_header(b"Bearer " + token.encode(), HERE) == ALICE
    assert accounts.door.check("alice", token, HERE) == ALICE, "also as a password, for doors without bearer tokens"
    assert accounts.door.check("bob", token, HERE) is None
    assert accounts.door.of_header(b"Bearer " + token.encode() + b"x", HERE) is None
    assert accounts.door.of_header(b"Basic " + b64encode(b"alice:correct horse"), HERE) == ALICE
    accounts.change(entry_of(digest, Token("alice", until_ms=1)))
    assert accounts.door.of_header(b"Bearer " + token.encode(), HERE) is None


def test_the_secret_of_an_access_key_is_sealed(accounts: Accounts, tmp_path: Path) -> None:
    access_key, secret = accounts.secrets.new_access_key()
    sealed = accounts.secrets.seal(access_key, secret)
    accounts.change(entry_of(access_key, AccessKey("alice", sealed)), entry_of("OTHER", AccessKey("alice", sealed)))
    known = accounts.authenticator.secret_of(access_key)
    assert known is not None
    assert (known.secret, known.principal) == (secret, ALICE)
    assert accounts.door.check(access_key, secret, HERE) == ALICE
    assert accounts.door.check(access_key, secret + "x", HERE) is None
    assert accounts.authenticator._unsealed.pop(sealed) == secret
    assert accounts.authenticator.secret_of("OTHER") is None, "it was sealed for another key"
    assert not any(secret.encode() in row.value for row in accounts.directory.rows())
    assert os.stat(tmp_path / "master.key").st_mode & 0o777 == 0o600
    accounts.change(entry_of(access_key, AccessKey("alice", sealed, until_ms=1)))
    assert accounts.authenticator.secret_of(access_key) is None


def test_a_master_key_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    path = tmp_path / "key"
    sealed = MasterKey(str(path), makes=True).seal(b"s", "a")
    assert MasterKey(str(path), makes=False).unseal(sealed, "a") == b"s"
    with pytest.raises(LonghallError, match="every node"):
        MasterKey("", makes=False).seal(b"s", "a")
    with pytest.raises(LonghallError, match="missing"):
        MasterKey(str(tmp_path / "other"), makes=False).seal(b"s", "a")
    with pytest.raises(LonghallError, match="another master key"):
        MasterKey(str(tmp_path / "second"), makes=True).unseal(sealed, "a")
    with pytest.raises(LonghallError, match="changed"):
        MasterKey(str(path), makes=False).unseal(sealed[:-1] + b"x", "a")
    path.chmod(0o644)
    with pytest.raises(LonghallError, match="chmod 600"):
        read_master_key(str(path))
    path.chmod(0o600)
    path.write_text("zz")
    with pytest.raises(LonghallError, match="hexadecimal"):
        read_master_key(str(path))


def test_guessing_is_slowed_and_neighbours_are_not(accounts: Accounts) -> None:
    door = accounts.door
    for _ in range(FREE_FAILURES):
        assert door.check("alice", "wrong", "10.0.0.1") is None
    assert door.check("alice", "correct horse", "10.0.0.1") is None, "shut out for a moment, whatever it shows"
    assert door.check("alice", "correct horse", "10.0.0.2") == ALICE
    assert door.check("alice", "correct horse", "10.0.0.1") == ALICE, "this password is known to be right"
    failed = accounts.authenticator.failed_logins
    assert (failed.failed["test"], failed.shut_out["test"], failed.logins["test"]) == (FREE_FAILURES, 1, 2)


def test_the_time_of_a_shut_out_grows_and_ends() -> None:
    failed = FailedLogins()
    for number in range(FREE_FAILURES + 20):
        failed.note_failure("x", HERE, "alice", number)
    assert failed.is_shut_out(HERE, "alice", 29 + SHUT_OUT_MS_MAX - 1)
    assert not failed.is_shut_out(HERE, "alice", 29 + SHUT_OUT_MS_MAX)
    assert not failed.is_shut_out(HERE, "bob", 30)
    for number in range(FREE_FAILURES_OF_ADDRESS):
        failed.note_failure("x", HERE, f"user {number}", 40)
    assert failed.is_shut_out(HERE, "bob", 41)


def test_a_user_who_has_logged_in_is_not_shut_out_for_others() -> None:
    failed = FailedLogins()
    failed.note_login("x", HERE, "alice")
    for number in range(FREE_FAILURES_OF_ADDRESS):
        failed.note_failure("x", HERE, f"user {number}", 40)
    assert failed.is_shut_out(HERE, "bob", 41)
    assert failed.is_shut_out(HERE, "", 41), "a token has no user"
    assert not failed.is_shut_out(HERE, "alice", 41)
    assert failed.is_shut_out("192.0.2.9", "alice", 41) == failed.is_shut_out("192.0.2.9", "bob", 41)
    for _ in range(FREE_FAILURES):
        failed.note_failure("x", HERE, "alice", 42)
    assert failed.is_shut_out(HERE, "alice", 43), "for failures of its own"


def test_one_client_that_retries_for_ever_does_not_shut_out_its_address() -> None:
    failed = FailedLogins()
    for number in range(FREE_FAILURES_OF_ADDRESS * 2):
        failed.note_failure("x", HERE, "outdated", number)
    assert failed.is_shut_out(HERE, "outdated", FREE_FAILURES_OF_ADDRESS * 2)
    assert not failed.is_shut_out(HERE, "new", FREE_FAILURES_OF_ADDRESS * 2)
    for number in range(FREE_FAILURES_OF_ADDRESS * 2):  # One client of this user has the right password.
        failed.note_login("x", HERE, "half")
        failed.note_failure("x", HERE, "half", number)
    assert not failed.is_shut_out(HERE, "new", FREE_FAILURES_OF_ADDRESS * 2)


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    failed = FailedLogins()
    for number in range(FREE_FAILURES):
        failed.note_failure("x", f"2001:db8:1:2::{number:x}", "alice", 40)
    assert failed.is_shut_out("2001:db8:1:2:ffff::1", "alice", 41)
    assert not failed.is_shut_out("2001:db8:1:3::1", "alice", 41)
    for _ in range(FREE_FAILURES):
        failed.note_failure("x", "::ffff:192.0.2.7", "bob", 40)
    assert failed.is_shut_out("192.0.2.7", "bob", 41)
    assert not failed.is_shut_out("192.0.2.8", "bob", 41)


def test_long_names_fill_no_memory() -> None:
    failed = FailedLogins()
    for number in range(FREE_FAILURES):
        failed.note_failure("x", HERE, "x" * 100_000 + str(number), 40)
    assert sum(len(user) for _, user in failed._failures) < 1_000
    assert failed.is_shut_out(HERE, "x" * 100_000, 41)


def test_a_caller_carries_the_principal() -> None:
    assert principal_of(caller_of(ALICE, HERE)) == ALICE
    assert not ALICE.is_superuser
    assert principal_of_key("AKIA1").is_superuser
    assert principal_of(caller_of(ANONYMOUS.shown_as("guest"), HERE)).is_superuser
    assert ALICE.shown_as("bob") == ALICE


class CountingJanitor:
    """Computes at once, and counts; `held` computations wait until the test lets them go."""

    def __init__(self) -> None:
        self.count = 0
        self.held = asyncio.Event()

    async def compute(self, function: Callable[[], T]) -> T:
        self.count += 1
        await self.held.wait()
        return function()


async def test_a_password_is_hashed_outside_of_the_loop_and_once(tmp_path: Path) -> None:
    janitor = CountingJanitor()
    janitor.held.set()
    accounts = Accounts(tmp_path, janitor=cast(Janitor, janitor))
    accounts.put("alice", "correct horse")
    door = accounts.door
    for user, password, expected in (
        ("alice", "correct horse", ALICE),
        ("alice", "wrong", None),
        ("nobody", "battery staple", None),
    ):
        before = janitor.count
        for _ in range(3):
            await door.prepare_login(user, password, HERE)
            with forbidden_hashing():
                assert door.check(user, password, HERE) == expected
        assert janitor.count == before + 1
    accounts.put("nobody", "battery staple")  # What was wrong is forgotten when the user changes.
    await door.prepare_login("nobody", "battery staple", HERE)
    assert door.check("nobody", "battery staple", HERE) is not None


async def test_logins_that_wait_for_a_hash_are_bounded_for_each_address(tmp_path: Path) -> None:
    janitor = CountingJanitor()
    accounts = Accounts(tmp_path, janitor=cast(Janitor, janitor))
    accounts.put("alice", "correct horse")
    door = accounts.door
    storm = [
        asyncio.ensure_future(door.prepare_login("alice", f"guess {number}", HERE))
        for number in range(PREPARED_OF_ADDRESS_MAX)
    ]
    await asyncio.sleep(0)
    with pytest.raises(LonghallError) as refused:
        await door.prepare_login("alice", "another guess", HERE)
    assert refused.value.code is Code.NOT_READY
    elsewhere = asyncio.ensure_future(door.prepare_login("alice", "correct horse", "10.0.0.9"))
    await asyncio.sleep(0)
    janitor.held.set()
    await asyncio.gather(elsewhere, *storm)
    assert door.check("alice", "correct horse", "10.0.0.9") == ALICE
    assert not accounts.authenticator.preparing


@contextmanager
def forbidden_hashing() -> Iterator[None]:
    """A hash computed meanwhile fails the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashlib, "pbkdf2_hmac", None)
        yield
