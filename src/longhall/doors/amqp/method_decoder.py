"""The method in a frame: its number and its arguments, or the error that ends the connection."""

from __future__ import annotations

from longhall.doors.amqp.errors import COMMAND_INVALID, SYNTAX_ERROR, AmqpError
from longhall.doors.amqp.wire.methods import METHODS, Arguments, decode_arguments


def decode_method(data: bytes, at: int, stop: int) -> tuple[int, Arguments]:
    """Decode `data[at:stop]`. Raises AmqpError."""
    if stop - at < 4:
        raise AmqpError(SYNTAX_ERROR, "a method is cut off")
    number = int.from_bytes(data[at : at + 4], "big")
    method = METHODS.get(number)
    if method is None:
        raise AmqpError(COMMAND_INVALID, f"unknown method {number >> 16}.{number & 0xFFFF}")
    return number, decode_arguments(method.form, data, at + 4, stop)
