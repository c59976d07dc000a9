"""What a message becomes as a record, what any record is as a message, and that nothing is lost on the way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.queues.envelope import (
    DEATHS_MAX,
    DUE,
    EXPIRES,
    OFFSET_MAX,
    PARTITION_MAX,
    PREFIX,
    RECEIVED,
    dead_letter_record,
    decode_record,
    derive_message_id,
    due_of,
    encode_record,
    group_text,
    locate_message_id,
    moved_record,
    peek_fields,
    released_record,
    sent_as,
)
from longhall.queues.messages import Outgoing
from longhall.queues.record_copies import redriven_record
from longhall.records.batch import Record, build_batch, read_records

UUID_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = words.filter(lambda name: not name.startswith(PREFIX))
kinds = st.sampled_from(["String", "Number", "Binary", "String.Array", "Number.float"])
outgoing_messages = st.builds(
    Outgoing,
    body=st.binary(max_size=64),
    attributes=st.dictionaries(names, st.tuples(kinds, st.binary(max_size=12)), max_size=5),
    system=st.dictionaries(words, words, max_size=2),
    key=st.none() | st.binary(max_size=8),
    group=words,
    deduplication_id=words,
    priority=st.integers(0, 254),
    reply_to=words,
    correlation_id=words,
    report_fate=st.booleans(),
)
times = st.integers(0, 10**15)
any_records = st.builds(
    Record,
    st.integers(0, 2**40),
    st.integers(-1, 10**15),
    st.none() | st.binary(max_size=8),
    st.none() | st.binary(max_size=32),
    st.lists(
        st.tuples(
            words
            | st.sampled_from(
                ["id", "group", "expires-ms", "due-ms", "priority", "type.a", "system.b", "sent-ms", "deaths", "new"]
            ).map(lambda word: PREFIX + word),
            st.none() | st.binary(max_size=8),
        ),
        max_size=6,
    ).map(tuple),
)


def stored(record: Record) -> Record:
    """What comes back from a log."""
    return read_records(build_batch([record], base_offset=7), 0)[0]


@given(outgoing_messages, words, times, times, times, words)
def test_a_message_round_trips_through_the_log(
    sent: Outgoing, message_id: str, now_ms: int, expires_ms: int, due_ms: int, sender: str
) -> None:
    fields = decode_record(stored(encode_record(sent, message_id, now_ms, expires_ms, due_ms, sender)), 3)
    assert fields.message_id == (message_id or derive_message_id(3, 7))
    for name in ("body", "attributes", "system", "key", "group", "deduplication_id", "priority"):
        assert getattr(fields, name) == getattr(sent, name)
    for name in ("reply_to", "correlation_id", "report_fate"):
        assert getattr(fields, name) == getattr(sent, name)
    assert (fields.sent_ms, fields.expires_ms, fields.due_ms, fields.sender) == (now_ms, expires_ms, due_ms, sender)


def test_a_kafka_reader_sees_plain_headers() -> None:
    sent = Outgoing(
        body=b"hello",
        key=b"k",
        attributes={
            "city": ("String", "Žilina".encode()),
            "price": ("Number", b"12.5"),
            "raw": ("Binary", b"\xff\x00"),
        },
    )
    record = encode_record(sent, "", 1000)
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"hello", 1000)
    assert [header for header in record.headers if not header[0].startswith(PREFIX)] == [
        ("city", "Žilina".encode()),
        ("price", b"12.5"),
        ("raw", b"\xff\x00"),
    ]


def test_a_plain_message_needs_no_headers_at_all() -> None:
    assert encode_record(Outgoing(body=b"x"), "", 1).headers == ()


@given(any_records, st.integers(0, PARTITION_MAX))
def test_every_record_of_a_kafka_producer_is_a_message(record: Record, partition: int) -> None:
    fields = decode_record(record, partition)
    assert fields.body == (record.value or b"")
    assert fields.message_id
    plain = [(name, value or b"") for name, value in record.headers if not name.startswith(PREFIX)]
    assert list(fields.attributes) == list(dict.fromkeys(name for name, _ in plain))
    for name, (_, value) in fields.attributes.items():
        assert value == next(found for other, found in plain if other == name)  # The first wins.
    group, expires_ms, due_ms = peek_fields(record)
    assert due_ms == fields.due_ms or (DUE, None) in record.headers
    assert expires_ms == fields.expires_ms or (EXPIRES, None) in record.headers
    assert due_of(record) == fields.due_ms or (DUE, None) in record.headers
    assert group_text(group) == (fields.group or group_text(record.key or b""))
    assert released_record(record, partition, 7) == moved_record(record, fields.message_id, 7)
    identity, named_group, message_id, received_ms = sent_as(record)
    assert received_ms == record.timestamp_ms or (RECEIVED, b"%d" % received_ms) in record.headers
    assert identity == (fields.deduplication_id if fields.sent_ms == record.timestamp_ms else "")
    assert (named_group, message_id or derive_message_id(partition, record.offset)) == (fields.group, fields.message_id)


def test_headers_that_are_not_text_are_binary_attributes() -> None:
    fields = decode_record(Record(0, 5, None, None, (("a", b"\xff"), ("a", b"second"), ("b", None))), 1)
    assert fields.attributes == {"a": ("Binary", b"\xff"), "b": ("String", b"")}
    assert fields.body == b""


def test_the_key_is_the_default_group() -> None:
    assert peek_fields(Record(0, 0, b"k", b"")) == (b"k", 0, 0)
    assert peek_fields(encode_record(Outgoing(body=b"", key=b"k", group="g"), "", 0, expires_ms=9)) == (b"g", 9, 0)
    assert group_text(b"\xff\x00") == "hex:ff00"


def test_attributes_with_the_reserved_prefix_are_refused() -> None:
    with pytest.raises(LonghallError) as refusal:
        encode_record(Outgoing(body=b"", attributes={"longhall.id": ("String", b"x")}), "", 0)
    assert refusal.value.code is Code.INVALID_REQUEST


@given(st.integers(0, PARTITION_MAX), st.integers(0, OFFSET_MAX), st.integers(0, PARTITION_MAX))
def test_every_position_has_a_distinct_id(partition: int, offset: int, salt: int) -> None:
    derived = derive_message_id(partition, offset, salt)
    assert UUID_SHAPE.fullmatch(derived)
    assert locate_message_id(derived, salt) == (partition, offset)


@given(st.text(max_size=40) | st.uuids(version=4).map(str))
def test_other_ids_have_no_position(message_id: str) -> None:
    assert locate_message_id(message_id) is None


@given(any_records)
def test_a_move_keeps_the_message_and_gives_it_a_new_timestamp(record: Record) -> None:
    before = decode_record(record, 5)
    moved = moved_record(record, before.message_id, 10**15 + 1)
    assert moved.timestamp_ms == 10**15 + 1
    after = decode_record(stored(moved), 6)
    assert after.due_ms == 0
    for name in ("message_id", "body", "key", "attributes", "system", "group", "expires_ms", "priority", "deaths"):
        assert getattr(after, name) == getattr(before, name)
    if before.sent_ms > 0:
        assert after.sent_ms == before.sent_ms


def test_a_dead_letter_has_its_history_and_a_redriven_one_keeps_it() -> None:
    record = encode_record(Outgoing(body=b"b", priority=2), "", 100, expires_ms=5000)
    died = dead_letter_record(record, "m-1", 6000, "orders", "expired", 3, first_received_ms=200)
    fields = decode_record(died, 1)
    assert (fields.dead_letter_source, fields.dead_letter_reason) == ("orders", "expired")
    assert (fields.attempts, fields.first_received_ms, fields.sent_ms, fields.message_id) == (3, 200, 100, "m-1")
    assert (fields.expires_ms, fields.priority, fields.deaths) == (0, 2, "6000 3 expired orders")
    died.offset = 4
    again = redriven_record(died, "m-2", 7000)
    fields = decode_record(Record(9, 7000, again.key, again.value, again.headers), 1)
    assert (fields.dead_letter_source, fields.attempts, fields.sent_ms) == ("", 0, 7000)
    assert fields.message_id == "m-2"
    for attempt in range(DEATHS_MAX + 3):
        again = dead_letter_record(again, "m-1", 8000 + attempt, "orders", "attempts", 1)
    lines = decode_record(again, 1).deaths.split("\n")
    assert len(lines) == DEATHS_MAX
    assert lines[-1] == f"{8000 + DEATHS_MAX + 2} 1 attempts orders"
