"""Publishing through the default exchange to queues that other replication groups store: without a detour.

The default exchange needs no bindings: the routing key is the queue. The process that has the client's connection sends
such messages to the groups of the queue itself, the nearest first where any may have them. Everything else goes through
the leader of the hall, which has the exchanges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from longhall.broker.queues.sending.publish import AT_ONCE_MS, Published, shorter_life
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.queues.messages import Accepted, Outgoing
from longhall.service.exchange_operations import PublishMessages
from longhall.service.queue_operations import SendMessages

if TYPE_CHECKING:
    from longhall.service.placed_queues import PlacedQueue, PlacedQueues


def direct_queues(placed: PlacedQueues, op: PublishMessages) -> list[PlacedQueue] | None:
    """The queue of each publication, if all of them go straight to queues in groups; else None."""
    queues: list[PlacedQueue] = []
    for publication in op.publications:
        if publication.exchange or len(publication.keys) != 1:
            return None
        queue = placed.find(hall_name(op.host, publication.keys[0]))
        # What a full queue refuses may go to its dead-letter exchange, which is at the leader of the hall.
        if queue is None or (queue.settings.amqp is not None and queue.settings.amqp.letters_refused):
            return None
        queues.append(queue)
    return queues


async def publish_directly(
    placed: PlacedQueues, op: PublishMessages, queues: list[PlacedQueue], caller: Caller
) -> list[Published]:
    """Send each message to its queue; the answers are in the order of the publications."""
    by_queue: dict[str, tuple[PlacedQueue, list[int], list[Outgoing]]] = {}
    for at, (publication, queue) in enumerate(zip(op.publications, queues, strict=True)):
        _, places, messages = by_queue.setdefault(queue.name, (queue, [], []))
        places.append(at)
        message = publication.message
        if message.time_to_live_ms >= 0:
            lives_ms = max(shorter_life(message.time_to_live_ms, queue.settings.time_to_live_ms), AT_ONCE_MS)
            message = msgspec.structs.replace(message, time_to_live_ms=lives_ms)
        messages.append(message)
    answers = [Published(1) for _ in op.publications]
    for queue, places, messages in by_queue.values():
        try:
            accepted = await placed.carry_out(queue, SendMessages(queue.name, messages), caller)
        except LonghallError as error:
            accepted = [Accepted(code=error.code, message=str(error)) for _ in messages]
        for at, one in zip(places, accepted, strict=True):
            if one.code is not None and one.code is not Code.UNKNOWN_QUEUE:  # A queue that is gone counts as done.
                answers[at].code, answers[at].reason = one.code, one.message
    return answers
