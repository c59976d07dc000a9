"""The mapping between a queue message and a Kafka record, in both directions.

    message                      record
    ---------------------------  -----------------------------------------------------------------------------------
    body                         value, byte for byte (a null value reads as an empty body)
    key                          key
    sent time                    timestamp; `longhall.sent-ms` once a move gave the record a timestamp of its own
    attribute NAME               header NAME with the value's bytes: text as UTF-8, Binary raw
    its type, unless String      header `longhall.type.NAME`: "Number", "Binary", "String.Array" ...
    a door's own field NAME      header `longhall.system.NAME`, text
    message id                   header `longhall.id`, text; without it (a Kafka producer writes none), the id that
                                 partition and offset make
    group                        header `longhall.group`, text; without it a FIFO queue takes the key for the group
    deduplication id             header `longhall.deduplication-id`, text
    end of its time to live      header `longhall.expires-ms`, decimal, hall time
    when it is due               header `longhall.due-ms`, decimal, hall time; a queue does not deliver it before
    when it was received         header `longhall.received-ms`, decimal, hall time: the begin of the deduplication
                                 window, in records of Kafka producers, whose timestamps are their own
    priority                     header `longhall.priority`, decimal, unless 0
    reply queue, correlation     headers `longhall.reply-to`, `longhall.correlation-id`, text
    wants a delivery report      header `longhall.report-fate`: "1"
    sender                       header `longhall.sender`, text
    stamp of the sender          header `longhall.stamp`, decimal, unless 0
    is older than one delivered  header `longhall.late`: "1"; written by the broker, see `queues/stamps.py`
    where and why it died        headers `longhall.dead-letter-source`, `longhall.dead-letter-reason`, text
    attempts before it died      headers `longhall.attempts`, `longhall.first-received-ms`, decimal
    its AMQP properties          header `longhall.amqp`, bytes: `exchanges/properties.py`
    its seal                     header `longhall.seal`, bytes: `records/seal.py`; the value is ciphertext then
    how its attempts ended       header `longhall.attempt-history`: a line each, "received ended how", oldest first
    all its deaths so far        header `longhall.deaths`: a line each, "time attempts reason source", oldest first
    a body stored in chunks      header `longhall.whole`, the name of the chunks, and `longhall.whole-bytes`, their size
                                 in decimal; the value is a note in JSON that says so
    is a delivery report         header `longhall.fate`: the fate of the message that `longhall.correlation-id` names
    which queue retries it       header `longhall.retry-source`; only in retry topics, with `longhall.attempts` and
                                 `longhall.due-ms`
    is the copy of a level       header `longhall.original`, "partition:offset" of the message: `queues/level_copies.py`

Headers are written only if they have a value. Reading is total: every record of a Kafka producer is a message. A header
without the prefix is an attribute, of type String if its bytes are UTF-8 and Binary if not; of two headers with one
name the first is the attribute (the record keeps both); a null value reads as empty. Of a header with the prefix the
last counts; an unreadable one counts as missing, and an unknown one is ignored and kept in copies. Producers with
access to the topic can write these headers too, so no permission depends on them.

This module does not know which fields a door shows, and knows no settings, cursors or files.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.queues.messages import Attribute, Outgoing
from longhall.records.record import Headers, Record

PREFIX: Final = "longhall."
TYPE_PREFIX: Final = "longhall.type."
SYSTEM_PREFIX: Final = "longhall.system."
ID: Final = "longhall.id"
SENT: Final = "longhall.sent-ms"
GROUP: Final = "longhall.group"
DEDUPLICATION_ID: Final = "longhall.deduplication-id"
EXPIRES: Final = "longhall.expires-ms"
DUE: Final = "longhall.due-ms"
RECEIVED: Final = "longhall.received-ms"
PRIORITY: Final = "longhall.priority"
REPLY_TO: Final = "longhall.reply-to"
CORRELATION_ID: Final = "longhall.correlation-id"
REPORT_FATE: Final = "longhall.report-fate"
SENDER: Final = "longhall.sender"
STAMP: Final = "longhall.stamp"
LATE: Final = "longhall.late"
DEAD_LETTER_SOURCE: Final = "longhall.dead-letter-source"
DEAD_LETTER_REASON: Final = "longhall.dead-letter-reason"
ATTEMPTS: Final = "longhall.attempts"
FIRST_RECEIVED: Final = "longhall.first-received-ms"
DEATHS: Final = "longhall.deaths"
WHOLE: Final = "longhall.whole"
WHOLE_BYTES: Final = "longhall.whole-bytes"
ATTEMPT_HISTORY: Final = "longhall.attempt-history"
FATE: Final = "longhall.fate"
RETRY_SOURCE: Final = "longhall.retry-source"
AMQP: Final = "longhall.amqp"
SEAL: Final = "longhall.seal"
ORIGINAL: Final = "longhall.original"

STRING: Final = "String"
BINARY: Final = "Binary"

DEATHS_MAX: Final = 16  # Lines of history; the oldest are dropped.
NUMBER_DIGITS_MAX: Final = 18  # Of decimals in `longhall.` headers: they fit 64 bits.
RANDOM_BYTES: Final = 16  # Of a message id.
PARTITION_MAX: Final = (1 << 60) - 1
OFFSET_MAX: Final = (1 << 62) - 1

_TYPE_AT: Final = len(TYPE_PREFIX)
_SYSTEM_AT: Final = len(SYSTEM_PREFIX)


@final
class Fields:
    """The fields of a record as a message. Times are hall time; 0 and "" mean that the field is absent."""

    def __init__(self, body: bytes, key: bytes | None, sent_ms: int) -> None:
        self.body = body
        self.key = key
        self.sent_ms = sent_ms
        self.attributes: dict[str, Attribute] = {}
        self.system: dict[str, str] = {}
        self.message_id = ""
        self.group = ""
        self.deduplication_id = ""
        self.expires_ms = 0
        self.due_ms = 0
        self.priority = 0
        self.reply_to = ""
        self.correlation_id = ""
        self.report_fate = False
        self.sender = ""
        self.stamp = 0
        self.dead_letter_source = ""
        self.dead_letter_reason = ""
        self.attempts = 0
        self.first_received_ms = 0
        self.attempt_history = ""
        self.deaths = ""
        self.whole = ""
        self.whole_bytes = 0
        self.fate = ""
        self.amqp = b""
        self.seal = b""


def encode_record(
    outgoing: Outgoing,
    message_id: str,
    now_ms: int,
    expires_ms: int = 0,
    due_ms: int = 0,
    sender: str = "",
) -> Record:
    """The record of a message sent now. Without a message id, readers derive it from partition and offset.

    Raises INVALID_REQUEST for an attribute whose name begins with `longhall.`.
    """
    headers: list[tuple[str, bytes | None]] = []
    if message_id:
        headers.append((ID, message_id.encode()))
    if outgoing.group:
        headers.append((GROUP, outgoing.group.encode()))
    if outgoing.deduplication_id:
        headers.append((DEDUPLICATION_ID, outgoing.deduplication_id.encode()))
    if expires_ms > 0:
        headers.append((EXPIRES, b"%d" % expires_ms))
    if due_ms > 0:
        headers.append((DUE, b"%d" % due_ms))
    if outgoing.priority > 0:
        headers.append((PRIORITY, b"%d" % outgoing.priority))
    if outgoing.reply_to:
        headers.append((REPLY_TO, outgoing.reply_to.encode()))
    if outgoing.correlation_id:
        headers.append((CORRELATION_ID, outgoing.correlation_id.encode()))
    if outgoing.report_fate:
        headers.append((REPORT_FATE, b"1"))
    if outgoing.stamp > 0:
        headers.append((STAMP, b"%d" % outgoing.stamp))
    if outgoing.seal:
        headers.append((SEAL, outgoing.seal))
    if sender:
        headers.append((SENDER, sender.encode()))
    if outgoing.amqp:
        headers.append((AMQP, outgoing.amqp))
    if outgoing.attributes:
        append_attributes(headers, outgoing.attributes)
    if outgoing.system:
        for name, text in outgoing.system.items():
            headers.append((SYSTEM_PREFIX + name, text.encode()))
    return Record(-1, now_ms, outgoing.key, outgoing.body, tuple(headers))


def append_attributes(headers: list[tuple[str, bytes | None]], attributes: dict[str, Attribute]) -> None:
    """The headers of attributes. Raises INVALID_REQUEST for a reserved name."""
    for name, attribute in attributes.items():
        if name.startswith(PREFIX):
            raise LonghallError(Code.INVALID_REQUEST, f"attribute {name!r}: the prefix {PREFIX!r} is reserved")
        kind, value = attribute
        headers.append((name, value))
        if kind != STRING or not _is_text(value):
            headers.append((TYPE_PREFIX + name, kind.encode()))


def decode_record(record: Record, partition: int, salt: int = 0) -> Fields:
    """The message of a record, from any producer."""
    value = record.value
    fields = Fields(b"" if value is None else value, record.key, record.timestamp_ms)
    if record.headers:
        _read_headers(fields, record.headers)
    if not fields.message_id:
        fields.message_id = derive_message_id(partition, record.offset, salt)
    return fields


def _read_headers(fields: Fields, headers: Headers) -> None:
    kinds: dict[str, str] | None = None
    attributes = fields.attributes
    for name, raw in headers:
        value = b"" if raw is None else raw
        if not name.startswith(PREFIX):
            if name not in attributes:
                attributes[name] = (STRING if _is_text(value) else BINARY, value)
        elif name.startswith(TYPE_PREFIX):
            if kinds is None:
                kinds = {}
            kinds[name[_TYPE_AT:]] = _text(value)
        elif name.startswith(SYSTEM_PREFIX):
            fields.system[name[_SYSTEM_AT:]] = _text(value)
        else:
            _read_ours(fields, name, value)
    if kinds is not None:
        for name, kind in kinds.items():
            attribute = attributes.get(name)
            if attribute is not None and kind:
                attributes[name] = (kind, attribute[1])


def _read_ours(fields: Fields, name: str, value: bytes) -> None:
    """Read a `longhall.` header. The branches are in the order of frequency."""
    if name == ID:
        fields.message_id = _text(value)
    elif name == SEAL:
        fields.seal = value
    elif name == AMQP:
        fields.amqp = value
    elif name == GROUP:
        fields.group = _text(value) or fields.group
    elif name == DEDUPLICATION_ID:
        fields.deduplication_id = _text(value)
    elif name == EXPIRES:
        fields.expires_ms = _number(value)
    elif name == SENDER:
        fields.sender = _text(value)
    elif name == PRIORITY:
        fields.priority = _number(value)
    elif name == DUE:
        fields.due_ms = _number(value)
    elif name == SENT:
        fields.sent_ms = _number(value) or fields.sent_ms
    elif name == REPLY_TO:
        fields.reply_to = _text(value)
    elif name == CORRELATION_ID:
        fields.correlation_id = _text(value)
    elif name == REPORT_FATE:
        fields.report_fate = value == b"1"
    elif name == STAMP:
        fields.stamp = _number(value)
    else:
        _read_death(fields, name, value)


def _read_death(fields: Fields, name: str, value: bytes) -> None:
    if name == DEAD_LETTER_SOURCE:
        fields.dead_letter_source = _text(value)
    elif name == DEAD_LETTER_REASON:
        fields.dead_letter_reason = _text(value)
    elif name == ATTEMPTS:
        fields.attempts = _number(value)
    elif name == FIRST_RECEIVED:
        fields.first_received_ms = _number(value)
    elif name == ATTEMPT_HISTORY:
        fields.attempt_history = _text(value)
    elif name == DEATHS:
        fields.deaths = _text(value)
    elif name == WHOLE:
        fields.whole = _text(value)
    elif name == WHOLE_BYTES:
        fields.whole_bytes = _number(value)
    elif name == FATE:
        fields.fate = _text(value)


def peek_fields(record: Record) -> tuple[bytes, int, int]:
    """Group, end of the time to live and due time (0: none): the fields that a scan needs.

    A FIFO queue orders by the group: the header, else the key, else b"".
    """
    group = record.key
    expires_ms = 0
    due_ms = 0
    for name, value in record.headers:
        if value is not None:
            if name == GROUP:
                if value and _is_text(value):
                    group = value
            elif name == EXPIRES:
                expires_ms = _number(value)
            elif name == DUE:
                due_ms = _number(value)
    return b"" if group is None else group, expires_ms, due_ms


def sent_as(record: Record) -> tuple[str, str, str, int]:
    """Deduplication id, group, message id and time of the send: the fields that the deduplication window needs.

    The first is empty for messages without one and for moved messages; the third if the id is derived.
    """
    identity = group = message_id = ""
    sent_ms = 0
    received_ms = 0
    for name, raw in record.headers:
        if name == DEDUPLICATION_ID:
            identity = _text(raw or b"")
        elif name == GROUP:
            group = _text(raw or b"") or group
        elif name == ID:
            message_id = _text(raw or b"")
        elif name == SENT:
            sent_ms = _number(raw or b"") or sent_ms
        elif name == RECEIVED:
            received_ms = _number(raw or b"")
    if sent_ms and sent_ms != record.timestamp_ms:
        identity = ""
    return identity, group, message_id, received_ms or record.timestamp_ms


def ruled_record(record: Record, identity: str, received_ms: int, expires_ms: int, due_ms: int) -> Record:
    """A record of a Kafka producer with what the rules of its queue add; empty and 0 add nothing."""
    set_here = []
    headers: list[tuple[str, bytes | None]] = []
    if identity:
        headers.append((DEDUPLICATION_ID, identity.encode()))
        headers.append((RECEIVED, b"%d" % received_ms))
        set_here = [DEDUPLICATION_ID, RECEIVED, SENT]
    if expires_ms > 0:
        headers.append((EXPIRES, b"%d" % expires_ms))
        set_here.append(EXPIRES)
    if due_ms > 0:
        headers.append((DUE, b"%d" % due_ms))
        set_here.append(DUE)
    kept = [header for header in record.headers if header[0] not in set_here]
    return Record(record.offset, record.timestamp_ms, record.key, record.value, (*headers, *kept))


def without_whole(record: Record) -> Record:
    """The record without a reference to chunks: that of a Kafka producer stands for nothing."""
    headers = tuple(header for header in record.headers if header[0] not in (WHOLE, WHOLE_BYTES))
    return Record(record.offset, record.timestamp_ms, record.key, record.value, headers)


def priority_of(record: Record) -> int:
    """The priority of a record; 0 if it has no priority header."""
    return _number_in(record, PRIORITY)


def stamp_of(record: Record) -> int:
    """The stamp of a record; 0 if it has none."""
    return _number_in(record, STAMP)


def attempts_of(record: Record) -> int:
    """The failed attempts that a record has noted."""
    return _number_in(record, ATTEMPTS)


def _number_in(record: Record, header: str) -> int:
    number = 0
    for name, value in record.headers:
        if name == header and value is not None:
            number = _number(value)
    return number


def failed_record(record: Record, attempts: int) -> Record:
    """The record with so many failed attempts, due when the caller says."""
    headers = [header for header in record.headers if header[0] != ATTEMPTS and header[0] != DUE]
    headers.append((ATTEMPTS, b"%d" % attempts))
    return Record(record.offset, record.timestamp_ms, record.key, record.value, tuple(headers))


def whole_record(record: Record, whole: str, size_bytes: int, parts: int) -> Record:
    """The record of a large message; its body is in chunks."""
    note = b'{"whole_bytes":%d,"parts":%d}' % (size_bytes, parts)
    headers = (*record.headers, (WHOLE, whole.encode()), (WHOLE_BYTES, b"%d" % size_bytes))
    return Record(record.offset, record.timestamp_ms, record.key, note, headers)


def joined_record(record: Record, body: bytes) -> Record:
    """The record of a large message with its whole body, without the name of its chunks."""
    headers = tuple([header for header in record.headers if header[0] != WHOLE and header[0] != WHOLE_BYTES])
    return Record(record.offset, record.timestamp_ms, record.key, body, headers)


def whole_of(record: Record) -> tuple[str, int]:
    """Name and size of the large message of a record; an empty name for an ordinary message."""
    whole = ""
    size_bytes = 0
    for name, value in record.headers:
        if name == WHOLE:
            whole = _text(value or b"")
        elif name == WHOLE_BYTES:
            size_bytes = _number(value or b"")
    return whole, size_bytes


def body_bytes_of(record: Record) -> int:
    """The body size of a record's message, large messages included."""
    for name, value in record.headers:
        if name == WHOLE_BYTES:
            return _number(value or b"")
    return len(record.value or b"")


