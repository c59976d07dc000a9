"""The methods of AMQP 0-9-1: numbers, names, and the forms of their arguments.

A method is known by class << 16 | method. The form of its arguments is a string with a letter for each:

    o octet    h short (16 bits)    l long (32)    L long long (64)    s short string    S long string
    t bit (neighbours share an octet)               T table, as its bytes

Decoding is total: bytes that do not fit raise `MalformedTable`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from longhall.exchanges.field_table import MalformedTable, decode_short, encode_short, split_table

CONNECTION_START: Final = 10 << 16 | 10
CONNECTION_START_OK: Final = 10 << 16 | 11
CONNECTION_SECURE: Final = 10 << 16 | 20
CONNECTION_SECURE_OK: Final = 10 << 16 | 21
CONNECTION_TUNE: Final = 10 << 16 | 30
CONNECTION_TUNE_OK: Final = 10 << 16 | 31
CONNECTION_OPEN: Final = 10 << 16 | 40
CONNECTION_OPEN_OK: Final = 10 << 16 | 41
CONNECTION_CLOSE: Final = 10 << 16 | 50
CONNECTION_CLOSE_OK: Final = 10 << 16 | 51
CONNECTION_BLOCKED: Final = 10 << 16 | 60
CONNECTION_UNBLOCKED: Final = 10 << 16 | 61
CONNECTION_UPDATE_SECRET: Final = 10 << 16 | 70
CONNECTION_UPDATE_SECRET_OK: Final = 10 << 16 | 71
CHANNEL_OPEN: Final = 20 << 16 | 10
CHANNEL_OPEN_OK: Final = 20 << 16 | 11
CHANNEL_FLOW: Final = 20 << 16 | 20
CHANNEL_FLOW_OK: Final = 20 << 16 | 21
CHANNEL_CLOSE: Final = 20 << 16 | 40
CHANNEL_CLOSE_OK: Final = 20 << 16 | 41
ACCESS_REQUEST: Final = 30 << 16 | 10
ACCESS_REQUEST_OK: Final = 30 << 16 | 11
EXCHANGE_DECLARE: Final = 40 << 16 | 10
EXCHANGE_DECLARE_OK: Final = 40 << 16 | 11
EXCHANGE_DELETE: Final = 40 << 16 | 20
EXCHANGE_DELETE_OK: Final = 40 << 16 | 21
EXCHANGE_BIND: Final = 40 << 16 | 30
EXCHANGE_BIND_OK: Final = 40 << 16 | 31
EXCHANGE_UNBIND: Final = 40 << 16 | 40
EXCHANGE_UNBIND_OK: Final = 40 << 16 | 51
QUEUE_DECLARE: Final = 50 << 16 | 10
QUEUE_DECLARE_OK: Final = 50 << 16 | 11
QUEUE_BIND: Final = 50 << 16 | 20
QUEUE_BIND_OK: Final = 50 << 16 | 21
QUEUE_PURGE: Final = 50 << 16 | 30
QUEUE_PURGE_OK: Final = 50 << 16 | 31
QUEUE_DELETE: Final = 50 << 16 | 40
QUEUE_DELETE_OK: Final = 50 << 16 | 41
QUEUE_UNBIND: Final = 50 << 16 | 50
QUEUE_UNBIND_OK: Final = 50 << 16 | 51
BASIC_QOS: Final = 60 << 16 | 10
BASIC_QOS_OK: Final = 60 << 16 | 11
BASIC_CONSUME: Final = 60 << 16 | 20
BASIC_CONSUME_OK: Final = 60 << 16 | 21
BASIC_CANCEL: Final = 60 << 16 | 30
BASIC_CANCEL_OK: Final = 60 << 16 | 31
BASIC_PUBLISH: Final = 60 << 16 | 40
BASIC_RETURN: Final = 60 << 16 | 50
BASIC_DELIVER: Final = 60 << 16 | 60
BASIC_GET: Final = 60 << 16 | 70
BASIC_GET_OK: Final = 60 << 16 | 71
BASIC_GET_EMPTY: Final = 60 << 16 | 72
BASIC_ACK: Final = 60 << 16 | 80
BASIC_REJECT: Final = 60 << 16 | 90
BASIC_RECOVER_ASYNC: Final = 60 << 16 | 100
BASIC_RECOVER: Final = 60 << 16 | 110
BASIC_RECOVER_OK: Final = 60 << 16 | 111
BASIC_NACK: Final = 60 << 16 | 120
CONFIRM_SELECT: Final = 85 << 16 | 10
CONFIRM_SELECT_OK: Final = 85 << 16 | 11
TX_SELECT: Final = 90 << 16 | 10
TX_SELECT_OK: Final = 90 << 16 | 11
TX_COMMIT: Final = 90 << 16 | 20
TX_COMMIT_OK: Final = 90 << 16 | 21
TX_ROLLBACK: Final = 90 << 16 | 30
TX_ROLLBACK_OK: Final = 90 << 16 | 31

BASIC_CLASS: Final = 60


class Method(NamedTuple):
    """A method: its name, and the form of its arguments."""

    name: str
    form: str


METHODS: Final = {
    CONNECTION_START: Method("connection.start", "ooTSS"),
    CONNECTION_START_OK: Method("connection.start_ok", "TsSs"),
    CONNECTION_SECURE: Method("connection.secure", "S"),
    CONNECTION_SECURE_OK: Method("connection.secure_ok", "S"),
    CONNECTION_TUNE: Method("connection.tune", "hlh"),
    CONNECTION_TUNE_OK: Method("connection.tune_ok", "hlh"),
    CONNECTION_OPEN: Method("connection.open", "sst"),
    CONNECTION_OPEN_OK: Method("connection.open_ok", "s"),
    CONNECTION_CLOSE: Method("connection.close", "hshh"),
    CONNECTION_CLOSE_OK: Method("connection.close_ok", ""),
    CONNECTION_BLOCKED: Method("connection.blocked", "s"),
    CONNECTION_UNBLOCKED: Method("connection.unblocked", ""),
    CONNECTION_UPDATE_SECRET: Method("connection.update_secret", "Ss"),
    CONNECTION_UPDATE_SECRET_OK: Method("connection.update_secret_ok", ""),
    CHANNEL_OPEN: Method("channel.open", "s"),
    CHANNEL_OPEN_OK: Method("channel.open_ok", "S"),
    CHANNEL_FLOW: Method("channel.flow", "t"),
    CHANNEL_FLOW_OK: Method("channel.flow_ok", "t"),
    CHANNEL_CLOSE: Method("channel.close", "hshh"),
    CHANNEL_CLOSE_OK: Method("channel.close_ok", ""),
    ACCESS_REQUEST: Method("access.request", "sttttt"),
    ACCESS_REQUEST_OK: Method("access.request_ok", "h"),
    EXCHANGE_DECLARE: Method("exchange.declare", "hsstttttT"),
    EXCHANGE_DECLARE_OK: Method("exchange.declare_ok", ""),
    EXCHANGE_DELETE: Method("exchange.delete", "hstt"),
    EXCHANGE_DELETE_OK: Method("exchange.delete_ok", ""),
    EXCHANGE_BIND: Method("exchange.bind", "hssstT"),
    EXCHANGE_BIND_OK: Method("exchange.bind_ok", ""),
    EXCHANGE_UNBIND: Method("exchange.unbind", "hssstT"),
    EXCHANGE_UNBIND_OK: Method("exchange.unbind_ok", ""),
    QUEUE_DECLARE: Method("queue.declare", "hstttttT"),
    QUEUE_DECLARE_OK: Method("queue.declare_ok", "sll"),
    QUEUE_BIND: Method("queue.bind", "hssstT"),
    QUEUE_BIND_OK: Method("queue.bind_ok", ""),
    QUEUE_PURGE: Method("queue.purge", "hst"),
    QUEUE_PURGE_OK: Method("queue.purge_ok", "l"),
    QUEUE_DELETE: Method("queue.delete", "hsttt"),
    QUEUE_DELETE_OK: Method("queue.delete_ok", "l"),
    QUEUE_UNBIND: Method("queue.unbind", "hsssT"),
    QUEUE_UNBIND_OK: Method("queue.unbind_ok", ""),
    BASIC_QOS: Method("basic.qos", "lht"),
    BASIC_QOS_OK: Method("basic.qos_ok", ""),
    BASIC_CONSUME: Method("basic.consume", "hssttttT"),
    BASIC_CONSUME_OK: Method("basic.consume_ok", "s"),
    BASIC_CANCEL: Method("basic.cancel", "st"),
    BASIC_CANCEL_OK: Method("basic.cancel_ok", "s"),
    BASIC_PUBLISH: Method("basic.publish", "hsstt"),
    BASIC_RETURN: Method("basic.return", "hsss"),
    BASIC_DELIVER: Method("basic.deliver", "sLtss"),
    BASIC_GET: Method("basic.get", "hst"),
    BASIC_GET_OK: Method("basic.get_ok", "Ltssl"),
    BASIC_GET_EMPTY: Method("basic.get_empty", "s"),
    BASIC_ACK: Method("basic.ack", "Lt"),
    BASIC_REJECT: Method("basic.reject", "Lt"),
    BASIC_RECOVER_ASYNC: Method("basic.recover_async", "t"),
    BASIC_RECOVER: Method("basic.recover", "t"),
    BASIC_RECOVER_OK: Method("basic.recover_ok", ""),
    BASIC_NACK: Method("basic.nack", "Ltt"),
    CONFIRM_SELECT: Method("confirm.select", "t"),
    CONFIRM_SELECT_OK: Method("confirm.select_ok", ""),
    TX_SELECT: Method("tx.select", ""),
    TX_SELECT_OK: Method("tx.select_ok", ""),
    TX_COMMIT: Method("tx.commit", ""),
    TX_COMMIT_OK: Method("tx.commit_ok", ""),
    TX_ROLLBACK: Method("tx.rollback", ""),
    TX_ROLLBACK_OK: Method("tx.rollback_ok", ""),
}

_SIZES: Final = {"o": 1, "h": 2, "l": 4, "L": 8}

Arguments = list[Any]


def decode_arguments(form: str, data: bytes, at: int, end: int) -> Arguments:
    """The arguments of a method. Bytes behind them are an error."""
    arguments: Arguments = []
    bit = 8  # The next bit of the octet before `at`; 8: a new octet is needed.
    for letter in form:
        if letter == "t":
            if bit == 8:
                if at >= end:
                    raise MalformedTable("an argument is cut off")
                bit = 0
                at += 1
            arguments.append(bool(data[at - 1] >> bit & 1))
            bit += 1
            continue
        bit = 8
        size = _SIZES.get(letter)
        if size is not None:
            if at + size > end:
                raise MalformedTable("an argument is cut off")
            arguments.append(int.from_bytes(data[at : at + size], "big"))
            at += size
        elif letter == "s":
            text, at = decode_short(data, at, end)
            arguments.append(text)
        else:
            value, at = _decode_long(letter, data, at, end)
            arguments.append(value)
    if at != end:
        raise MalformedTable("there are bytes behind the arguments")
    return arguments


def _decode_long(letter: str, data: bytes, at: int, end: int) -> tuple[bytes, int]:
    if letter == "T":
        stop = split_table(data, at)[1]
    else:
        if at + 4 > end:
            raise MalformedTable("an argument is cut off")
        stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if stop > end:
        raise MalformedTable("an argument is cut off")
    return (data[at:stop] if letter == "T" else data[at + 4 : stop]), stop


def encode_arguments(form: str, arguments: Arguments) -> bytes:
    """The bytes of a method's arguments."""
    parts: list[bytes] = []
    bits = count = 0
    for letter, value in zip(form, arguments, strict=True):
        if letter == "t":
            bits |= bool(value) << count
            count += 1
            if count == 8:
                parts.append(bytes((bits,)))
                bits = count = 0
            continue
        if count:
            parts.append(bytes((bits,)))
            bits = count = 0
        if letter == "s":
            parts.append(encode_short(value))
        elif letter == "S":
            parts.append(len(value).to_bytes(4, "big") + value)
        elif letter == "T":
            parts.append(value)
        else:
            parts.append(value.to_bytes(_SIZES[letter], "big"))
    if count:
        parts.append(bytes((bits,)))
    return b"".join(parts)
