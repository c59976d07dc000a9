"""Messages as lines: the input of `produce` and the output of `consume`.

Text: the value; optionally the key and a separator before it, and headers and a tab before that. JSON lines: one object
a message. The output of one command is the input of the other, so that

    longhall consume a -o json | longhall produce b --format json

copies a topic. Bytes that are not UTF-8 become {"base64": "..."}.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final, NamedTuple

from longhall.cli.exits import CommandError, Exit
from longhall.cli.timestamps import show_timestamp
from longhall.records.record import Headers, Record

NULL: Final = "null"


class Message(NamedTuple):
    """A message to produce. Without a partition the key decides, or any partition is used."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class LineStyle(NamedTuple):
    """The parts of a text line."""

    key_separator: bytes | None = None
    with_headers: bool = False
    with_timestamp: bool = False
    with_place: bool = False  # Partition and offset.


def parse_header(text: str) -> tuple[str, bytes | None]:
    """`NAME=VALUE`; a name alone has no value."""
    name, equals, value = text.partition("=")
    if not name:
        raise CommandError(f"header {text!r}: write NAME=VALUE", Exit.USAGE)
    return name, value.encode() if equals else None


def parse_text_line(line: bytes, style: LineStyle, number: int) -> Message:
    """One line without its end: headers as `a=1,b=2`, a tab, the key, the separator, the value."""
    headers: Headers = ()
    if style.with_headers:
        words, tab, line = line.partition(b"\t")
        if not tab:
            raise CommandError(
                f"line {number} has no headers: write NAME=VALUE,... and a tab before the rest", Exit.USAGE
            )
        headers = tuple(parse_header(word) for word in words.decode("utf-8", "replace").split(",") if word)
    if style.key_separator is None:
        return Message(None, line, headers)
    key, separator, value = line.partition(style.key_separator)
    if not separator:
        raise CommandError(f"line {number} has no key: there is no {style.key_separator.decode()!r} in it", Exit.USAGE)
    return Message(key, value, headers)


def parse_json_line(line: bytes, number: int) -> Message:
    """One object with `key`, `value`, `headers`, `partition` and `timestamp_ms`, all of them optional."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("it is not an object")
        partition, timestamp = fields.get("partition"), fields.get("timestamp_ms")
        for each in (partition, timestamp):
            if each is not None and (not isinstance(each, int) or isinstance(each, bool)):
                raise ValueError("partition and timestamp_ms are whole numbers")
        return Message(
            _bytes_of(fields.get("key")),
            _bytes_of(fields.get("value")),
            tuple((name, _bytes_of(value)) for name, value in _header_pairs(fields.get("headers"))),
            partition,
            timestamp,
        )
    except (ValueError, binascii.Error) as failure:
        raise CommandError(f"line {number} is not a message: {failure}", Exit.USAGE) from None


def text_line(record: Record, partition: int, style: LineStyle) -> bytes:
    """A record as a line with its end. The key and the value are written as they are."""
    parts: list[bytes] = []
    if style.with_place:
        parts.append(f"{partition}:{record.offset}".encode())
    if style.with_timestamp:
        parts.append((show_timestamp(record.timestamp_ms) or "-").encode())
    if style.with_headers:
        words = (name.encode() if value is None else name.encode() + b"=" + value for name, value in record.headers)
        parts.append(b",".join(words))
    value = NULL.encode() if record.value is None else record.value
    if style.key_separator is not None:
        value = (NULL.encode() if record.key is None else record.key) + style.key_separator + value
    parts.append(value)
    return b"\t".join(parts) + b"\n"


def json_line(record: Record, topic: str, partition: int) -> bytes:
    """A record as a JSON object with everything it has."""
    fields = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _json_of(record.key),
        "value": _json_of(record.value),
        "headers": [[name, _json_of(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def printable(line: bytes) -> bytes:
    """A line for a terminal, with control characters escaped."""
    text = line.decode("utf-8", "backslashreplace").removesuffix("\n")
    return ("".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text) + "\n").encode()


def _json_of(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes_of(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        # JSON can spell half a character, which has no bytes.
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str) and len(value) == 1:
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()  # An object as it stands.


def _header_pairs(headers: object) -> list[tuple[str, object]]:
    if headers is None:
        return []
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list):
        raise ValueError("headers are an object or a list of pairs")
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError("a header is a name and a value")
    return [(name, value) for name, value in pairs]
