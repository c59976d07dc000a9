"""Kafka requests that only the leader of the hall can answer, forwarded to it.

A Kafka client expects an answer in the version of its request, so the leader's own door encodes it. The process that
has the client's connection parses only the header of such a request.
"""

from __future__ import annotations

from longhall.cluster.rpc.operation import Operation


class AnswerKafkaRequest(Operation[bytes]):
    """Answer a request frame, without its size, as if the client had asked the leader; the reply has its size."""

    frame: bytes
