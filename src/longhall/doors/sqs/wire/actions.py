"""The actions of the service with their request and result types. Both protocols and the handlers share this list."""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.doors.sqs.wire import requests as asked
from longhall.doors.sqs.wire import results as given


class Action(NamedTuple):
    """One action; `result` is `Nothing` for an empty response."""

    name: str
    request: type[asked.Request]
    result: type[given.Result] = given.Nothing


ACTIONS: Final[dict[str, Action]] = {
    action.name: action
    for action in (
        Action("AddPermission", asked.AddPermissionRequest),
        Action("CancelMessageMoveTask", asked.CancelMessageMoveTaskRequest, given.CancelMessageMoveTaskResult),
        Action("ChangeMessageVisibility", asked.ChangeMessageVisibilityRequest),
        Action(
            "ChangeMessageVisibilityBatch",
            asked.ChangeMessageVisibilityBatchRequest,
            given.ChangeMessageVisibilityBatchResult,
        ),
        Action("CreateQueue", asked.CreateQueueRequest, given.CreateQueueResult),
        Action("DeleteMessage", asked.DeleteMessageRequest),
        Action("DeleteMessageBatch", asked.DeleteMessageBatchRequest, given.DeleteMessageBatchResult),
        Action("DeleteQueue", asked.DeleteQueueRequest),
        Action("GetQueueAttributes", asked.GetQueueAttributesRequest, given.GetQueueAttributesResult),
        Action("GetQueueUrl", asked.GetQueueUrlRequest, given.GetQueueUrlResult),
        Action(
            "ListDeadLetterSourceQueues",
            asked.ListDeadLetterSourceQueuesRequest,
            given.ListDeadLetterSourceQueuesResult,
        ),
        Action("ListMessageMoveTasks", asked.ListMessageMoveTasksRequest, given.ListMessageMoveTasksResult),
        Action("ListQueueTags", asked.ListQueueTagsRequest, given.ListQueueTagsResult),
        Action("ListQueues", asked.ListQueuesRequest, given.ListQueuesResult),
        Action("PurgeQueue", asked.PurgeQueueRequest),
        Action("ReceiveMessage", asked.ReceiveMessageRequest, given.ReceiveMessageResult),
        Action("RemovePermission", asked.RemovePermissionRequest),
        Action("SendMessage", asked.SendMessageRequest, given.SendMessageResult),
        Action("SendMessageBatch", asked.SendMessageBatchRequest, given.SendMessageBatchResult),
        Action("SetQueueAttributes", asked.SetQueueAttributesRequest),
        Action("StartMessageMoveTask", asked.StartMessageMoveTaskRequest, given.StartMessageMoveTaskResult),
        Action("TagQueue", asked.TagQueueRequest),
        Action("UntagQueue", asked.UntagQueueRequest),
    )
}
