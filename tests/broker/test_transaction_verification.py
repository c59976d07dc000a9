"""Batches that wait for a coordinator in another process: their order, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from longhall.broker.partition import Partition
from longhall.broker.produced import Sent
from longhall.broker.send import send
from longhall.broker.topic_administration import create_topic, delete_topic
from longhall.broker.transaction_markers import PartitionMarkers, write_markers
from longhall.broker.transaction_verification import BATCHES_MAX, PartitionQuestion, TransactionVerification
from longhall.errors import Code, LonghallError
from tests.broker.desk import Desk, Life, batch_of

WHO = 7


class Scripted:
    """A coordinator whose answers a test gives."""

    def __init__(self) -> None:
        self.questions: list[PartitionQuestion] = []
        self.answer: Code | None = None
        self.failure: Code | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def verify(self, question: PartitionQuestion) -> Code | None:
        self.questions.append(question)
        answer, failure = self.answer, self.failure
        await self.answers.wait()
        if failure is not None:
            raise LonghallError(failure, "not now")
        return answer


def _play(test: Callable[[Life, Partition, Scripted], Awaitable[None]]) -> None:
    async def play(life: Life) -> None:
        await create_topic(life.hall, "there", 1, {})
        coordinator = Scripted()
        life.hall.transaction_verifier = TransactionVerification(life.hall, coordinator)
        await test(life, life.partition("there"), coordinator)

    Desk().live(play)


def _send(life: Life, partition: Partition, sequence: int, epoch: int = 0, timeout_ms: int = 30_000) -> Sent:
    batch = batch_of(b"%d" % sequence, producer_id=WHO, epoch=epoch, sequence=sequence, transactional=True)
    return send(life.hall, partition, batch, 0, len(batch), "t", timeout_ms=timeout_ms)


async def _result(sent: Sent) -> Sent:
    while sent.later is not None:
        done: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()
        sent.later.when_done(done.set_result)
        sent = await done
    return sent


def test_batches_of_a_producer_wait_in_their_order() -> None:
    async def test(life: Life, partition: Partition, coordinator: Scripted) -> None:
        coordinator.answers.clear()
        held = [_send(life, partition, sequence) for sequence in range(3)]
        assert all(sent.later is not None for sent in held)
        assert partition.producers is None  # Replicas hear of no question.
        coordinator.answers.set()
        results = [await _result(sent) for sent in held]
        assert [(sent.code, sent.base_offset) for sent in results] == [(None, 0), (None, 1), (None, 2)]
        assert _send(life, partition, 3).base_offset == 3  # The transaction is open here: nobody is asked.
        assert _send(life, partition, 1).base_offset == 1  # A repeat.
        assert len(coordinator.questions) == 1
        (question,) = coordinator.questions
        assert (question.topic_id, question.producer_id, question.joins) == (partition.topic_id, WHO, False)

    _play(test)


def test_a_refusal_is_passed_on_and_nothing_is_appended() -> None:
    async def test(life: Life, partition: Partition, coordinator: Scripted) -> None:
        for code in (Code.PRODUCER_FENCED, Code.TRANSACTION_ABORTABLE, Code.INVALID_PRODUCER_MAPPING):
            coordinator.answer = code
            assert (await _result(_send(life, partition, 0))).code is code
        assert (partition.log.next_offset, partition.producers) == (0, None)

    _play(test)


def test_without_an_answer_the_producer_is_asked_to_retry() -> None:
    async def test(life: Life, partition: Partition, coordinator: Scripted) -> None:
        coordinator.failure = Code.NOT_READY
        assert (await _result(_send(life, partition, 0))).code is Code.NOT_ENOUGH_REPLICAS
        assert len(coordinator.questions) > 10
        held = _send(life, partition, 0)
        await asyncio.sleep(1)
        coordinator.failure = None
        assert (await _result(held)).base_offset == 0

    _play(test)


def test_a_confirmation_counts_only_if_no_marker_came_meanwhile() -> None:
    async def test(life: Life, partition: Partition, coordinator: Scripted) -> None:
        coordinator.answers.clear()
        held = _send(life, partition, 0)
        await asyncio.sleep(0.1)
        place = (partition.topic, partition.topic_id, partition.number)
        assert await write_markers(life.hall, PartitionMarkers(WHO, 0, 1, 1, False, [place])) == [None]
        coordinator.answer = Code.TRANSACTION_ABORTABLE  # The transaction has ended by now.
        coordinator.answers.set()
        assert (await _result(held)).code is Code.TRANSACTION_ABORTABLE
        assert len(coordinator.questions) == 2
        assert partition.last_stable_offset == partition.log.next_offset == 1

    _play(test)


def test_a_topic_that_is_deleted_meanwhile() -> None:
    async def test(life: Life, partition: Partition, coordinator: Scripted) -> None:
        coordinator.failure = Code.NOT_READY
        held = _send(life, partition, 0)
        await delete_topic(life.hall, "there")
        assert (await _result(held)).code is Code.UNKNOWN_TOPIC

    _play(test)


def test_a_line_is_bounded() -> None:
    async def test(life: Life, partition: Partition, coordinator: Scripted) -> None:
        coordinator.answers.clear()
        held = [_send(life, partition, sequence) for sequence in range(BATCHES_MAX)]
        beyond = _send(life, partition, BATCHES_MAX)
        assert (beyond.code, beyond.later) == (Code.NOT_ENOUGH_REPLICAS, None)
        coordinator.answers.set()
        assert [(await _result(sent)).code for sent in held] == [None] * BATCHES_MAX

    _play(test)
