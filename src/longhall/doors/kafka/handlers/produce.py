"""Produce: batches for partitions, answered when they are as durable as their topics ask."""

from __future__ import annotations

from typing import Final, final

from longhall.broker.send import Sent, send, wait
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.produce import ProducePart, encode_produce_response, parse_produce
from longhall.errors import Code
from longhall.shards.shard import Committable

SPEAKS_BATCHES_FROM: Final = 3  # Older versions carry message formats that are not taken.
ABORTABLE_FROM: Final = 11
ADDS_PARTITIONS_FROM: Final = 12  # From here on a batch brings its partition into the transaction by itself.


@final
class Produced(Committable):
    """A request whose batches are appended; answered when the last of them is committed."""

    def __init__(self, call: Call, parts: list[ProducePart]) -> None:
        self.call = call
        self.parts = parts
        self.missing = 1

    def committed(self, value: int) -> None:
        self.missing -= 1
        if self.missing == 0:
            header = self.call.header
            self.call.ready((encode_produce_response(header.correlation_id, header.version, self.parts),))


def handle(door: Door, call: Call) -> None:
    hall = door.hall
    header = call.header
    frame = call.frame
    request = parse_produce(frame, call.at, header.version)
    hall.traffic.sends += 1
    acks = request.acks
    if acks:
        call.connection.begin(call)
    produced = Produced(call, request.parts)
    for part in request.parts:
        name = part.topic or hall.topic_name(part.topic_id)
        partition = hall.partition(name, part.partition)
        if header.version < SPEAKS_BATCHES_FROM:
            sent = Sent(Code.UNSUPPORTED_FORMAT)
        elif acks not in (-1, 0, 1):
            part.error_code = 21  # INVALID_REQUIRED_ACKS
            continue
        elif partition is None:
            sent = Sent(Code.UNKNOWN_TOPIC_ID if part.topic_id else Code.UNKNOWN_TOPIC)
        elif part.records_size <= 0:
            sent = Sent(Code.INVALID_REQUEST)
        else:
            sent = send(
                hall,
                partition,
                frame,
                part.records_at,
                part.records_size,
                request.transactional_id,
                header.version >= ADDS_PARTITIONS_FROM,
            )
            part.log_start_offset = partition.log.start_offset
        if sent.code is None:
            assert partition is not None
            part.base_offset = sent.base_offset
            part.log_append_time_ms = sent.append_time_ms
            if acks:
                produced.missing += 1
                wait(hall, partition, produced, 0, leader_only=acks == 1)
        else:
            hall.traffic.sends_failed += 1
            hall.traffic.bytes_rejected += max(part.records_size, 0)
            code = fenced_as(sent.code, False)
            if code is Code.TRANSACTION_ABORTABLE and header.version < ABORTABLE_FROM:
                code = Code.INVALID_TRANSACTION_STATE
            part.error_code = error_of(code)
            part.error_message = sent.message or None
    call.frame = b""  # The answer may wait for the disk; the bytes need not.
    if acks:
        produced.committed(0)
    elif any(part.error_code for part in request.parts):
        call.connection.close()  # Without answers this is the only way to tell.
