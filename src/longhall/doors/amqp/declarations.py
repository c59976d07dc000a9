"""Queue declarations: arguments to settings, and whether a second declaration means the same queue.

    argument                     setting
    x-message-ttl                time_to_live_ms; 0 means: delivered at once, or never
    x-expires                    amqp.expires_ms
    x-max-length, -bytes         messages_max, bytes_max
    x-overflow                   drop-head: when_full drop-oldest; reject-publish: refuse; reject-publish-dlx: refuse,
                                 and the message goes to the dead-letter exchange
    x-dead-letter-exchange, -routing-key    amqp.letters_exchange, letters_key
    x-dead-letter-strategy       amqp.letters_wait: with at-least-once a message for which a queue has no room stays.
                                 With both, it leaves its queue and enters the others in one write
    x-max-priority               priorities
    x-queue-type                 classic or quorum: every queue is replicated; a quorum queue has a delivery limit;
                                 stream: see `streams`
    x-delivery-limit             amqp.deliveries_max, one more
    x-single-active-consumer     amqp.single_active
    x-queue-mode, -version       every queue keeps its messages on disk: all values mean this
    x-queue-leader-locator, x-initial-cluster-size and the like    checked and kept: the cluster places its replicas
    x-stream-filter-size-bytes   checked and kept: filters of streams are exact

Other arguments that begin with `x-` are refused: they would have no effect. The rest is kept and not compared.
"""

from __future__ import annotations

from typing import Any, Final

from longhall.doors.amqp.errors import (
    RESOURCE_LOCKED,
    AmqpError,
    precondition,
    queue_text,
)
from longhall.doors.amqp.streams import (
    BYTES_MAX,
    FILTER_BYTES,
    MAX_AGE,
    SEGMENT_BYTES,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
    STREAM_ARGUMENTS,
    age_ms_of,
)
from longhall.exchanges.field_table import decode_table, decode_value, join_table, split_table, type_name
from longhall.queues.settings import AmqpSettings, QueueSettings

MESSAGE_BYTES_MAX: Final = 48 * 1024 * 1024  # Below the bound of a call between processes.
RECORD_BYTES_MAX: Final = 3 * 1024 * 1024  # Larger messages are stored in chunks.
IN_FLIGHT_MAX: Final = 10_000_000
DELIVERY_LIMIT: Final = 20  # Of a quorum queue that names none.
YEARS_MS: Final = 10 * 365 * 24 * 3_600_000

TYPE: Final = "x-queue-type"
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
_OVERFLOWS: Final = {"drop-head": "drop-oldest", "reject-publish": "refuse", "reject-publish-dlx": "refuse"}

SEALED: Final = "x-longhall-sealed"  # The master key under which bodies are sealed.
COMPARED: Final = (
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-priority",
    TYPE,
    "x-delivery-limit",
    "x-single-active-consumer",
    MAX_AGE,
    SEGMENT_BYTES,
    SEALED,
)
_LOCATORS: Final = ("client-local", "balanced", "min-masters", "random")
GROUP_SIZES: Final = ("x-initial-cluster-size", "x-quorum-initial-group-size", "x-quorum-target-group-size")
PLACEMENT: Final = ("x-queue-leader-locator", "x-queue-master-locator", *GROUP_SIZES)
ACCEPTED: Final = frozenset((*COMPARED, "x-queue-mode", "x-queue-version", FILTER_BYTES, *PLACEMENT))