def dead_letter_source_of(record: Record) -> str:
    """The queue in which a message died; empty for other messages."""
    source = ""
    for name, value in record.headers:
        if name == DEAD_LETTER_SOURCE:
            source = _text(value or b"")
    return source


def seal_of(record: Record) -> bytes:
    """The seal of a sealed message; empty for others."""
    for name, value in record.headers:
        if name == SEAL:
            return value or b""
    return b""


def without_seal(headers: Headers) -> tuple[str, bool, Headers]:
    """The message id, whether the record is a dead letter, and the headers without the seal."""
    message_id = ""
    is_dead_letter = False
    kept: list[tuple[str, bytes | None]] = []
    for header in headers:
        name, value = header
        if name == ID:
            message_id = (value or b"").decode(errors="replace")
        elif name == DEAD_LETTER_SOURCE:
            is_dead_letter = bool(value)
        if name != SEAL:
            kept.append(header)
    return message_id, is_dead_letter, tuple(kept)


def due_of(record: Record) -> int:
    """The due time of a staged record; 0, due at once, without the header."""
    due_ms = 0
    for name, value in record.headers:
        if name == DUE and value is not None:
            due_ms = _number(value)
    return due_ms


def group_text(group: bytes) -> str:
    """A group as doors show it. A group that is not UTF-8 (a Kafka key) is shown as hexadecimal digits."""
    if _is_text(group):
        return group.decode()
    return "hex:" + group.hex()


