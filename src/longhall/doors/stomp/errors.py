"""The errors of STOMP: ERROR frames, and how the errors of AMQP's model become such frames.

error                                      the connection
a frame that cannot be carried out         goes on
CONNECT refused, bytes that are no frame   is closed
an error of AMQP's model, of any kind      is closed: `not_found`, `precondition_failed`, ...
"""

from __future__ import annotations

from typing import Final, final

from longhall.doors.amqp.errors import NAMES, AmqpError, error_of
from longhall.errors import LonghallError

VERSIONS: Final = "1.0,1.1,1.2"
WORD_BYTES: Final = 20

_COMMANDS: Final = tuple(b"CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT".split())


@final
class StompError(Exception):
    """An ERROR frame. `headers` are added to those that every ERROR has."""

    def __init__(
        self, message: str, body: str = "", *, closes: bool = False, headers: list[tuple[str, str]] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.body = body
        self.closes = closes
        self.headers = headers or []


def foreign_bytes(data: bytes) -> StompError | None:
    """An error if the first bytes of a connection begin no frame: the rest of one would be waited for in vain."""
    word = data.lstrip(b"\r\n\0 ")[:WORD_BYTES].split(b"\n", 1)[0].rstrip(b"\r ")
    if any(command.startswith(word) for command in _COMMANDS):
        return None
    if b"\0" in data.partition(b"\n")[2]:
        return None  # A complete frame with another command, which is refused as such.
    said = "This port speaks STOMP, and the client does not: it begins with"
    return StompError("Malformed frame", f"{said} {word.decode('latin-1')!a}\n", closes=True)


def stomp_error(error: AmqpError | LonghallError) -> StompError:
    """An error of AMQP's model, or a refusal of the service, as an ERROR that closes the connection."""
    if isinstance(error, LonghallError):
        error = error_of(error)
    return StompError(NAMES[error.reply].lower(), f"{error}\n", closes=True)


def missing_header(command: str, name: str) -> StompError:
    """A header that a frame must have."""
    return StompError("Missing header", f'"{command}" must include the "{name}" header\n')


def invalid_header(name: str, value: str, why: str) -> StompError:
    """A header with a value that cannot be."""
    return StompError("Invalid header", f"'{name}' is '{value[:100]}': {why}\n")
