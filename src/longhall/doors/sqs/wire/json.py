"""The JSON 1.0 protocol: `X-Amz-Target: AmazonSQS.<Action>`, a JSON object each way.

An error is `{"__type": shape, "message": ...}`; the code of the older protocol goes into a header beside it. A member
that is null is a member that is absent, as in the service; null as an element of a list or of a map is refused.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longhall.doors.sqs.wire.actions import ACTIONS
from longhall.doors.sqs.wire.faults import MALFORMED, SqsError, missing
from longhall.doors.sqs.wire.names import flat_name
from longhall.doors.sqs.wire.requests import Request

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
TARGET_PREFIX: Final = b"AmazonSQS."
QUERY_ERROR_HEADER: Final = "x-amzn-query-error"
NAMESPACE: Final = "com.amazonaws.sqs#"

_DECODERS: Final = {name: msgspec.json.Decoder(action.request) for name, action in ACTIONS.items()}
_NULL: Final = "got `null`"
# Members whose elements are structures.
_HOLDERS: Final = frozenset({"Entries", "MessageAttributes", "MessageSystemAttributes"})
_ENTRY = re.compile(r"Entries\[([0-9]{1,6})\]")
_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `\$\.?(.*)`)?")

encode_result = msgspec.json.Encoder().encode


def decode_request(action: str, body: bytes) -> Request:
    """Read the request of a known action. Raises SqsError."""
    try:
        request: Request = _DECODERS[action].decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _NULL in str(error):
            return _decode_without_nulls(action, body)
        raise refusal(action, error) from None
    return request


def _decode_without_nulls(action: str, body: bytes) -> Request:
    """Read a request that has null where its type does not allow it. Raises SqsError."""
    try:
        tree: object = msgspec.json.decode(body)
        request: Request = msgspec.convert(_without_nulls(tree), ACTIONS[action].request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(action, error) from None
    return request


def _without_nulls(node: object) -> object:
    """A structure without the members that are null; anything else as it is."""
    if not isinstance(node, dict):
        return node
    present: dict[str, object] = {}
    for name, value in node.items():
        if value is None:
            continue
        if name not in _HOLDERS:
            present[name] = value
        elif isinstance(value, list):
            present[name] = [_without_nulls(item) for item in value]
        elif isinstance(value, dict):
            present[name] = {key: _without_nulls(item) for key, item in value.items()}
        else:
            present[name] = value
    return present


def refusal(action: str, error: Exception) -> SqsError:
    """The error for a request of this action that cannot be decoded."""
    text = str(error)
    if found := _MISSING.match(text):
        name, within = found.groups()
        if within and (entry := _ENTRY.fullmatch(within)):  # Named as in the Query protocol, in both protocols.
            within = f"{flat_name('Entries', action)}.{int(entry[1]) + 1}"
        return missing(f"{within}.{name}" if within else name)
    return SqsError(MALFORMED, f"The request cannot be read: {text[:300]}")


def encode_error(error: SqsError) -> bytes:
    """The body of an error response."""
    return msgspec.json.encode({"__type": NAMESPACE + error.fault.shape, "message": error.message})
