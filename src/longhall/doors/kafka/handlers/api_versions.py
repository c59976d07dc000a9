"""ApiVersions: the APIs and versions that this door offers."""

from __future__ import annotations

import re
from typing import Final

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.apis import encode_response
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.headers import API_VERSIONS
from longhall.doors.kafka.wire.messages.versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApi,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)
from longhall.errors import Code
from longhall.names import STORED_FORM

GROUP_VERSION = "group.version"  # Version 1 has the consumer group protocol.
SHARE_VERSION = "share.version"  # Version 1 has share groups.
TRANSACTION_VERSION = "transaction.version"
NAMED_FROM: Final = 3
FEATURES_FROM_0: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(door: Door, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.header.version >= NAMED_FROM and not _is_named(request):
        return ApiVersionsResponse(error_code=error_of(Code.INVALID_REQUEST), api_keys=[])
    response = ApiVersionsResponse(api_keys=_offered())
    # Version 2 of transactions raises the epoch at the end of each; clients use it only if it is announced.
    features = [
        ApiVersionsResponseSupportedFeature(name=GROUP_VERSION, min_version=0, max_version=1),
        ApiVersionsResponseSupportedFeature(name=SHARE_VERSION, min_version=0, max_version=1),
        ApiVersionsResponseSupportedFeature(name=TRANSACTION_VERSION, min_version=0, max_version=2),
        ApiVersionsResponseSupportedFeature(name=STORED_FORM, min_version=0, max_version=1),
    ]
    # Java clients that ask in version 3 fail at a feature whose least version is 0.
    response.supported_features = features if call.header.version >= FEATURES_FROM_0 else []
    response.finalized_features_epoch = 1
    response.finalized_features = [
        ApiVersionsResponseFinalizedFeature(name=GROUP_VERSION, max_version_level=1, min_version_level=1),
        ApiVersionsResponseFinalizedFeature(name=SHARE_VERSION, max_version_level=1, min_version_level=1),
        ApiVersionsResponseFinalizedFeature(name=TRANSACTION_VERSION, max_version_level=2, min_version_level=2),
        ApiVersionsResponseFinalizedFeature(name=STORED_FORM, max_version_level=1, min_version_level=1),
    ]
    return response


def _is_named(request: ApiVersionsRequest) -> bool:
    """True if the client tells its name and version in the form that Kafka wants (KIP-511)."""
    said = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(word) is not None for word in said)


def refuse_version(correlation_id: int) -> bytes:
    """The response to a version of ApiVersions that does not exist yet, in version 0, which every client can read."""
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_offered())
    return encode_response(correlation_id, API_VERSIONS, 0, response)


def _offered() -> list[ApiVersionsResponseApi]:
    from longhall.doors.kafka.operations import OPERATIONS  # The table names this handler.

    return [
        ApiVersionsResponseApi(api_key=key, min_version=operation.version_min, max_version=operation.version_max)
        for key, operation in sorted(OPERATIONS.items())
    ]
