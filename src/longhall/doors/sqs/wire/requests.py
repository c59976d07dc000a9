"""The requests: one structure for each action, with the service's names for its members.

Both protocols are decoded into these. Members that the service ignores are ignored here as well. The handlers check the
ranges of numbers, because the error differs between actions.
"""

from __future__ import annotations

import msgspec
from msgspec import field


class Request(msgspec.Struct, kw_only=True, rename="pascal", gc=False):
    """The base of all requests."""


class AttributeValue(Request):
    """The value of a message attribute: a string or bytes, and its type."""

    data_type: str = ""  # An attribute without a type is refused by `sending`, in the words of the service.
    string_value: str | None = None
    binary_value: bytes | None = None
    string_list_values: list[str] | None = None
    binary_list_values: list[bytes] | None = None


class Entry(Request):
    """One entry of a batch."""

    id: str


class OfQueue(Request):
    """A request about one queue."""

    queue_url: str


class AddPermissionRequest(OfQueue):
    label: str
    account_ids: list[str] = field(default_factory=list, name="AWSAccountIds")
    actions: list[str] = field(default_factory=list)


class CancelMessageMoveTaskRequest(Request):
    task_handle: str


class ChangeMessageVisibilityRequest(OfQueue):
    receipt_handle: str
    visibility_timeout: int


class ChangeMessageVisibilityBatchRequestEntry(Entry):
    receipt_handle: str
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatchRequest(OfQueue):
    entries: list[ChangeMessageVisibilityBatchRequestEntry] = field(default_factory=list)


class CreateQueueRequest(Request):
    queue_name: str
    attributes: dict[str, str] | None = None
    tags: dict[str, str] | None = field(default=None, name="tags")


class DeleteMessageRequest(OfQueue):
    receipt_handle: str


class DeleteMessageBatchRequestEntry(Entry):
    receipt_handle: str


class DeleteMessageBatchRequest(OfQueue):
    entries: list[DeleteMessageBatchRequestEntry] = field(default_factory=list)


class DeleteQueueRequest(OfQueue):
    pass


class GetQueueAttributesRequest(OfQueue):
    attribute_names: list[str] | None = None


class GetQueueUrlRequest(Request):
    queue_name: str
    queue_owner_account_id: str | None = field(default=None, name="QueueOwnerAWSAccountId")


class ListDeadLetterSourceQueuesRequest(OfQueue):
    next_token: str | None = None
    max_results: int | None = None


class ListMessageMoveTasksRequest(Request):
    source_arn: str
    max_results: int | None = None


class ListQueueTagsRequest(OfQueue):
    pass


class ListQueuesRequest(Request):
    queue_name_prefix: str | None = None
    next_token: str | None = None
    max_results: int | None = None


class PurgeQueueRequest(OfQueue):
    pass


class ReceiveMessageRequest(OfQueue):
    attribute_names: list[str] | None = None
    message_system_attribute_names: list[str] | None = None
    message_attribute_names: list[str] | None = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class RemovePermissionRequest(OfQueue):
    label: str


class SendMessageRequest(OfQueue):
    message_body: str
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] | None = None
    message_system_attributes: dict[str, AttributeValue] | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessageBatchRequestEntry(Entry):
    message_body: str
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] | None = None
    message_system_attributes: dict[str, AttributeValue] | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessageBatchRequest(OfQueue):
    entries: list[SendMessageBatchRequestEntry] = field(default_factory=list)


class SetQueueAttributesRequest(OfQueue):
    attributes: dict[str, str]


class StartMessageMoveTaskRequest(Request):
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class TagQueueRequest(OfQueue):
    tags: dict[str, str]


class UntagQueueRequest(OfQueue):
    tag_keys: list[str]
