"""What the Kafka doors of other processes ask of the leader of the hall.

Requests that only the leader can answer are forwarded to it: a Kafka client expects an answer in the version of its
request, so the leader's own door encodes it. The process that has the client's connection parses only the header of
such a request.
"""

from __future__ import annotations

from longhall.broker.producer_ids import ProducerIdBlock
from longhall.cluster.rpc.operation import Operation


class AnswerKafkaRequest(Operation[bytes]):
    """Answer a request frame, without its size, as if the client had asked the leader; the reply has its size."""

    frame: bytes


class ReserveProducerIds(Operation[ProducerIdBlock]):
    """Reserve a block of producer ids, which the asking process gives out to its clients."""