def settings_of(host: str, name: str, durable: bool, auto_delete: bool, owner: str, arguments: bytes) -> QueueSettings:
    """The settings of a new queue. Raises AmqpError for arguments that cannot be."""
    table = decode_table(arguments)[0]
    resource = queue_text(name, host)
    check = _Arguments(table, resource)
    for key in table:
        if key.startswith("x-") and key not in ACCEPTED:
            raise precondition(f"invalid arg '{key}' for {resource}: it would have no effect")
    for key in GROUP_SIZES:
        check.number(key, 1, 1, 255)
    for key in ("x-queue-leader-locator", "x-queue-master-locator"):
        check.one_of(key, _LOCATORS)
    kind = check.text(TYPE, CLASSIC)
    if kind == STREAM:
        return _stream_settings(host, name, durable, auto_delete, owner, arguments)
    if kind not in (CLASSIC, QUORUM):
        raise precondition(f"invalid arg '{TYPE}' for {resource}: unknown queue type '{kind}'")
    _check_kind(kind, check, resource, durable, owner)
    exchange = check.optional_text("x-dead-letter-exchange")
    letters_key = check.optional_text("x-dead-letter-routing-key")
    if letters_key is not None and exchange is None:
        raise precondition(f"invalid arg 'x-dead-letter-routing-key' for {resource}: routing_key_but_no_dlx_defined")
    check.one_of("x-dead-letter-strategy", ("at-most-once", "at-least-once"))
    check.one_of("x-queue-mode", ("default", "lazy"))
    overflow = check.text("x-overflow", "drop-head")
    if overflow not in _OVERFLOWS:
        raise precondition(f"invalid arg 'x-overflow' for {resource}: unknown overflow '{overflow}'")
    limit = check.number("x-delivery-limit", -1, -1, 1_000_000) if "x-delivery-limit" in table else DELIVERY_LIMIT
    ttl_ms = check.number("x-message-ttl", -1, 0, YEARS_MS)
    messages_max = check.number("x-max-length", -1, 0, 1 << 62)
    bytes_max = check.number("x-max-length-bytes", -1, 0, 1 << 62)
    has_no_room = _OVERFLOWS[overflow] == "refuse" and (not messages_max or not bytes_max)
    if has_no_room:
        messages_max = 1  # A bound, without which nobody looks for room.
    elif not messages_max or not bytes_max:
        ttl_ms = 0  # A message that no consumer takes at once is dropped.
    amqp = AmqpSettings(
        host=host,
        name=name,
        durable=durable,
        auto_delete=auto_delete,
        owner=owner,
        arguments=arguments if table else b"",
        expires_ms=check.number("x-expires", 0, 1, YEARS_MS),
        deliveries_max=limit + 1 if kind == QUORUM and limit >= 0 else 0,
        letters_exchange=exchange,
        letters_key=letters_key,
        letters_refused=overflow == "reject-publish-dlx",
        letters_wait=check.table.get("x-dead-letter-strategy") == "at-least-once",
        single_active=check.flag("x-single-active-consumer"),
        has_no_room=has_no_room,
    )
    priorities = check.number("x-max-priority", 0, 0, 255)
    sealed = check.text(SEALED, "")
    return QueueSettings(
        retention_ms=0,
        time_to_live_ms=max(ttl_ms, 1) if ttl_ms >= 0 else 0,
        message_bytes_max=RECORD_BYTES_MAX,
        whole_bytes_max=0 if sealed else MESSAGE_BYTES_MAX,  # A chunk of a sealed message cannot be opened alone.
        messages_max=max(messages_max, 0),
        bytes_max=max(bytes_max, 0),
        when_full="refuse" if _OVERFLOWS[overflow] == "refuse" else "drop-oldest",
        in_flight_max=IN_FLIGHT_MAX,
        priorities=priorities + 1,
        fair=False,
        sealed=sealed,
        amqp=amqp,
    )


