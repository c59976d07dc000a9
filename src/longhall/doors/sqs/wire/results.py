"""The results: one structure for each action, with the service's names for its members.

Empty members are left out, as in the service: clients test whether `Messages` is present.
"""

from __future__ import annotations

import msgspec
from msgspec import field


class Result(msgspec.Struct, kw_only=True, rename="pascal", omit_defaults=True, gc=False):
    """The base of all results."""


class Nothing(Result):
    """The result of actions without a result."""


class AttributeValueResult(Result):
    data_type: str
    string_value: str | None = None
    binary_value: bytes | None = None


class BatchResultErrorEntry(Result):
    """The error of one entry of a batch."""

    id: str
    sender_fault: bool
    code: str
    message: str | None = None


class BatchResultEntry(Result):
    """The success of one entry of a batch."""

    id: str


class ChangeMessageVisibilityBatchResult(Result):
    successful: list[BatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []


class CancelMessageMoveTaskResult(Result):
    approximate_number_of_messages_moved: int


class CreateQueueResult(Result):
    queue_url: str


class DeleteMessageBatchResult(Result):
    successful: list[BatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []


class GetQueueAttributesResult(Result):
    attributes: dict[str, str] = {}


class GetQueueUrlResult(Result):
    queue_url: str


class ListDeadLetterSourceQueuesResult(Result):
    queue_urls: list[str] = field(name="queueUrls")
    next_token: str | None = None


class ListMessageMoveTasksResultEntry(Result):
    status: str
    source_arn: str
    approximate_number_of_messages_moved: int
    started_timestamp: int
    task_handle: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    approximate_number_of_messages_to_move: int | None = None
    failure_reason: str | None = None


class ListMessageMoveTasksResult(Result):
    results: list[ListMessageMoveTasksResultEntry] = []


class ListQueueTagsResult(Result):
    tags: dict[str, str] = {}


class ListQueuesResult(Result):
    queue_urls: list[str] = []
    next_token: str | None = None


class MessageResult(Result):
    """One received message."""

    message_id: str
    receipt_handle: str
    body: str
    md5_of_body: str = field(name="MD5OfBody")
    attributes: dict[str, str] = {}
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    message_attributes: dict[str, AttributeValueResult] = {}


class ReceiveMessageResult(Result):
    messages: list[MessageResult] = []


class SendMessageResult(Result):
    message_id: str
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    md5_of_message_system_attributes: str | None = field(default=None, name="MD5OfMessageSystemAttributes")
    sequence_number: str | None = None


class SendMessageBatchResultEntry(Result):
    id: str
    message_id: str
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    md5_of_message_system_attributes: str | None = field(default=None, name="MD5OfMessageSystemAttributes")
    sequence_number: str | None = None


class SendMessageBatchResult(Result):
    successful: list[SendMessageBatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []


class StartMessageMoveTaskResult(Result):
    task_handle: str
