"""The table from actions to handlers. A test proves that every action of the service has one.

Handlers of actions on messages get the queue as this process knows it and return at once. Handlers of actions on
queues are coroutines, and ask the leader for what they need to know.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from longhall.doors.sqs.door import Caller, Door, Later
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
from longhall.queues.messages import QueueView

# The wire guarantees that the request has the type of the action.
MessageHandler = Callable[[Door, QueueView, Any, Caller], Result | Later]
QueueHandler = Callable[[Door, Any, Caller], Coroutine[Any, Any, Result]]

MESSAGE_HANDLERS: Final[dict[str, MessageHandler]] = {
    "ChangeMessageVisibility": change_message_visibility,
    "ChangeMessageVisibilityBatch": change_message_visibility_batch,
    "DeleteMessage": delete_message,
    "DeleteMessageBatch": delete_message_batch,
    "ReceiveMessage": receive_message,
    "SendMessage": send_message,
    "SendMessageBatch": send_message_batch,
}

QUEUE_HANDLERS: Final[dict[str, QueueHandler]] = {
    "AddPermission": add_permission,
    "CancelMessageMoveTask": cancel_message_move_task,
    "CreateQueue": create_queue,
    "DeleteQueue": delete_queue,
    "GetQueueAttributes": get_queue_attributes,
    "GetQueueUrl": get_queue_url,
    "ListDeadLetterSourceQueues": list_dead_letter_source_queues,
    "ListMessageMoveTasks": list_message_move_tasks,
    "ListQueueTags": list_queue_tags,
    "ListQueues": list_queues,
    "PurgeQueue": purge_queue,
    "RemovePermission": remove_permission,
    "SetQueueAttributes": set_queue_attributes,
    "StartMessageMoveTask": start_message_move_task,
    "TagQueue": tag_queue,
    "UntagQueue": untag_queue,
}
