"""The bytes by which a node that does not lead the hall refuses: every API and version has rows in `refusals.txt`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from longhall.doors.kafka.not_leader import refusal_of
from longhall.doors.kafka.operations import OPERATIONS, Follower, Operation
from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.schema import decode, encode
from tests.doors.kafka.wire.samples import sample

REFUSING = (Follower.HAS_BLOCK, Follower.NOT_LEADER, Follower.NOT_COORDINATOR, Follower.EMPTY)
ROWS = [line.split() for line in Path(__file__).with_name("refusals.txt").read_text().splitlines()[1:]]
REFUSED = [row for row in OPERATIONS.values() if row.handler and row.follower_of(row.api.request()) in REFUSING]


@pytest.mark.parametrize("operation", REFUSED, ids=lambda operation: operation.api.name)
def test_a_refusal_has_the_bytes_that_clients_know(operation: Operation) -> None:
    versions = set()
    for name, version, body, answer in ROWS:
        if name == operation.api.name:
            request, _ = decode(operation.api.request, int(version), bytes.fromhex(body.strip("-")))
            refusal = refusal_of(operation, request, int(version))
            assert refusal is not None
            assert encode(refusal, int(version)).hex() == answer, f"version {version}"
            versions.add(int(version))
    assert versions == set(range(operation.version_min, operation.version_max + 1))


@pytest.mark.parametrize("operation", REFUSED, ids=lambda operation: operation.api.name)
def test_whatever_is_asked_can_be_refused(operation: Operation) -> None:
    random = Random(1)
    for version in range(operation.version_min, operation.version_max + 1):
        for _ in range(20):
            refusal = refusal_of(operation, sample(operation.api.request, version, random), version)
            assert refusal is not None
            assert decode(operation.api.response, version, encode(refusal, version))[0].TABLE


def test_everything_with_a_codec_is_offered() -> None:
    assert {api.name for key, api in API.items() if key not in OPERATIONS} == set()
