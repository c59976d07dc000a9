"""Sealed topics and the archive: what brokers give in clear is not written to files in clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.pipeline.archive.job import _refuse_sealed
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from soak.node import Node
from tests.clients.sealed.conftest import write_keys
from tests.clients.sealed.test_doors import produce


def test_a_topic_that_is_or_was_sealed_is_refused(tmp_path: Path) -> None:
    with Node(tmp_path / "data", options=["--keys", str(write_keys(tmp_path))]) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        topics = [NewTopic("sealed", 1, config={"longhall.sealed": "house"}), NewTopic("clear", 1)]
        for future in admin.create_topics(topics).values():
            future.result(10)
        with BlockingClient(node.bootstrap) as client:
            _refuse_sealed(client, "clear")
            with pytest.raises(PipelineError, match="in clear"):
                _refuse_sealed(client, "sealed")
            produce(node, "sealed", b"sealed")
            client.ask(lambda hall: hall.topics.alter("sealed", {"longhall.sealed": None}))
            with pytest.raises(PipelineError, match="is or was sealed"):
                _refuse_sealed(client, "sealed")
