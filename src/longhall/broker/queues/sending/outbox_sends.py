"""Sends of an atomic write to queues that other replication groups store: they are in the outbox with the write.

The hall is asked for the queue before the write, so that what the queue would refuse refuses the whole write. A queue
that becomes full between question and delivery does not: the message waits in the outbox, as dead letters do. Sequence
numbers are not known.
"""

from __future__ import annotations

from typing import final

from longhall.broker.feature_gates import may_use_outbox
from longhall.broker.hall import Hall
from longhall.broker.queues.outbox.outbox_delivery import OutboxCarrier
from longhall.broker.queues.outbox.outbox_log import MESSAGE_BYTES_MAX, has_room, put
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import RANDOM_BYTES, encode_record, new_message_id
from longhall.queues.messages import Accepted, WriteBack
from longhall.queues.outbox_events import OutboxEntry


@final
class OutboxSend:
    """Messages for one queue of another group."""

    def __init__(self, hall: Hall, name: str, send: WriteBack) -> None:
        if not may_use_outbox(hall):
            raise LonghallError(
                Code.INVALID_REQUEST,
                f"queue '{name}' is in another replication group than the settled messages, which needs a higher "
                "feature level",
            )
        self._hall = hall
        self._name = name
        self._messages = send.messages
        self.arrivals: dict[int, int] = {}  # By stream of the outbox: the offset behind the messages, after `write`.

    async def locate(self, carrier: OutboxCarrier | None) -> None:
        """Ask for the queue, and refuse what it does not take. Raises UNKNOWN_QUEUE if there is none."""
        if carrier is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{self._name}'.")
        location = await carrier.locate(self._name)
        bytes_max = min(location.message_bytes_max, MESSAGE_BYTES_MAX)
        for message in self._messages:
            if len(message.body) > bytes_max:
                raise LonghallError(
                    Code.MESSAGE_TOO_LARGE, f"a message to '{self._name}' may have {bytes_max} bytes from here"
                )
            if location.needs_id and not message.deduplication_id:
                raise LonghallError(
                    Code.INVALID_REQUEST, f"Queue '{self._name}' delivers exactly once: a message needs an id."
                )
        if location.refuses_when_full:
            size_bytes = sum(len(message.body) for message in self._messages)
            await carrier.check_room(self._name, len(self._messages), size_bytes)

    def plan(self) -> None:
        """Refuse what has no room. From here on nothing may be refused."""
        now_ms = self._hall.time.now_ms()
        for message in self._messages:
            encode_record(message, "", now_ms)  # Raises for reserved names.
        if not has_room(self._hall, self._name, len(self._messages)):
            raise LonghallError(Code.QUEUE_FULL, f"too many messages wait for '{self._name}'")

    def write(self) -> list[Accepted]:
        """Inside the atomic write."""
        hall = self._hall
        now_ms = hall.time.now_ms()
        answers: list[Accepted] = []
        for message in self._messages:
            message_id = message.message_id or new_message_id(hall.world.entropy.bytes(RANDOM_BYTES))
            entry = OutboxEntry(group=message.group, timestamp_ms=now_ms, message=message, message_id=message_id)
            stream, behind = put(hall, self._name, entry, now_ms)
            self.arrivals[stream] = behind
            if hall.usage.meter is not None:
                hall.usage.meter.sent(self._name, 1, len(message.body))
            answers.append(Accepted(message_id=message_id))
        return answers
