"""Limits at the Kafka door: Kafka's client quotas, and the rate limits that hold for every door.

    request                            counts as
    Produce                            send, once for each topic
    Fetch, ShareFetch                  receive, once for each topic that has something
    OffsetCommit, TxnOffsetCommit,     settle
    ShareAcknowledge
    what needs an administrative       manage
    permission, such as CreateTopics
    all others                         nothing: members must heartbeat, and clients find their leaders

Every request is carried out. The response tells the throttle time, and the connection is not read so long
(`throttle`); a fetch of a client that is over its limit has an empty response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, final

from longhall.directory.directory import Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged
from longhall.directory.rate_limits import MANAGE, RECEIVE, SEND, SETTLE
from longhall.doors.kafka.connection import Call
from longhall.front.client_limits import ClientLimits
from longhall.front.rate_limits import RateLimits
from longhall.records.header import LENGTH_ENDS_AT, RECORD_COUNT_AT
from longhall.world.ports import Buffer

HEADER_BYTES: Final = RECORD_COUNT_AT + 4
SETTLING_APIS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit", "ShareAcknowledge"})
DOOR: Final = "kafka"


class Transfer(NamedTuple):
    """The bytes and messages that a request sends to one topic, or gets from it."""

    topic: str
    size_bytes: int
    messages: int


@final
class KafkaLimits(DirectoryObserver):
    """The limits of all Kafka clients of one process. Invariant: `active` is True if there is a limit of any kind."""

    def __init__(
        self, directory: Directory, clients: ClientLimits, rates: RateLimits, now_ms: Callable[[], int]
    ) -> None:
        self.active = clients.active or rates.active
        self._clients = clients
        self._rates = rates
        self._now_ms = now_ms
        directory.observers.append(self)  # Behind both, which are told first.

    def directory_changed(self, event: DirectoryChanged) -> None:
        self.active = self._clients.active or self._rates.active

    def produced(self, call: Call, size_bytes: int, transfers: Sequence[Transfer]) -> int:
        """Charge a Produce request of this size; the milliseconds that the client has to wait, 0 if it need not."""
        client_id = call.header.client_id
        debt_ms = self._clients.produced(call.connection.principal, client_id, size_bytes, self._now_ms())
        return max(debt_ms, self._charge(call, SEND, transfers))

    def fetched(self, call: Call, transfers: Sequence[Transfer]) -> int:
        """Charge what a client gets; the milliseconds that it has to wait, 0 if it need not."""
        size_bytes = sum(one.size_bytes for one in transfers)
        if not size_bytes:
            return 0
        client_id = call.header.client_id
        debt_ms = self._clients.consumed(call.connection.principal, client_id, size_bytes, self._now_ms())
        return max(debt_ms, self._charge(call, RECEIVE, [one for one in transfers if one.size_bytes]))

    def fetch_debt_ms(self, call: Call, topics: Iterable[str]) -> int:
        """The milliseconds until a client may fetch from these topics; 0 if it may now."""
        debt_ms = self._clients.consumed(call.connection.principal, call.header.client_id, 0, self._now_ms())
        if not self._rates.active:
            return debt_ms
        for topic in {"", *topics}:
            debt_ms = max(debt_ms, self._rates.debt_ms(call.caller, RECEIVE, topic))
        return debt_ms

    def answered(self, call: Call, api: str, is_administrative: bool) -> int:
        """Charge a request that transfers no messages; the milliseconds that the client has to wait."""
        operation = SETTLE if api in SETTLING_APIS else MANAGE if is_administrative else ""
        if not operation or not self._rates.active:
            return 0
        return self._charge(call, operation, [Transfer("", 0, 0)])

    def _charge(self, call: Call, operation: str, transfers: Sequence[Transfer]) -> int:
        if not self._rates.active:
            return 0
        caller, debt_ms = call.caller, 0
        for one in transfers:
            self._rates.charge(caller, operation, one.topic, size_bytes=one.size_bytes, messages=one.messages)
            debt_ms = max(debt_ms, self._rates.debt_ms(caller, operation, one.topic))
        if debt_ms:
            self._rates.note_throttled(DOOR, operation)
        return debt_ms


def count_messages(buffers: Iterable[Buffer]) -> int:
    """The number of messages in batches that follow each other, by their headers. A batch whose header is in two
    buffers does not count.
    """
    count = at = 0
    for buffer in buffers:
        while at + HEADER_BYTES <= len(buffer):
            count += int.from_bytes(buffer[at + RECORD_COUNT_AT : at + HEADER_BYTES], "big")
            at += LENGTH_ENDS_AT + int.from_bytes(buffer[at + LENGTH_ENDS_AT - 4 : at + LENGTH_ENDS_AT], "big")
        at = max(at - len(buffer), 0)
    return count