def moved_record(record: Record, message_id: str, now_ms: int, due_ms: int = 0) -> Record:
    """A copy of the message for another lane: available now, or staged until `due_ms`.

    The timestamp is that of the move, because retention counts from it; sent time and id are unchanged.
    """
    sent_ms = record.timestamp_ms
    headers: list[tuple[str, bytes | None]] = [(ID, message_id.encode())]
    if due_ms > 0:
        headers.append((DUE, b"%d" % due_ms))
    for header in record.headers:
        name = header[0]
        if name == SENT:
            sent_ms = _number(header[1] or b"") or sent_ms
        elif name != ID and name != DUE and name != ORIGINAL:
            headers.append(header)
    headers.append((SENT, b"%d" % max(sent_ms, 0)))
    return Record(-1, now_ms, record.key, record.value, tuple(headers))


def released_record(record: Record, partition: int, now_ms: int) -> Record:
    """A copy of a message of the staging lane `partition`: available now, with the id that it had there."""
    message_id = ""
    sent_ms = record.timestamp_ms
    headers: list[tuple[str, bytes | None]] = [(ID, b"")]
    for header in record.headers:
        name = header[0]
        if name == ID:
            message_id = _text(header[1] or b"")
        elif name == SENT:
            sent_ms = _number(header[1] or b"") or sent_ms
        elif name != DUE:
            headers.append(header)
    headers[0] = (ID, (message_id or derive_message_id(partition, record.offset)).encode())
    headers.append((SENT, b"%d" % max(sent_ms, 0)))
    return Record(-1, now_ms, record.key, record.value, tuple(headers))


