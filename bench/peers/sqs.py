"""Longhall through its SQS door, beside the other SQS servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers.bare import Bare
from bench.peers.elasticmq import ElasticMq
from bench.peers.longhall import COMMAND, Longhall
from bench.peers.moto import Moto
from bench.peers.node import Node
from bench.peers.question import answers_list_queues


class LonghallQueues(Longhall):
    """One Longhall node, used at its SQS door; the Kafka door is open as well."""

    def __init__(
        self,
        *,
        arguments: Sequence[str] = (),
        directory: Path | None = None,
        name: str = "longhall",
        program: Path = COMMAND,
    ) -> None:
        given = ["--sqs", "127.0.0.1:0", *arguments]
        super().__init__(arguments=given, directory=directory, name=name, program=program)
        self._sqs = ""
        self._http = ""

    @property
    def http(self) -> str:
        return self._http

    @property
    def address(self) -> str:
        return self._sqs

    @property
    def kafka(self) -> str:
        return super().address

    def listening(self) -> bool:
        if not super().listening():
            return False
        addresses = json.loads(self._ready_path().read_text())
        self._sqs = str(addresses["sqs"])
        self._http = str(addresses["http"])
        return True

    def answers(self) -> bool:
        return answers_list_queues(self._sqs)


PEERS: dict[str, Callable[[], Node]] = {
    "longhall": LonghallQueues,
    "elasticmq": ElasticMq,
    "elasticmq-stored": lambda: ElasticMq(stored=True),
    "moto": Moto,
    "bare": Bare,
}
