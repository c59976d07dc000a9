"""Limits of clients as the directory stores them: how much a user, a client id, or both together may transfer.

    entity   a user, a client id, or a user with a client id; each part is a name or DEFAULT, which stands for every
             name without a limit of its own
    rates    bytes a second, by Kafka's names: `producer_byte_rate` for what is produced, `consumer_byte_rate` for what
             is fetched

The name of an entry is the entity, its value the rates. This module does not count: `front.client_limits` does.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

import msgspec

from longhall.errors import Code, LonghallError

LIMIT_KIND: Final = "client-limit"  # The kind of the entries in the directory.
LIMITS_MAX: Final = 10_000
PART_CHARACTERS_MAX: Final = 128  # Of the name of a user or a client id.
ENTRY_NAME_CHARACTERS_MAX: Final = 1_024
RATE_MAX: Final = 1 << 50

DEFAULT: Final = ""  # The part of an entity that stands for every name.
_DEFAULT_TEXT: Final = "<default>"  # Never the form of a name: names are quoted.

PRODUCE: Final = "producer_byte_rate"
CONSUME: Final = "consumer_byte_rate"
RATES: Final = (PRODUCE, CONSUME)


class LimitEntity(msgspec.Struct, array_like=True, frozen=True, order=True):
    """Whom a limit is for. None stands for a part that does not matter, DEFAULT for every name."""

    user: str | None = None
    client_id: str | None = None


class ClientLimit(msgspec.Struct, array_like=True):
    """The rates of one entity, in bytes a second."""

    entity: LimitEntity
    rates: dict[str, int]


class LimitChange(msgspec.Struct, array_like=True):
    """Rates to set and rates to remove, of one entity."""

    entity: LimitEntity
    put: dict[str, int] = msgspec.field(default_factory=dict)
    removed: list[str] = msgspec.field(default_factory=list)


def check_change(change: LimitChange) -> None:
    """Raises INVALID_REQUEST with the reason if a change means nothing."""
    entity = change.entity
    if entity.user is None and entity.client_id is None:
        raise _wrong("a limit is for a user, a client id, or both")
    for part in (entity.user, entity.client_id):
        if part is not None and len(part) > PART_CHARACTERS_MAX:
            raise _wrong(f"the name of a user or a client id has at most {PART_CHARACTERS_MAX} characters")
    if len(entry_name(entity)) > ENTRY_NAME_CHARACTERS_MAX:
        raise _wrong(f"the quoted names of a limit have at most {ENTRY_NAME_CHARACTERS_MAX} characters together")
    for key in (*change.put, *change.removed):
        if key not in RATES:
            raise _wrong(f"there is no limit '{key}': the limits are {' and '.join(RATES)}")
    for key, rate in change.put.items():
        if not 1 <= rate <= RATE_MAX:
            raise _wrong(f"'{key}' is 1 to {RATE_MAX} bytes a second")


def entry_name(entity: LimitEntity) -> str:
    """The name of an entity's entry."""
    parts = (("user", entity.user), ("client-id", entity.client_id))
    return ",".join(f"{kind}={quote(name, '') or _DEFAULT_TEXT}" for kind, name in parts if name is not None)


def decode_limit(name: str, value: bytes) -> ClientLimit | None:
    """The limit of an entry; None if a newer version wrote what this one does not understand."""
    parts = dict(part.split("=", 1) for part in name.split(",") if "=" in part)
    if not parts or not parts.keys() <= {"user", "client-id"}:
        return None
    try:
        rates = _rates.decode(value)
    except msgspec.MsgspecError:
        return None
    known = {key: rate for key, rate in rates.items() if key in RATES and 1 <= rate <= RATE_MAX}
    return ClientLimit(LimitEntity(_part(parts.get("user")), _part(parts.get("client-id"))), known)


def encode_rates(rates: dict[str, int]) -> bytes:
    """The value of an entry."""
    return _encode(rates)


def _part(text: str | None) -> str | None:
    if text is None:
        return None
    return DEFAULT if text == _DEFAULT_TEXT else unquote(text)


_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_rates: Final = msgspec.msgpack.Decoder(dict[str, int])


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, why)
