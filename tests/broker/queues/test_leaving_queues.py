"""Requests that wait while their queue begins to leave for another replication group: each is carried out wholly, or
refused with QUEUE_MOVED and without an effect, so that it can be repeated where the queue is then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from longhall.broker.configuration import MOVES
from longhall.broker.events import TopicConfigured
from longhall.broker.queues.delivery.reject import reject
from longhall.broker.queues.sending.transaction import REJECT, SETTLE, EndedMessages, commit_transaction
from longhall.broker.waiting import Commit
from longhall.errors import Code
from longhall.queues.messages import Delivery, Outgoing, WriteBack
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.topics.partition_moves import decide_begin, decide_cancel, decide_fence, encode_record
from tests.broker.queues.rig import Queues, Rig

Request = Callable[[Queues, Delivery], Awaitable[Any]]


def fence(queues: Queues, name: str) -> None:
    """The hall gives the queue to another group: it refuses clients, and its state is about to be copied."""
    _configure(queues, name, lambda moves: decide_fence(decide_begin(moves, [0], {0: 1}), 0))


def lift(queues: Queues, name: str) -> None:
    """The queue stays where it is."""
    _configure(queues, name, lambda moves: decide_cancel(moves, 0))


def _configure(queues: Queues, name: str, decide: Callable[[Any], Any]) -> None:
    hall = queues.life.hall
    topic = hall.topic(name)
    assert topic is not None
    configuration = {**topic.configuration, MOVES: encode_record(decide(topic.options.moves))}
    hall.append_catalogue(TopicConfigured(topic_id=topic.topic_id, configuration=configuration), Commit())


async def begin(queues: Queues) -> Delivery:
    """A message is leased whose sender wants an answer in a queue that has no room."""
    await queues.desk.create("dead", QueueSettings())
    await queues.desk.create("results", QueueSettings(messages_max=1, when_full="wait"))
    await queues.desk.create("tasks", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=9)))
    await queues.send("results", "earlier")
    await queues.send("tasks", "task", reply_to="results")
    (task,) = await queues.receive("tasks")
    return task


def _settle_with_sends(queues: Queues, task: Delivery) -> Awaitable[Any]:
    sends = [WriteBack(queue="results", messages=[Outgoing(body=b"result")])]
    return queues.desk.settle_with_sends("tasks", [task.receipt], sends)


def _answer(queues: Queues, task: Delivery) -> Awaitable[Any]:
    return queues.desk.answer("tasks", task.receipt, Outgoing(body=b"result"))


def _transaction(how: int) -> Request:
    def request(queues: Queues, task: Delivery) -> Awaitable[Any]:
        desk = queues.desk
        sends = [WriteBack(queue="results", messages=[Outgoing(body=b"result")])]
        ends = [EndedMessages("tasks", [task.receipt], how)]
        return commit_transaction(queues.life.hall, desk.stager, sends, ends, "")

    return request


@pytest.mark.parametrize(
    "request_of",
    [_settle_with_sends, _answer, _transaction(SETTLE), _transaction(REJECT)],
    ids=["settle-with-sends", "answer", "transaction", "rejecting-transaction"],
)
@pytest.mark.parametrize("leaving", ["tasks", "results"])
def test_a_step_that_waits_for_room_is_refused_wholly_when_a_queue_leaves(request_of: Request, leaving: str) -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        task = await begin(queues)
        waiting = asyncio.ensure_future(queues.refused(request_of(queues, task)))
        await asyncio.sleep(0.1)
        (earlier,) = await queues.receive("results")
        if leaving == "tasks":
            fence(queues, "tasks")
            await queues.desk.settle("results", [earlier.receipt])
        else:
            await queues.desk.settle("results", [earlier.receipt])
            fence(queues, "results")
        code = await waiting
        assert code in (Code.QUEUE_MOVED, Code.NOT_LEADER)
        lift(queues, leaving)
        assert not queues.life.failures
        assert await queues.drain("results") == []
        assert await queues.drain("dead") == []
        assert await queues.desk.settle("tasks", [task.receipt]) == [None]

    rig.live(play)
    rig.live(nothing_more)


async def nothing_more(queues: Queues) -> None:
    """After recovery there is nothing of the refused request."""
    assert [await queues.drain(name) for name in ("results", "dead", "tasks")] == [[], [], []]


def test_a_reject_that_reads_from_the_disk_is_refused_without_a_dead_letter_when_the_queue_leaves() -> None:
    rig = Rig(cold=1.0)

    async def play(queues: Queues) -> None:
        task = await begin(queues)
        for partition in list(queues.life.hall.tails.values()):
            assert queues.life.hall.flush_tail(partition)
        queue = queues.life.hall.running_queue("tasks")
        assert queue is not None
        queue.windows.clear()
        rejecting = asyncio.ensure_future(queues.refused(reject(queues.life.hall, queue, [task.receipt])))
        await asyncio.sleep(0)
        fence(queues, "tasks")
        assert await rejecting is Code.QUEUE_MOVED
        lift(queues, "tasks")
        assert await queues.drain("dead") == []
        assert await queues.desk.settle("tasks", [task.receipt]) == [None]

    rig.live(play)
