"""Fetch sessions (KIP-227): a consumer names its partitions once, and then only what changes.

    epoch -1    no session; the one that is named ends
    epoch 0     a new session with the partitions of the request, if there is room; the one that is named ends
    epoch n     the n-th request of a session: its partitions are added or changed, the forgotten ones removed, and all
                partitions of the session are read; the answer has those with records, an error, or new ends

An answer without a session (id 0) makes the client name its partitions each time: a full table costs nobody more than
the requests of old clients do. A session that is not used is replaced when others need its room. Requests without a
session do not come here.
"""

from __future__ import annotations

from typing import Final, final

from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.fetch import FetchedPart, FetchPart, FetchRequest
from longhall.world.ports import Entropy

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
EPOCH_MAX: Final = 0x7FFFFFFF
SESSIONS_MAX: Final = 1_000
PARTITIONS_MAX: Final = 100_000  # Of all sessions.
IDLE_S_MIN: Final = 120.0  # A session that was used later is not replaced by a new one.

Key = tuple[str, bytes, int]


@final
class SessionPart:
    """A partition of a session: the last request of the client for it, and the offsets in the last response."""

    def __init__(self, part: FetchPart) -> None:
        self.part = part
        self.high_watermark = -1
        self.log_start_offset = -1

    def take(self, fetched: FetchedPart, size_bytes: int) -> bool:
        """Note what would be answered. False if the client knows all of it."""
        is_new = size_bytes > 0 or self.high_watermark != fetched.high_watermark
        is_new = is_new or self.log_start_offset != fetched.log_start_offset
        self.high_watermark = fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        if fetched.error_code:
            self.high_watermark = -1  # So that it is answered again when the error is gone.
            return True
        return is_new


@final
class FetchSession:
    """The partitions of one consumer, in the order in which they are read."""

    def __init__(self, session_id: int, by_id: bool, now_s: float) -> None:
        self.session_id = session_id
        self.epoch = 1  # Of the next request.
        self.by_id = by_id
        self.used_s = now_s
        self.parts: dict[Key, SessionPart] = {}

    def put(self, parts: list[FetchPart]) -> None:
        """Add these partitions, or change what is asked of them."""
        for part in parts:
            key = (part.topic, part.topic_id, part.partition)
            known = self.parts.get(key)
            if known is None:
                self.parts[key] = SessionPart(part)
            else:
                known.part = part

    def wanted(self) -> list[FetchPart]:
        """All partitions, to be read."""
        return [known.part for known in self.parts.values()]

    def answer(self, fetched: list[FetchedPart], is_full: bool) -> list[FetchedPart]:
        """The partitions that have changed since the last response. A partition with records is read last the next
        time, so that the others have their turn although an answer has a bound.
        """
        told: list[FetchedPart] = []
        for part in fetched:
            key = (part.topic, part.topic_id, part.partition)
            known = self.parts.get(key)
            size = 0
            for piece in part.records:
                size += len(piece)
            if known is None:
                if is_full:
                    told.append(part)
                continue
            if known.take(part, size) or is_full:
                told.append(part)
            if size:
                del self.parts[key]
                self.parts[key] = known
        return told


@final
class Opened:
    """What a request with a session asks: `error_code`, or the partitions to read. `session` is None if it got none."""

    def __init__(self, error_code: int, session: FetchSession | None, parts: list[FetchPart], is_full: bool) -> None:
        self.error_code = error_code
        self.session = session
        self.parts = parts
        self.is_full = is_full

    @property
    def session_id(self) -> int:
        """The id for the answer."""
        return self.session.session_id if self.session is not None else NO_SESSION

    def answer(self, fetched: list[FetchedPart]) -> list[FetchedPart]:
        """The partitions of this response that go to the client."""
        return self.session.answer(fetched, self.is_full) if self.session is not None else fetched


@final
class FetchSessions:
    """All sessions of a door, the least recently used first. `partitions` counts those of all of them."""

    def __init__(self, entropy: Entropy) -> None:
        self.partitions = 0
        self._entropy = entropy
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, by_id: bool, now_s: float) -> Opened:
        """Begin, continue or end a session."""
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, FIRST_EPOCH):
            self._drop(request.session_id)
            session = self._begin(request.parts, by_id, now_s) if epoch == FIRST_EPOCH else None
            return Opened(0, session, request.parts, True)
        session = self._sessions.pop(request.session_id, None)
        if session is None:
            return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None, [], True)
        self._sessions[session.session_id] = session  # The most recently used one is the last.
        session.used_s = now_s
        if session.by_id is not by_id:
            return Opened(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None, [], True)
        if session.epoch != epoch:
            return Opened(ErrorCode.INVALID_FETCH_SESSION_EPOCH, None, [], True)
        session.epoch = epoch + 1 if epoch < EPOCH_MAX else 1
        before = len(session.parts)
        for part in request.forgotten:
            session.parts.pop((part.topic, part.topic_id, part.partition), None)
        session.put(request.parts)
        self.partitions += len(session.parts) - before
        if not session.parts or self.partitions > PARTITIONS_MAX:
            self._drop(session.session_id)
            if session.parts:  # The client names its partitions again, without a session.
                return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None, [], True)
            return Opened(0, None, [], True)
        return Opened(0, session, session.wanted(), False)

    def _begin(self, parts: list[FetchPart], by_id: bool, now_s: float) -> FetchSession | None:
        """A new session; None if there is nothing to remember, or no room."""
        if not parts or not self._make_room(len(parts), now_s):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int.from_bytes(self._entropy.bytes(4), "big") & EPOCH_MAX
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now_s)
        session.put(parts)
        self.partitions += len(session.parts)
        return session

    def _make_room(self, partitions: int, now_s: float) -> bool:
        if partitions > PARTITIONS_MAX:
            return False
        while len(self._sessions) >= SESSIONS_MAX or self.partitions + partitions > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()))
            if now_s - oldest.used_s < IDLE_S_MIN:
                return False
            self._drop(oldest.session_id)
        return True

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.parts)