def dead_letter_record(
    record: Record,
    message_id: str,
    now_ms: int,
    source: str,
    reason: str,
    attempts: int,
    first_received_ms: int = 0,
    attempt_history: str = "",
) -> Record:
    """A copy of the message for a dead-letter queue, with reason, source and history and without a time to live."""
    moved = moved_record(record, message_id, now_ms)
    history: list[str] = []
    headers: list[tuple[str, bytes | None]] = []
    for header in moved.headers:
        if header[0] == DEATHS:
            history = _text(header[1] or b"").split("\n")
        elif header[0] != EXPIRES and not is_death_header(header[0]):
            headers.append(header)
    history.append(f"{now_ms} {attempts} {reason} {source}")
    headers.append((DEAD_LETTER_SOURCE, source.encode()))
    headers.append((DEAD_LETTER_REASON, reason.encode()))
    headers.append((ATTEMPTS, b"%d" % attempts))
    if first_received_ms > 0:
        headers.append((FIRST_RECEIVED, b"%d" % first_received_ms))
    if attempt_history:
        headers.append((ATTEMPT_HISTORY, attempt_history.encode()))
    headers.append((DEATHS, "\n".join(history[-DEATHS_MAX:]).encode()))
    return Record(-1, now_ms, moved.key, moved.value, tuple(headers))


