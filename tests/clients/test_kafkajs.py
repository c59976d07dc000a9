"""kafkajs: one run of the program under kafkajs/, judged case by case."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from aiokafka.partitioner import murmur2

from soak.node import Node
from tests.clients.presence import need_command
from tests.clients.programs import Saw, fetched, run_cases

HERE = Path(__file__).parent / "kafkajs"
PROGRAMS = ("setting", "records", "groups", "member", "admin", "transactions", "cases")

pytestmark = pytest.mark.timeout(480)


@pytest.fixture(scope="module")
def saw(module_bootstrap: str, node: Node | None) -> Saw:
    interpreter, npm = need_command("node", "kafkajs"), need_command("npm", "kafkajs")
    manifest = [HERE / "package.json", HERE / "package-lock.json"]
    libraries = fetched("kafkajs", manifest, [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    # Node finds libraries beside the program, so the program is put beside the libraries.
    for name in PROGRAMS:
        (libraries / f"{name}.js").write_bytes((HERE / f"{name}.js").read_bytes())
    return run_cases([interpreter, os.fspath(libraries / "cases.js"), module_bootstrap, uuid.uuid4().hex[:8]])


def test_a_record_keeps_all_its_parts(saw: Saw) -> None:
    assert saw("records.roundTrip") == {
        "baseOffset": "0",
        "first": {
            "key": "kéy",
            "value": "välue",
            "timestamp": "1700000000123",
            "offset": "0",
            "trace": "abc",
            "many": ["one", "two"],
        },
        "second": {"key": "tombstone", "value": None},
        "third": {"key": None, "value": ""},
    }


def test_every_compression(saw: Saw) -> None:
    assert saw("records.compressions")["equal"]


def test_every_kind_of_acknowledgement(saw: Saw) -> None:
    assert saw("records.acknowledgements")["values"] == ["0", "1", "-1"]


def test_big_records_pass_and_too_big_ones_do_not(saw: Saw) -> None:
    assert saw("records.sizes") == {"refused": "MESSAGE_TOO_LARGE", "lengths": [900 << 10, 5]}


def test_keys_are_hashed_to_the_partition_of_every_client(saw: Saw) -> None:
    places = saw("records.keyHash")["places"]
    assert places == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in (f"key-{n}" for n in range(60))}


def test_offsets_are_found_committed_and_resumed(saw: Saw) -> None:
    seen = saw("records.offsets")
    assert (seen["places"]["low"], seen["places"]["high"]) == ("0", "10")
    assert seen["byTime"]["offset"] == "4"
    assert seen["resumed"] == ["4", "5", "6", "7", "8", "9"]


def test_seek(saw: Saw) -> None:
    assert saw("records.seek")["got"][-3:] == ["7", "8", "9"]


def test_a_waiting_reader_wakes_on_the_first_record(saw: Saw) -> None:
    assert saw("records.wakesUp")["value"] == "wake"


def test_topics_are_made_on_first_use_or_not(saw: Saw) -> None:
    assert saw("records.firstUse") == {"made": True, "refused": "UNKNOWN_TOPIC_OR_PARTITION", "unused": False}


def test_members_come_and_leave(saw: Saw) -> None:
    assert saw("groups.comeAndLeave")["shared"] == [0, 1, 2, 3]


def test_a_member_that_dies_is_replaced(saw: Saw) -> None:
    assert saw("groups.dies")["owned"] == [0, 1, 2, 3]


def test_topics(saw: Saw) -> None:
    assert saw("admin.topics") == {"again": False, "listed": True}


def test_configuration(saw: Saw) -> None:
    assert saw("admin.configuration")["retention"] == "120000"


def test_records_are_deleted_up_to_an_offset(saw: Saw) -> None:
    seen = saw("admin.records")
    assert (seen["places"]["low"], seen["places"]["high"]) == ("4", "10")
    assert seen["left"] == ["4", "5", "6", "7", "8", "9"]


def test_groups(saw: Saw) -> None:
    assert saw("admin.groups") == {
        "stable": "Stable",
        "members": 1,
        "listed": True,
        "offsets": [[0, "5"], [1, "-1"]],
        "empty": "Empty",
        "left": False,
    }


def test_the_cluster_is_described(saw: Saw, bootstrap: str) -> None:
    seen = saw("admin.cluster")
    assert bootstrap in seen["addresses"]
    assert seen["clusterId"]


def test_an_idempotent_producer_writes_everything_once(saw: Saw) -> None:
    assert saw("transactions.idempotent")["values"] == [str(n) for n in range(20)]


def test_committed_is_seen_and_aborted_is_not(saw: Saw) -> None:
    assert saw("transactions.commitAbort") == {"committed": ["one", "three"], "everything": ["one", "two", "three"]}


def test_offsets_move_with_the_transaction(saw: Saw) -> None:
    assert saw("transactions.offsetsInside")["seen"] == ["7", "7"]


def test_a_newer_producer_fences_the_older(saw: Saw) -> None:
    seen = saw("transactions.fenced")
    assert seen["refused"] in {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
    assert seen["committed"] == ["newer"]
