"""Kafka requests that only the leader of the hall can answer, on their way there.

A Kafka client expects an answer in the version that it asked in, so the leader's own door writes it. The process that
was asked reads no more than the head of such a request.
"""

from __future__ import annotations

from longhall.cluster.rpc.operation import Operation


class AnswerKafkaRequest(Operation[bytes]):
    """Answer a request frame, without its size, as if the client had asked the leader; the reply has its size."""

    frame: bytes
