"""The usage, invoice and audit jobs on Spark, over made records: right to the cent, reproducible, checked."""

from __future__ import annotations

import csv
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from longhall.records.batch import Record
from tests.pipeline.billing.made_months import FIRST, PLAN, SECOND
from tests.pipeline.conftest import Command, MakeTopic, Produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _records(values: list[bytes]) -> list[Record]:
    return [Record(-1, 1_790_000_000_000, None, value, ()) for value in values]


def _invoice(command: Command, place: Path, month: str) -> dict[str, str]:
    words = ("--plan", str(place / "plan.toml"), "--usage", str(place / "usage"), "--to", str(place / "invoices"))
    ended = command("invoice", "--month", month, *words, "-o", "json")
    assert ended.code == 0, ended.err
    return {each["tenant"]: each["total"] for each in json.loads(ended.out)}


def test_the_invoices_of_made_months_are_right_to_the_cent(
    spark: SparkSession, command: Command, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic()
    tables = str(tmp_path / "usage")
    (tmp_path / "plan.toml").write_text(PLAN)
    produce(topic, 0, _records(FIRST))
    (first,) = json.loads(command("usage", "--to", tables, "--topic", topic, "-o", "json").out)
    assert (first["records"], first["repeated"]) == (6, 1)
    assert json.loads(command("usage", "--to", tables, "--topic", topic, "-o", "json").out) == []
    assert _invoice(command, tmp_path, "2026-10") == {"acme": "4150.67", "zeta": "0.00"}
    before = (tmp_path / "invoices" / "2026-10" / "acme.html").read_bytes()

    produce(topic, 0, _records(SECOND))
    (second,) = json.loads(command("usage", "--to", tables, "--topic", topic, "-o", "json").out)
    assert (second["number"], second["records"], second["repeated"]) == (2, 3, 1)
    hours = spark.read.parquet(f"{tables}/hour")
    late = hours.where("ChargeClass = 'Correction'").groupBy("BillingAccountId").sum("ConsumedQuantity").collect()
    assert {row[0]: int(row[1]) for row in late} == {"acme": 250_000, "zeta": 1_249_990}

    assert _invoice(command, tmp_path, "2026-11") == {"acme": "75.20", "zeta": "100.00"}
    assert _invoice(command, tmp_path, "2026-10") == {"acme": "4150.67", "zeta": "0.00"}
    assert (tmp_path / "invoices" / "2026-10" / "acme.html").read_bytes() == before
    rows = list(csv.DictReader((tmp_path / "invoices" / "2026-11" / "acme.csv").open()))
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("75.20")
    assert [row["BilledCost"] for row in rows if row["ChargeClass"] == "Correction"] == ["75.00"]

    shutil.rmtree(f"{tables}/minute/run=00000002")
    shutil.copytree(f"{tables}/minute/run=00000001", f"{tables}/minute/run=00000002")
    words = ("--plan", str(tmp_path / "plan.toml"), "--usage", tables, "--to", str(tmp_path / "more"))
    ended = command("invoice", "--month", "2026-12", *words)
    assert ended.code == 1
    assert "the table minute and the raw records differ" in ended.err
    assert not (tmp_path / "more").exists()


def test_the_audit_topic_tells_who_did_what(
    spark: SparkSession, command: Command, make_topic: MakeTopic, produce: Produce
) -> None:
    topic = make_topic()
    made = {"time_ms": 1_790_000_000_000, "user": "alice", "address": "10.0.0.1", "tenant": "default"}
    deleted = {**made, "id": "a-1", "event": "operation", "action": "DeleteQueue", "resource": "orders"}
    refused = {**made, "id": "a-2", "event": "refusal", "allowed": False, "action": "write", "resource": "events"}
    again = {**refused, "id": "a-3", "address": "10.0.0.2"}
    produce(topic, 0, _records([json.dumps(each).encode() for each in (deleted, refused, again, again)]))
    words = ("--topic", topic, "--since", "2026-09-01T00:00", "--until", "2026-10-01T00:00", "-o", "json")
    found = json.loads(command("audit", *words).out)
    assert [(row["action"], row["resource"], row["count"], row["allowed"]) for row in found] == [
        ("write", "events", 2, False),
        ("DeleteQueue", "orders", 1, True),
    ]
    assert found[0]["addresses"] == ["10.0.0.1", "10.0.0.2"]
    assert [row["action"] for row in json.loads(command("audit", "--refused", *words).out)] == ["write"]
    assert json.loads(command("audit", "--user", "bob", *words).out) == []
