"""What the API says, as rows: bytes, times and what is missing."""

from __future__ import annotations

import msgspec
import pytest

from longhall.pipeline.api_client import ApiClient
from longhall.pipeline.audit_frames import FIELDS, id_prefix
from longhall.pipeline.queue_rows import ROWS, TABLES, arrow_batch
from longhall.pipeline.refusals import PipelineError
from longhall.queues.audit import Audited
from longhall.queues.envelope import derive_message_id


def test_a_binary_message_keeps_its_bytes() -> None:
    batch = arrow_batch(
        "messages",
        [
            {
                "lane": -3,
                "offset": -1,
                "state": "delayed",
                "until_ms": 1500,
                "message": {
                    "message_id": "a",
                    "body": {"base64": "/w=="},
                    "attributes": {"n": {"type": "Number", "value": "4"}},
                },
            },
            {"lane": 0, "offset": 7, "state": "waiting", "message": {"message_id": "b", "body": "text", "key": "k"}},
        ],
    )
    first, second = batch.to_pylist()
    assert (first["value"], first["body"], first["offset"], first["partition"]) == (b"\xff", None, None, -3)
    assert (first["until"].timestamp(), first["sent"], first["attributes"]) == (1.5, None, [("n", "4")])
    assert (second["value"], second["body"], second["key"], second["offset"]) == (b"text", "text", b"k", 7)


def test_every_row_has_every_column() -> None:
    message = {"message_id": "a", "body": ""}
    told = {
        "messages": {"lane": 0, "offset": 0, "state": "waiting", "message": message},
        "leases": {"message_id": "a", "lane": 0, "offset": 0, "until_ms": 5},
        "dead_letters": {"lane": 0, "offset": 0, **message},
    }
    for table, columns in TABLES.items():
        assert set(ROWS[table](told[table])) == set(columns)


def test_the_fields_of_the_audit_are_those_that_queues_write() -> None:
    written = {field.name for field in msgspec.structs.fields(Audited)}
    assert set(FIELDS) == written - {"version"}


@pytest.mark.parametrize("lane", [0, 3, 0xFFF, 0x1000, 0x1234567])
def test_derived_ids_are_those_of_the_queue(lane: int) -> None:
    assert derive_message_id(lane, 0x123).startswith(id_prefix(lane) + "-8")


def test_an_address_without_a_node_is_one_line() -> None:
    with pytest.raises(PipelineError, match=r"no node answers at 127\.0\.0\.1:9; is it running"):
        ApiClient("127.0.0.1:9").ask("GET", "queues/x")
    with pytest.raises(PipelineError, match="is no address; write HOST:PORT"):
        ApiClient("nowhere").ask("GET", "queues/x")