def _stream_settings(
    host: str, name: str, durable: bool, auto_delete: bool, owner: str, arguments: bytes
) -> QueueSettings:
    """The settings of a stream: its log is kept, by age and size, and nothing is ever removed by consumers."""
    resource = queue_text(name, host)
    check = _Arguments(decode_table(arguments)[0], resource)
    for key in check.table:
        if key.startswith("x-") and key not in STREAM_ARGUMENTS and key not in PLACEMENT:
            raise precondition(f"invalid arg '{key}' for {resource} of queue type rabbit_stream_queue")
    wrong = "non-durable" if not durable else "auto-delete" if auto_delete else "exclusive-owner" if owner else ""
    if wrong:
        raise precondition(f"invalid property '{wrong}' for {resource}")
    check.number(FILTER_BYTES, 16, 16, 255)
    age_ms = age_ms_of(check.table.get(MAX_AGE, "0s"))
    if age_ms is None or age_ms > YEARS_MS:
        raise precondition(f"invalid arg '{MAX_AGE}' for {resource}: it must be an age such as 7D, at most ten years")
    amqp = AmqpSettings(
        host=host,
        name=name,
        arguments=arguments,
        is_stream=True,
        stream_bytes_max=check.number(BYTES_MAX, 0, 1, 1 << 62),
        stream_segment_bytes=check.number(SEGMENT_BYTES, 0, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
    )
    return QueueSettings(retention_ms=age_ms, message_bytes_max=RECORD_BYTES_MAX, settled="keep", fair=False, amqp=amqp)


def _check_kind(kind: str, check: _Arguments, resource: str, durable: bool, owner: str) -> None:
    for key in (MAX_AGE, SEGMENT_BYTES, FILTER_BYTES, *(["x-delivery-limit"] if kind == CLASSIC else [])):
        if key in check.table:
            raise precondition(f"invalid arg '{key}' for {resource} of queue type rabbit_{kind}_queue")
    if kind == CLASSIC:
        return
    if "x-max-priority" in check.table:
        raise precondition(f"invalid arg 'x-max-priority' for {resource} of queue type rabbit_quorum_queue")
    if not durable:
        raise precondition(f"invalid property 'non-durable' for {resource}")
    if owner:
        raise precondition(f"invalid property 'exclusive-owner' for {resource}")


def check_equivalent(settings: QueueSettings, wanted: AmqpSettings, owner: str) -> None:
    """Raises AmqpError unless a declaration means the queue that exists."""
    resource = queue_text(wanted.name, wanted.host)
    current = settings.amqp or AmqpSettings(host=wanted.host, name=wanted.name)
    check_owner(settings, owner, wanted.name, wanted.host)
    if bool(current.owner) != bool(wanted.owner):
        raise AmqpError(RESOURCE_LOCKED, _locked(resource))
    for key, given, known in (
        ("durable", wanted.durable, current.durable),
        ("auto_delete", wanted.auto_delete, current.auto_delete),
    ):
        if given != known:
            raise _inequivalent(key, resource, f"'{str(given).lower()}'", f"'{str(known).lower()}'")
    given_fields = dict(split_table(wanted.arguments)[0]) if wanted.arguments else {}
    known_fields = dict(split_table(current.arguments)[0]) if current.arguments else {}
    for fields in (given_fields, known_fields):
        fields.setdefault(TYPE, b"S\0\0\0\7classic")
    for key in COMPARED:
        given_raw, known_raw = given_fields.get(key), known_fields.get(key)
        if given_raw is None and known_raw is None:
            continue
        if given_raw is None or known_raw is None:
            raise _inequivalent(key, resource, _described(given_raw), _described(known_raw))
        if decode_value(given_raw) != decode_value(known_raw):
            raise _inequivalent(key, resource, f"'{decode_value(given_raw)}'", f"'{decode_value(known_raw)}'")


def check_owner(settings: QueueSettings, owner: str, name: str, host: str) -> None:
    """Raises AmqpError if the queue belongs to another connection."""
    if settings.amqp is not None and settings.amqp.owner and settings.amqp.owner != owner:
        raise AmqpError(RESOURCE_LOCKED, _locked(queue_text(name, host)))


def is_quorum(settings: QueueSettings) -> bool:
    """True for a queue that was declared as a quorum queue."""
    amqp = settings.amqp
    return amqp is not None and amqp.arguments != b"" and decode_table(amqp.arguments)[0].get(TYPE) == QUORUM


def without_nothing(arguments: bytes) -> bytes:
    """The arguments of a binding or exchange in the form in which they are stored: sorted, empty if there are none."""
    fields = split_table(arguments)[0]
    return join_table(sorted(fields)) if fields else b""


def _locked(resource: str) -> str:
    return (
        f"cannot obtain exclusive access to locked {resource}. It could be originally declared on another connection "
        "or the exclusive property value does not match that of the original declaration."
    )


def _described(raw: bytes | None) -> str:
    return "none" if raw is None else f"the value '{decode_value(raw)}' of type '{type_name(raw)}'"


def _inequivalent(key: str, resource: str, given: str, known: str) -> AmqpError:
    return precondition(f"inequivalent arg '{key}' for {resource}: received {given} but current is {known}")


class _Arguments:
    """The arguments of one declaration, read with checks."""

    def __init__(self, table: dict[str, Any], resource: str) -> None:
        self.table = table
        self._resource = resource

    def number(self, key: str, default: int, least: int, most: int) -> int:
        value = self.table.get(key, default)
        if key not in self.table:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._invalid(key, "it is no integer")
        if not least <= value <= most:
            raise self._invalid(key, f"it must be from {least} to {most}")
        return value

    def text(self, key: str, default: str) -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str):
            raise self._invalid(key, "it is no string")
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key, "") if key in self.table else None

    def flag(self, key: str) -> bool:
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            raise self._invalid(key, "it is no boolean")
        return value

    def one_of(self, key: str, values: tuple[str, ...]) -> None:
        if key in self.table and self.table[key] not in values:
            raise self._invalid(key, f"it must be one of {', '.join(values)}")

    def _invalid(self, key: str, why: str) -> AmqpError:
        return precondition(f"invalid arg '{key}' for {self._resource}: {why}")