def retry_record(record: Record, message_id: str, now_ms: int, source: str, attempts: int, due_ms: int) -> Record:
    """A copy of the message for a retry topic: which queue retries it, when, and after how many attempts.

    The copy of a large message has only the note of its size, not the chunks.
    """
    moved = moved_record(record, message_id, now_ms, due_ms)
    replaced = (RETRY_SOURCE, ATTEMPTS, WHOLE, WHOLE_BYTES)
    headers = [header for header in moved.headers if header[0] not in replaced]
    headers.append((RETRY_SOURCE, source.encode()))
    headers.append((ATTEMPTS, b"%d" % attempts))
    return Record(-1, now_ms, moved.key, moved.value, tuple(headers))


def is_death_header(name: str) -> bool:
    """True for what a dead letter says of its last death."""
    return name in (DEAD_LETTER_SOURCE, DEAD_LETTER_REASON, ATTEMPTS, FIRST_RECEIVED, ATTEMPT_HISTORY)


def new_message_id(random: bytes) -> str:
    """The id of a new message: a UUID of version 4 from 16 random bytes."""
    digits = random.hex()
    variant = "89ab"[random[8] >> 6]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def derive_message_id(partition: int, offset: int, salt: int = 0) -> str:
    """The id of a message without an id header: a UUID (version 8) of partition and offset, unique in the hall.

    `salt` (60 bits, from the hall's id) keeps the ids of two halls apart.
    """
    if not (0 <= partition <= PARTITION_MAX and 0 <= offset <= OFFSET_MAX):
        raise LonghallError(Code.INVALID_REQUEST, f"{partition}:{offset} is not a valid message position")
    high = partition ^ (salt & PARTITION_MAX)
    number = (high >> 12 << 80) | (8 << 76) | ((high & 0xFFF) << 64) | (1 << 63) | offset
    digits = number.to_bytes(16, "big").hex()
    return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]


def locate_message_id(message_id: str, salt: int = 0) -> tuple[int, int] | None:
    """Partition and offset of a derived message id; None for other ids."""
    digits = message_id.replace("-", "")
    if len(message_id) != 36 or len(digits) != 32 or digits[12] != "8" or digits[16] not in "89ab":
        return None
    try:
        partition = int(digits[:12] + digits[13:16], 16) ^ (salt & PARTITION_MAX)
        offset = int(digits[16:], 16) & OFFSET_MAX
    except ValueError:
        return None
    return (partition, offset) if derive_message_id(partition, offset, salt) == message_id else None


def _is_text(value: bytes) -> bool:
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""


def _number(value: bytes) -> int:
    """The value of a decimal header; 0 if it is not a decimal."""
    if 0 < len(value) <= NUMBER_DIGITS_MAX and value.isdigit():
        return int(value)
    return 0
