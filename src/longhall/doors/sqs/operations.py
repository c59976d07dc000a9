"""Which handler serves which action. A test proves that every action of the service has one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.handlers.add_permission import add_permission
from longhall.doors.sqs.handlers.cancel_message_move_task import cancel_message_move_task
from longhall.doors.sqs.handlers.change_message_visibility import change_message_visibility
from longhall.doors.sqs.handlers.change_message_visibility_batch import change_message_visibility_batch
from longhall.doors.sqs.handlers.create_queue import create_queue
from longhall.doors.sqs.handlers.delete_message import delete_message
from longhall.doors.sqs.handlers.delete_message_batch import delete_message_batch
from longhall.doors.sqs.handlers.delete_queue import delete_queue
from longhall.doors.sqs.handlers.get_queue_attributes import get_queue_attributes
from longhall.doors.sqs.handlers.get_queue_url import get_queue_url
from longhall.doors.sqs.handlers.list_dead_letter_source_queues import list_dead_letter_source_queues
from longhall.doors.sqs.handlers.list_message_move_tasks import list_message_move_tasks
from longhall.doors.sqs.handlers.list_queue_tags import list_queue_tags
from longhall.doors.sqs.handlers.list_queues import list_queues
from longhall.doors.sqs.handlers.purge_queue import purge_queue
from longhall.doors.sqs.handlers.receive_message import receive_message
from longhall.doors.sqs.handlers.remove_permission import remove_permission
from longhall.doors.sqs.handlers.send_message import send_message
from longhall.doors.sqs.handlers.send_message_batch import send_message_batch
from longhall.doors.sqs.handlers.set_queue_attributes import set_queue_attributes
from longhall.doors.sqs.handlers.start_message_move_task import start_message_move_task
from longhall.doors.sqs.handlers.tag_queue import tag_queue
from longhall.doors.sqs.handlers.untag_queue import untag_queue
from longhall.doors.sqs.wire.results import Result

# A handler answers at once, with the next commit, or later. Its second argument is the request of its action, which the
# wire guarantees.
Handler = Callable[[Door, Any, Caller], Result | Held | Coroutine[Any, Any, Result]]

OPERATIONS: Final[dict[str, Handler]] = {
    "AddPermission": add_permission,
    "CancelMessageMoveTask": cancel_message_move_task,
    "ChangeMessageVisibility": change_message_visibility,
    "ChangeMessageVisibilityBatch": change_message_visibility_batch,
    "CreateQueue": create_queue,
    "DeleteMessage": delete_message,
    "DeleteMessageBatch": delete_message_batch,
    "DeleteQueue": delete_queue,
    "GetQueueAttributes": get_queue_attributes,
    "GetQueueUrl": get_queue_url,
    "ListDeadLetterSourceQueues": list_dead_letter_source_queues,
    "ListMessageMoveTasks": list_message_move_tasks,
    "ListQueueTags": list_queue_tags,
    "ListQueues": list_queues,
    "PurgeQueue": purge_queue,
    "ReceiveMessage": receive_message,
    "RemovePermission": remove_permission,
    "SendMessage": send_message,
    "SendMessageBatch": send_message_batch,
    "SetQueueAttributes": set_queue_attributes,
    "StartMessageMoveTask": start_message_move_task,
    "TagQueue": tag_queue,
    "UntagQueue": untag_queue,
}
