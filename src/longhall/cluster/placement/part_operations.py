"""Operations of the hall's leader on the parts of a queue in another replication group."""

from __future__ import annotations

from longhall.cluster.rpc.operation import Operation
from longhall.queues.placed_parts import PartsReport


class MeasureParts(Operation[PartsReport]):
    """The parts of the queue that owns this topic. UNKNOWN_TOPIC if the group does not have it."""

    name: str
    topic_id: bytes


class ChangeParts(Operation[PartsReport]):
    """Change the number of parts, of which `open` accept messages; the reply is what the group has then. The group
    closes no parts while Kafka producers may choose them, and hides none that are not drained.
    """

    name: str
    topic_id: bytes
    open: int
    shown: int
