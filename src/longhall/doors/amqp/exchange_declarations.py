"""Exchange declarations: what can be declared, and whether a second declaration means the same exchange.

For every dialect that declares exchanges: AMQP itself, the management API and definitions files.
"""

from __future__ import annotations

from typing import Final

from longhall.cluster.rpc.operation import Caller
from longhall.doors.amqp import errors
from longhall.doors.amqp.declarations import without_nothing
from longhall.doors.amqp.errors import AmqpError, exchange_text, precondition
from longhall.errors import Code, LonghallError
from longhall.exchanges.exchange import ALTERNATE, DELAYED, DELAYED_TYPE, KINDS
from longhall.exchanges.field_table import decode_table
from longhall.service.exchange_operations import DeclareExchange, DescribeExchange, ExchangeView
from longhall.service.router import Router

RESERVED: Final = "amq."
_FLAGS: Final = ("durable", "auto_delete", "internal")


async def describe_exchange(service: Router, caller: Caller, host: str, name: str) -> ExchangeView:
    """The exchange of this name. 404 if there is none."""
    try:
        return await service.call(DescribeExchange(host, name), caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_EXCHANGE:
            raise
        raise AmqpError(errors.NOT_FOUND, f"no {exchange_text(name, host)}") from None


async def declare_exchange(service: Router, caller: Caller, wanted: ExchangeView) -> None:
    """Create an exchange. AmqpError if it cannot be, or if another one has the name. `arguments` is a field table as it
    was declared.
    """
    resource = exchange_text(wanted.name, wanted.host)
    fields = decode_table(wanted.arguments)[0] if wanted.arguments else {}
    check_exchange(wanted)
    if wanted.name.startswith(RESERVED):
        try:
            await describe_exchange(service, caller, wanted.host, wanted.name)
        except AmqpError:
            text = f"exchange name '{wanted.name}' contains reserved prefix 'amq.*'"
            raise AmqpError(errors.ACCESS_REFUSED, text) from None
    stored = without_nothing(wanted.arguments) if wanted.arguments else b""
    known = await service.call(
        DeclareExchange(
            ExchangeView(
                wanted.host,
                wanted.name,
                wanted.kind,
                wanted.durable,
                wanted.auto_delete,
                wanted.internal,
                stored,
            )
        ),
        caller,
    )
    if known.kind != wanted.kind:
        raise _inequivalent("type", resource, wanted.kind, known.kind)
    for flag in _FLAGS:
        given, current = getattr(wanted, flag), getattr(known, flag)
        if given != current:
            raise _inequivalent(flag, resource, str(given).lower(), str(current).lower())
    current_fields = decode_table(known.arguments)[0] if known.arguments else {}
    given_alternate, current_alternate = fields.get(ALTERNATE), current_fields.get(ALTERNATE)
    if given_alternate != current_alternate:
        raise precondition(
            f"inequivalent arg '{ALTERNATE}' for {resource}: received {_described(given_alternate)} but current is "
            f"{_described(current_alternate)}"
        )


def check_exchange(wanted: ExchangeView) -> None:
    """Raises AmqpError for an exchange that cannot be."""
    resource = exchange_text(wanted.name, wanted.host)
    fields = decode_table(wanted.arguments)[0] if wanted.arguments else {}
    refuse_default(wanted.name)
    if wanted.kind not in (*KINDS, DELAYED):
        raise precondition(f"unknown exchange type '{wanted.kind}'")
    if wanted.kind == DELAYED and fields.get(DELAYED_TYPE) not in KINDS:
        raise precondition(f"invalid arg '{DELAYED_TYPE}' for {resource}: it must be one of {', '.join(KINDS)}")
    if not isinstance(fields.get(ALTERNATE, ""), str):
        raise precondition(f"invalid arg '{ALTERNATE}' for {resource}: it is no string")


def refuse_default(name: str) -> None:
    """Raises 403 for the default exchange."""
    if not name:
        raise AmqpError(errors.ACCESS_REFUSED, "operation not permitted on the default exchange")


def refuse_reserved(name: str, host: str) -> None:
    """Raises 403 for an exchange that every virtual host has, before it is deleted."""
    refuse_default(name)
    if name.startswith(RESERVED):
        raise AmqpError(errors.ACCESS_REFUSED, f"deletion of system {exchange_text(name, host)} not allowed")


def _described(value: str | None) -> str:
    return "none" if value is None else f"the value '{value}' of type 'longstr'"


def _inequivalent(key: str, resource: str, given: str, known: str) -> AmqpError:
    return precondition(f"inequivalent arg '{key}' for {resource}: received '{given}' but current is '{known}'")
