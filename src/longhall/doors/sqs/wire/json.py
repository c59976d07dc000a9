"""The JSON 1.0 protocol: `X-Amz-Target: AmazonSQS.<Action>`, a JSON object each way.

An error is `{"__type": shape, "message": ...}`; the code of the older protocol goes into a header beside it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longhall.doors.sqs.wire.actions import ACTIONS
from longhall.doors.sqs.wire.faults import MALFORMED, SqsError, missing
from longhall.doors.sqs.wire.requests import Request

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
TARGET_PREFIX: Final = b"AmazonSQS."
QUERY_ERROR_HEADER: Final = "x-amzn-query-error"
NAMESPACE: Final = "com.amazonaws.sqs#"

_DECODERS: Final = {name: msgspec.json.Decoder(action.request) for name, action in ACTIONS.items()}
_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `\$\.?(.*)`)?")

encode_result = msgspec.json.Encoder().encode


def decode_request(action: str, body: bytes) -> Request:
    """Read the request of a known action. Raises SqsError."""
    try:
        request: Request = _DECODERS[action].decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(error) from None
    return request


def refusal(error: Exception) -> SqsError:
    """The error for a request that cannot be decoded."""
    text = str(error)
    if found := _MISSING.match(text):
        name, within = found.groups()
        return missing(f"{within}.{name}" if within else name)
    return SqsError(MALFORMED, f"The request cannot be read: {text[:300]}")


def encode_error(error: SqsError) -> bytes:
    """The body of an error response."""
    return msgspec.json.encode({"__type": NAMESPACE + error.fault.shape, "message": error.message})
