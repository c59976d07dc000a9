"""Fuzz target: what strangers write into records, receipts, filters and files of an operator is read or refused.

The first byte chooses the reader. Records get any headers, ours among them; whatever they say, they are messages, and
copies of them (moved, dead, back at work, edited) say the same.
"""

from __future__ import annotations

from collections.abc import Callable

from longhall.doors.sqs.addresses import queue_of_arn, queue_of_url
from longhall.doors.sqs.policies import check_policy, check_redrive_allow_policy
from longhall.doors.sqs.wire.faults import SqsError
from longhall.errors import Code, LonghallError
from longhall.front.credentials import basic_login, read_credentials
from longhall.front.keys.master_keys import read_keys
from longhall.queues import envelope
from longhall.queues.envelope import Fields, decode_record, encode_record
from longhall.queues.messages import Outgoing
from longhall.queues.receipts import Receipts
from longhall.queues.record_copies import edited_record, redriven_record
from longhall.queues.selector import compile_filter
from longhall.records.record import Headers, Record

NAMES = sorted(value for name, value in vars(envelope).items() if name.isupper() and str(value).startswith("longhall."))
RECEIPTS = Receipts(b"secret of the fuzzer", 7)
GOOD = RECEIPTS.encode(1, 2, 3)
_KINDS = [
    (0, bytes([2, 1, 3]) + b"abc" + bytes([9, 2]) + b"12" + bytes([6, 255])),
    (1, GOOD.encode()),
    (2, b'{"a": [{"numeric": [">", 1]}], "$or": [{"b": ["x"]}, {"b": [{"wildcard": "a*b"}]}]}'),
    (2, b"a > 1 AND (b LIKE 'x%' OR NOT c IN ('d', 'e')) AND $priority BETWEEN 1 AND 3 OR f IS NULL"),
    (3, b"[alice]\naws_access_key_id = A\naws_secret_access_key = s\n"),
    (3, b"[keys]\nalias/a = enabled\n"),
    (4, b'{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*"}]}'),
    (4, b"http://127.0.0.1:9324/000000000000/orders"),
]
SEEDS = [bytes([kind]) + data for kind, data in _KINDS]


def TestOneInput(data: bytes) -> None:
    if len(data) < 2:
        return
    choice, rest = data[0] % 5, data[1:]
    text = rest.decode("utf-8", "replace")
    if choice == 0:
        _records(rest)
    elif choice == 1:
        _receipts(text)
    elif choice == 2:
        _filters(text, rest)
    elif choice == 3:
        _files(text, rest)
    else:
        _documents(text)


def _headers(data: bytes) -> Headers:
    """A byte for the name (one of ours, or the text that follows), a byte for the length, the value."""
    out: list[tuple[str, bytes | None]] = []
    at = 0
    while at + 2 <= len(data):
        name, size = data[at], data[at + 1]
        value = data[at + 2 : at + 2 + size % 64]
        at += 2 + size % 64
        out.append((NAMES[name % len(NAMES)] if name & 1 else f"name-{name}", None if size == 255 else value))
    return tuple(out)


def _records(data: bytes) -> None:
    key = None if data[0] & 1 else data[:4]
    record = Record(5, 1_000, key, None if data[0] & 2 else data, _headers(data[1:]))
    fields = decode_record(record, 3)
    envelope.peek_fields(record)
    envelope.due_of(record)
    envelope.priority_of(record)
    envelope.whole_of(record)
    assert envelope.body_bytes_of(record) >= 0
    assert min(fields.priority, fields.attempts, fields.expires_ms, fields.due_ms) >= 0
    identity = fields.message_id
    moved = decode_record(envelope.moved_record(record, identity, 2_000), 4)
    _same(moved, fields)
    assert (moved.message_id, moved.sent_ms) == (identity, max(fields.sent_ms, 0))
    dead = envelope.dead_letter_record(record, identity, 2_000, "source", "attempts", 9, 1_500)
    letter = decode_record(dead, 4)
    _same(letter, fields)
    assert (letter.dead_letter_source, letter.attempts, letter.expires_ms) == ("source", 9, 0)
    assert len(letter.deaths.split("\n")) <= envelope.DEATHS_MAX
    back = decode_record(_placed(redriven_record(dead, "new", 3_000)), 4)
    _same(back, fields)
    new_id = identity if envelope.seal_of(dead) else "new"  # A seal is bound to the id of its message.
    assert (back.message_id, back.dead_letter_source, back.attempts) == (new_id, "", 0)
    edited_record(record, identity, 2_000, b"other", None)
    _sent_again(fields)


def _placed(record: Record) -> Record:
    return Record(9, record.timestamp_ms, record.key, record.value, record.headers)


def _same(one: Fields, other: Fields) -> None:
    assert (one.body, one.key, one.attributes, one.system) == (other.body, other.key, other.attributes, other.system)
    assert (one.group, one.deduplication_id, one.priority) == (other.group, other.deduplication_id, other.priority)


def _sent_again(fields: Fields) -> None:
    """What one door read, another may send."""
    message = Outgoing(body=fields.body, attributes=fields.attributes, system=fields.system, group=fields.group)
    again = decode_record(encode_record(message, "id", 5_000), 4)
    assert (again.body, again.attributes, again.group) == (fields.body, fields.attributes, fields.group)


def _receipts(text: str) -> None:
    assert RECEIPTS.verify(text) in (Code.INVALID_RECEIPT, Code.RECEIPT_OF_OTHER_VERSION) or text == GOOD
    at = len(text) % len(GOOD)
    changed = GOOD[:at] + text[:3] + GOOD[at + len(text[:3]) :]
    assert changed == GOOD or isinstance(RECEIPTS.verify(changed), Code)


def _filters(text: str, data: bytes) -> None:
    if (error := _refusal(compile_filter, text)) is not None:
        assert isinstance(error, LonghallError)
        assert error.code is Code.INVALID_REQUEST
        return
    wanted = compile_filter(text)
    message = decode_record(Record(5, 1_000, data[:3], data, _headers(data)), 3)
    message.attributes["a"] = ("Number", data[:6])
    message.attributes["b"] = ("String.Array", data)
    assert wanted.matches(message) in (True, False)


def _files(text: str, data: bytes) -> None:
    for read in (read_credentials, read_keys):
        error = _refusal(read, text)
        assert error is None or (isinstance(error, LonghallError) and error.code is Code.INVALID_CONFIGURATION)
    login = basic_login(b"Basic " + data)
    assert login is None or len(login) == 2


def _documents(text: str) -> None:
    for read in (queue_of_url, lambda arn: queue_of_arn("SourceArn", arn), check_policy, check_redrive_allow_policy):
        error = _refusal(read, text)
        assert error is None or (isinstance(error, SqsError) and error.fault.sender)


def _refusal(read: Callable[[str], object], text: str) -> LonghallError | SqsError | None:
    """Why it was not read; anything else that is raised is a bug."""
    try:
        read(text)
    except (LonghallError, SqsError) as error:
        return error
    return None
