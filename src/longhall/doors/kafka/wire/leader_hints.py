"""Leader hints (KIP-951): the current leader of a partition beside an error, which saves the client a metadata request.

    partition   tagged field: (leader int32, epoch int32)
    response    tagged field 0: brokers: (node int32, host string, port int32, rack string or null)

Only responses with an error carry them. The hints of one response name each broker once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, final

from longhall.doors.kafka.wire.writer import write_count, write_text, write_varint

_INT32: Final = Struct(">i")
_LEADER: Final = Struct(">iib")  # leader, epoch, no tagged fields
_ENDPOINTS_TAG: Final = 0


@final
class LeaderHint:
    """The leader of a partition as this process knows it, with the address of its door."""

    def __init__(self, node_id: int, epoch: int, host: str, port: int, rack: str | None) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.host = host
        self.port = port
        self.rack = rack


def write_leader(out: bytearray, tag: int, hint: LeaderHint | None) -> None:
    """The tagged fields of a partition: the leader under this tag, or none."""
    if hint is None:
        out.append(0)
        return
    write_varint(out, 1)
    write_varint(out, tag)
    encoded = _LEADER.pack(hint.node_id, hint.epoch, 0)
    write_varint(out, len(encoded))
    out += encoded


def write_endpoints(out: bytearray, hints: list[LeaderHint]) -> None:
    """The tagged fields of a response: the addresses of these leaders, or none."""
    if not hints:
        out.append(0)
        return
    brokers = {hint.node_id: hint for hint in hints}
    encoded = bytearray()
    write_count(encoded, len(brokers), True)
    for broker in brokers.values():
        encoded += _INT32.pack(broker.node_id)
        write_text(encoded, broker.host, True)
        encoded += _INT32.pack(broker.port)
        write_text(encoded, broker.rack, True)
        encoded.append(0)
    write_varint(out, 1)
    write_varint(out, _ENDPOINTS_TAG)
    write_varint(out, len(encoded))
    out += encoded
