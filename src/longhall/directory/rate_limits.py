"""Rate limits as the directory stores them: how much a tenant, user, queue, kind of operation or address may use.

    scope       any of tenant, user, queue, operation and address, one at least; each is a name, or EVERY, which stands
                for each name without a limit of its own and gives each of them a bucket
    rates       bytes, messages and requests a second, each by itself

    operation   send      messages to queues and topics
                receive   messages from them, pushed or asked for
                settle    ends of leases, acknowledgements, committed offsets
                manage    everything else that an administrator or a program does with queues, topics and users

The name of an entry is the scope, its value the rates. This module does not count: `front.rate_limits` does.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from longhall.errors import Code, LonghallError

RATE_LIMIT_KIND: Final = "rate-limit"  # The kind of the entries in the directory.
RATE_LIMITS_MAX: Final = 10_000
SCOPE_NAME_CHARACTERS_MAX: Final = 256  # Of one part of a scope.
SCOPE_CHARACTERS_MAX: Final = 1_024  # Of all parts, quoted.
RATE_MAX: Final = 1 << 50

EVERY: Final = ""  # The part of a scope that stands for every name.
EVERY_TEXT: Final = "*"  # The same in commands, in HTTP and in the names of entries: names are quoted there.

SEND: Final = "send"
RECEIVE: Final = "receive"
SETTLE: Final = "settle"
MANAGE: Final = "manage"
OPERATION_CLASSES: Final = (SEND, RECEIVE, SETTLE, MANAGE)

BYTES: Final = "bytes_a_second"
MESSAGES: Final = "messages_a_second"
REQUESTS: Final = "requests_a_second"
RATES: Final = (BYTES, MESSAGES, REQUESTS)


class LimitScope(msgspec.Struct, array_like=True, frozen=True, order=True):
    """The scope of a limit. None stands for a part that does not matter, EVERY for each name by itself."""

    tenant: str | None = None
    user: str | None = None
    queue: str | None = None
    operation: str | None = None
    address: str | None = None


PARTS: Final = LimitScope.__struct_fields__


class RateLimit(msgspec.Struct, array_like=True):
    """The rates of one scope."""

    scope: LimitScope
    rates: dict[str, int]


def check_rate_limit(limit: RateLimit) -> None:
    """Raises INVALID_REQUEST with the reason if a limit means nothing."""
    scope = limit.scope
    given = {part: name for part in PARTS if (name := getattr(scope, part)) is not None}
    if not given:
        raise _wrong(f"a limit is for one of {', '.join(PARTS)}, or for several of them together")
    for part, name in given.items():
        if len(name) > SCOPE_NAME_CHARACTERS_MAX:
            raise _wrong(f"the {part} of a limit has at most {SCOPE_NAME_CHARACTERS_MAX} characters")
    if len(scope_name(scope)) > SCOPE_CHARACTERS_MAX:
        raise _wrong(f"the quoted names of a limit have at most {SCOPE_CHARACTERS_MAX} characters together")
    if scope.operation not in (None, EVERY, *OPERATION_CLASSES):
        raise _wrong(f"the operation of a limit is one of {', '.join(OPERATION_CLASSES)}, or * for each of them")
    if scope.address and not _is_address(scope.address):
        raise _wrong("the address of a limit is one IP address, or * for each of them")
    if not limit.rates:
        raise _wrong(f"a limit has at least one of {', '.join(RATES)}")
    for rate, a_second in limit.rates.items():
        if rate not in RATES:
            raise _wrong(f"there is no rate '{rate}': the rates are {', '.join(RATES)}")
        if not 1 <= a_second <= RATE_MAX:
            raise _wrong(f"'{rate}' is 1 to {RATE_MAX}")


def scope_name(scope: LimitScope) -> str:
    """The name of a scope's entry, such as `tenant=acme,operation=send`."""
    parts = ((part, getattr(scope, part)) for part in PARTS)
    return ",".join(f"{part}={quote(name, '') or EVERY_TEXT}" for part, name in parts if name is not None)


def scope_of_name(name: str) -> LimitScope | None:
    """The scope of an entry's name; None if it is no such name."""
    parts = [part.partition("=") for part in name.split(",")]
    found = {part: EVERY if text == EVERY_TEXT else unquote(text) for part, is_given, text in parts if is_given}
    if len(found) != len(parts) or not found.keys() <= set(PARTS):
        return None
    return LimitScope(**found)


def decode_rate_limit(name: str, value: bytes) -> RateLimit | None:
    """The limit of an entry; None if a newer version wrote what this one does not understand."""
    scope = scope_of_name(name)
    try:
        rates = _rates.decode(value)
    except msgspec.MsgspecError:
        return None
    known = {rate: a_second for rate, a_second in rates.items() if rate in RATES and 1 <= a_second <= RATE_MAX}
    return RateLimit(scope, known) if scope is not None else None


def encode_rate_limit(limit: RateLimit) -> bytes:
    """The value of an entry."""
    return _encode(limit.rates)


def _is_address(text: str) -> bool:
    try:
        return str(ipaddress.ip_address(text)) == text
    except ValueError:
        return False


_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_rates: Final = msgspec.msgpack.Decoder(dict[str, int])


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, why)
