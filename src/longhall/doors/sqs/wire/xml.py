"""Responses of the Query protocol: XML in the namespace of 2012-11-05.

    <SendMessageResponse xmlns="..."><SendMessageResult>members</SendMessageResult>
    <ResponseMetadata><RequestId>...</RequestId></ResponseMetadata></SendMessageResponse>

Text must consist of characters that XML allows; the handlers ensure that.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.doors.sqs.wire.faults import NO_SUCH_QUEUE_MESSAGE, SqsError
from longhall.doors.sqs.wire.names import KEY_NAMES, flat_name
from longhall.doors.sqs.wire.results import Nothing, Result

CONTENT_TYPE: Final = "text/xml"
NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
UNKNOWN_OPERATION: Final = b"<UnknownOperationException/>\n"  # To a GET of a queue's URL without an action.
IN_THIS_VERSION: Final = "The specified queue does not exist for this wsdl version."
_PROLOGUE: Final = '<?xml version="1.0"?>'


def encode_result(action: str, result: Result, request_id: str) -> bytes:
    """A complete response."""
    out = [_PROLOGUE, f'<{action}Response xmlns="{NAMESPACE}">']
    if not isinstance(result, Nothing):
        members: list[str] = []
        _write_members(members, msgspec.to_builtins(result), action)
        out += [f"<{action}Result>", *members, f"</{action}Result>"] if members else [f"<{action}Result/>"]
    out.append(f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>")
    return "".join(out).encode()


def encode_error(error: SqsError, request_id: str) -> bytes:
    """A complete error response."""
    message = escape(legal(query_message(error)))
    return (
        f'{_PROLOGUE}<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{error.fault.type}</Type>'
        f"<Code>{error.fault.code}</Code><Message>{message}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def query_message(error: SqsError) -> str:
    """The message of an error in the Query protocol, which has words of its own for a queue that does not exist."""
    return IN_THIS_VERSION if error.message == NO_SUCH_QUEUE_MESSAGE else error.message


def escape(text: str) -> str:
    """Escaped text. A carriage return would be parsed as a line feed, so it is written as a character reference."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;") if "\r" in text else text


def legal(text: str) -> str:
    """The text with the characters replaced that XML does not allow. For error messages, which may quote a client."""
    return "".join(c if is_legal(c) else "\ufffd" for c in text)


def is_legal(character: str) -> bool:
    """True if XML 1.0, and with it the service, allows the character."""
    code = ord(character)
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def _write_members(out: list[str], members: dict[str, object], action: str) -> None:
    for name, value in members.items():
        if isinstance(value, list):
            flat = flat_name(name, action)
            for item in value:
                _write(out, flat, item, action)
        elif isinstance(value, dict):
            _write_map(out, flat_name(name, action), value, action)
        else:
            _write(out, name, value, action)


def _write_map(out: list[str], name: str, entries: dict[str, object], action: str) -> None:
    key_name = KEY_NAMES.get(name, "Name")
    for key, value in entries.items():
        out.append(f"<{name}><{key_name}>{escape(key)}</{key_name}>")
        _write(out, "Value", value, action)
        out.append(f"</{name}>")


def _write(out: list[str], name: str, value: object, action: str) -> None:
    if isinstance(value, dict):
        out.append(f"<{name}>")
        _write_members(out, value, action)
        out.append(f"</{name}>")
    elif isinstance(value, bool):
        out.append(f"<{name}>{'true' if value else 'false'}</{name}>")
    else:
        assert isinstance(value, str | int)
        out.append(f"<{name}>{escape(str(value))}</{name}>")
