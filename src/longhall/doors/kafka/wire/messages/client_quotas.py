"""Client quotas: the limits of users and client ids, as administrators list and change them."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, float64, int8, int16, int32, string


class DescribeClientQuotasRequestComponent(Message):
    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = string("0+", null="0+", default=None)


class DescribeClientQuotasRequest(Message, flexible=1):
    """A filter of entities. `match_type`: 0 the name, 1 the default, 2 every name. A strict filter names every part."""

    components: list[DescribeClientQuotasRequestComponent] = array("0+", DescribeClientQuotasRequestComponent)
    strict: bool = boolean("0+")


class DescribeClientQuotasResponseEntity(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", null="0+", default=None)


class DescribeClientQuotasResponseValue(Message):
    key: str = string("0+")
    value: float = float64("0+")


class DescribeClientQuotasResponseEntry(Message):
    entity: list[DescribeClientQuotasResponseEntity] = array("0+", DescribeClientQuotasResponseEntity)
    values: list[DescribeClientQuotasResponseValue] = array("0+", DescribeClientQuotasResponseValue)


class DescribeClientQuotasResponse(Message, flexible=1):
    """The limits of the entities that match; a null name is the default."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    entries: list[DescribeClientQuotasResponseEntry] | None = array("0+", DescribeClientQuotasResponseEntry, null="0+")


class AlterClientQuotasRequestEntity(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", null="0+", default=None)


class AlterClientQuotasRequestOp(Message):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class AlterClientQuotasRequestEntry(Message):
    entity: list[AlterClientQuotasRequestEntity] = array("0+", AlterClientQuotasRequestEntity)
    ops: list[AlterClientQuotasRequestOp] = array("0+", AlterClientQuotasRequestOp)


class AlterClientQuotasRequest(Message, flexible=1):
    """Sets and removes limits; the changes of one entity are atomic."""

    entries: list[AlterClientQuotasRequestEntry] = array("0+", AlterClientQuotasRequestEntry)
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponseEntity(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", null="0+", default=None)


class AlterClientQuotasResponseEntry(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    entity: list[AlterClientQuotasResponseEntity] = array("0+", AlterClientQuotasResponseEntity)


class AlterClientQuotasResponse(Message, flexible=1):
    """One result an entity."""

    throttle_time_ms: int = int32("0+")
    entries: list[AlterClientQuotasResponseEntry] = array("0+", AlterClientQuotasResponseEntry)
