"""Share sessions: the table of epochs, connections, leaders and the bound."""

from __future__ import annotations

import pytest

from longhall.doors.kafka import share_sessions
from longhall.doors.kafka.share_sessions import (
    EPOCH_MAX,
    FINAL,
    INITIAL,
    ShareSession,
    ShareSessions,
)
from longhall.doors.kafka.wire.error_codes import ErrorCode

PLACE = (bytes(16), 0)


def _open(sessions: ShareSessions, member: str = "m", connection: int = 1) -> ShareSession:
    found = sessions.find("g", member, INITIAL, connection, 1)
    assert isinstance(found, ShareSession)
    return found


def test_epochs_follow_each_other() -> None:
    sessions = ShareSessions()
    assert sessions.find("g", "m", 1, 1, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session = _open(sessions)
    assert sessions.find("g", "m", 1, 1, 1) is session
    assert sessions.find("g", "m", 1, 1, 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.find("g", "m", 2, 1, 1) is session
    session.epoch = EPOCH_MAX
    assert sessions.find("g", "m", EPOCH_MAX, 1, 1) is session
    assert session.epoch == 1
    assert sessions.find("g", "m", FINAL, 1, 1) is session
    sessions.close(session)
    assert sessions.find("g", "m", FINAL, 1, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_member_that_opens_again_keeps_what_it_holds() -> None:
    sessions = ShareSessions()
    held = _open(sessions).holding(PLACE, 7, 3)
    again = _open(sessions)
    assert again.epoch == 1
    assert again.holding(PLACE, 7, 3) is held
    assert again.holding(PLACE, 8, 3) is not held  # Another queue is on the topic now.


def test_a_session_ends_with_its_connection_and_with_its_leader() -> None:
    sessions = ShareSessions()
    first, second = _open(sessions, "a", 1), _open(sessions, "b", 2)
    assert sessions.disconnected(1) == [first]
    assert sessions.find("g", "a", 1, 3, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.find("g", "b", 1, 2, 2) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.disconnected(second.connection) == []


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "SESSIONS_MAX", 1)
    sessions = ShareSessions()
    _open(sessions)
    assert sessions.find("g", "other", INITIAL, 1, 1) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    _open(sessions)


def test_served_partitions_come_last_next_time() -> None:
    session = _open(ShareSessions())
    session.partitions = {PLACE: None, (bytes(16), 1): None}
    session.turn(PLACE)
    assert list(session.partitions) == [(bytes(16), 1), PLACE]
