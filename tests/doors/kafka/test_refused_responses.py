"""Refused requests of every API have a line in the log, and the normal course of the protocol has none."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from longhall.doors.kafka.refused_responses import RefusedPart, refused_part
from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.messages import configs, groups, topics
from tests.doors.kafka.asking import ask, fetch
from tests.doors.two_nodes import two_nodes


async def test_a_refusal_is_logged_once_with_its_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "longhall.requests")
    async with two_nodes(tmp_path) as two:
        wanted = topics.CreateTopicsRequestTopic(name="a b", num_partitions=1, replication_factor=-1)
        for _ in range(3):
            await ask(two.leader, topics.CreateTopicsRequest(topics=[wanted], timeout_ms=1000), 5)
        await fetch(two.leader, ("unknown", 0))
        await ask(two.follower, groups.HeartbeatRequest(group_id="g", member_id="m"), 3)  # NOT_COORDINATOR.
    lines = [
        (record.__dict__["request"], record.__dict__["error"], record.__dict__["reason"])
        for record in caplog.records
        if record.name == "longhall.requests"
    ]
    assert [line[:2] for line in lines] == [("CreateTopics", "invalid-name"), ("Fetch", "unknown-topic")]
    assert lines[0][2].startswith("a b: ")


def test_the_first_refusal_in_any_row_is_found() -> None:
    good = configs.AlterConfigsResponseResource(resource_type=2, resource_name="good", error_message=None)
    bad = configs.AlterConfigsResponseResource(
        resource_type=2, resource_name="bad", error_code=40, error_message="no such setting"
    )
    found = refused_part(configs.AlterConfigsResponse(responses=[good, bad]))
    assert found == RefusedPart("invalid-configuration", "bad: no such setting")
    assert refused_part(configs.AlterConfigsResponse(responses=[good])) is None


@pytest.mark.parametrize("name", sorted(api.name for api in API.values()))
def test_an_empty_response_of_every_api_is_no_refusal(name: str) -> None:
    (api,) = [api for api in API.values() if api.name == name]
    assert api.response is None or refused_part(api.response()) is None
