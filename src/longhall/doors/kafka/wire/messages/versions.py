"""The versions that each side of a connection has."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, flexible=3):
    """The first request of most clients. The answer's header is always the oldest one."""

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


class ApiVersionsResponseApi(Message):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class ApiVersionsResponseSupportedFeature(Message):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class ApiVersionsResponseFinalizedFeature(Message):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Message, flexible=3):
    """The range of versions of every API that is offered."""

    error_code: int = int16("0+")
    api_keys: list[ApiVersionsResponseApi] = array("0+", ApiVersionsResponseApi)
    throttle_time_ms: int = int32("1+")
    supported_features: list[ApiVersionsResponseSupportedFeature] = array(
        "3+", ApiVersionsResponseSupportedFeature, tag=0
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = array(
        "3+", ApiVersionsResponseFinalizedFeature, tag=2
    )
    zk_migration_ready: bool = boolean("3+", tag=3)
