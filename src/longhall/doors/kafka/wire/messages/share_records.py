"""Records of share groups (KIP-932): acquired with ShareFetch, acknowledged with it or with ShareAcknowledge."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import (
    Message,
    array,
    boolean,
    data,
    int8,
    int16,
    int32,
    int64,
    string,
    structure,
    uuid,
)


class AcknowledgementBatch(Message):
    """One type for all offsets from first to last, or one for each of them."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: list[int] = array("0+", "int8")


class ShareFetchRequestPartition(Message):
    partition_index: int = int32("0+")
    partition_max_bytes: int = int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = array("0+", AcknowledgementBatch)


class ShareFetchRequestTopic(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[ShareFetchRequestPartition] = array("0+", ShareFetchRequestPartition)


class ShareFetchRequestForgottenTopic(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", "int32")


class ShareFetchRequest(Message, flexible=0):
    """Asks for records of the partitions of a share session, which this request may change, and acknowledges some."""

    group_id: str | None = string("0+", null="0+", default=None)
    member_id: str | None = string("0+", null="0+", default="")
    share_session_epoch: int = int32("0+")
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareFetchRequestTopic] = array("0+", ShareFetchRequestTopic)
    forgotten_topics_data: list[ShareFetchRequestForgottenTopic] = array("0+", ShareFetchRequestForgottenTopic)


class ShareLeader(Message):
    """The leader of a partition, beside an error."""

    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class AcquiredRecords(Message):
    """Offsets that are locked for the member, and how often they have been delivered with this time."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_count: int = int16("0+")


class ShareFetchResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    acknowledge_error_code: int = int16("0+")
    acknowledge_error_message: str | None = string("0+", null="0+", default=None)
    current_leader: ShareLeader = structure("0+", ShareLeader)
    records: bytes | None = data("0+", null="0+")
    acquired_records: list[AcquiredRecords] = array("0+", AcquiredRecords)


class ShareFetchResponseTopic(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[ShareFetchResponsePartition] = array("0+", ShareFetchResponsePartition)


class ShareNodeEndpoint(Message):
    """The address of a leader that a partition names."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", null="0+", default=None)


class ShareFetchResponse(Message, flexible=0):
    """Batches, with the offsets in them that the member has acquired."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchResponseTopic] = array("0+", ShareFetchResponseTopic)
    node_endpoints: list[ShareNodeEndpoint] = array("0+", ShareNodeEndpoint)


class ShareAcknowledgeRequestPartition(Message):
    partition_index: int = int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = array("0+", AcknowledgementBatch)


class ShareAcknowledgeRequestTopic(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[ShareAcknowledgeRequestPartition] = array("0+", ShareAcknowledgeRequestPartition)


class ShareAcknowledgeRequest(Message, flexible=0):
    """Acknowledges acquired records without asking for more."""

    group_id: str | None = string("0+", null="0+", default=None)
    member_id: str | None = string("0+", null="0+", default="")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareAcknowledgeRequestTopic] = array("0+", ShareAcknowledgeRequestTopic)


class ShareAcknowledgeResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    current_leader: ShareLeader = structure("0+", ShareLeader)


class ShareAcknowledgeResponseTopic(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[ShareAcknowledgeResponsePartition] = array("0+", ShareAcknowledgeResponsePartition)


class ShareAcknowledgeResponse(Message, flexible=0):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: list[ShareAcknowledgeResponseTopic] = array("0+", ShareAcknowledgeResponseTopic)
    node_endpoints: list[ShareNodeEndpoint] = array("0+", ShareNodeEndpoint)
