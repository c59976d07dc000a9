"""The bytes by which a node that does not lead the hall refuses: every API and version has rows in `refusals.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhall.doors.kafka.not_leader import REFUSED
from longhall.doors.kafka.operations import OPERATIONS
from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.schema import decode, encode

KEYS = {api.name: api.key for api in API.values()}
ROWS = [line.split() for line in Path(__file__).with_name("refusals.txt").read_text().splitlines()[1:]]


@pytest.mark.parametrize("name", sorted({row[0] for row in ROWS}))
def test_a_refusal_has_the_bytes_that_clients_know(name: str) -> None:
    key = KEYS[name]
    for _, version, body, answer in (row for row in ROWS if row[0] == name):
        request, _ = decode(API[key].request, int(version), bytes.fromhex(body.strip("-")))
        assert encode(REFUSED[key](request, int(version)), int(version)).hex() == answer, f"version {version}"


def test_every_refusal_has_rows_for_every_version() -> None:
    wanted = {
        (API[key].name, str(version))
        for key in REFUSED
        for version in range(OPERATIONS[key].version_min, OPERATIONS[key].version_max + 1)
    }
    assert {(row[0], row[1]) for row in ROWS} == wanted
