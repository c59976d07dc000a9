"""Messages of Kafka's transactions in a queue that is bounded: they take room until they are aborted, and no longer."""

from __future__ import annotations

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.send import send
from longhall.errors import Code
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch
from tests.broker.queues.rig import Queues, Rig

BODY = "1234567890"
BY_MESSAGES = QueueSettings(messages_max=4, when_full="refuse")
BY_BYTES = QueueSettings(bytes_max=4 * len(BODY), when_full="refuse")
BOUNDS = pytest.mark.parametrize("settings", [BY_MESSAGES, BY_BYTES], ids=["messages", "bytes"])


class Transaction:
    """One producer of Kafka's, with a transaction on the queue `q`."""

    def __init__(self, queues: Queues, name: str = "tx") -> None:
        self.life = queues.life
        self.name = name
        self.producer, self.epoch, self.sequence = -1, -1, 0

    async def begin(self) -> None:
        if self.producer < 0:
            taken = await self.life.transactor.init(self.name, 60_000, -1, -1)
            self.producer, self.epoch = taken.producer_id, taken.producer_epoch
        await self.life.transactor.add(self.name, self.producer, self.epoch, [("q", 0)])

    def write(self, count: int) -> None:
        records = [Record(offset, 0, None, BODY.encode(), ()) for offset in range(count)]
        batch = build_batch(
            records,
            producer_id=self.producer,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += count
        assert send(self.life.hall, self.life.partition("q"), batch, 0, len(batch), self.name).code is None

    async def end(self, commit: bool) -> None:
        await self.life.transactor.end(self.name, self.producer, self.epoch, commit, False)


async def refusal(queues: Queues) -> Code | None:
    """Of one message more."""
    (accepted,) = await queues.desk.send("q", [Outgoing(body=BODY.encode())])
    return accepted.code


@BOUNDS
def test_aborted_messages_take_no_room(settings: QueueSettings) -> None:
    async def play(queues: Queues) -> None:
        queues.life.transactor.start()
        await queues.desk.create("q", settings)
        transaction = Transaction(queues)
        for _ in range(3):  # However often.
            await transaction.begin()
            transaction.write(2)
            transaction.write(2)
            assert await refusal(queues) is Code.QUEUE_FULL
            await transaction.end(False)
        await queues.send("q", *[BODY] * 4)
        assert await refusal(queues) is Code.QUEUE_FULL
        assert await queues.drain("q") == [BODY] * 4
        await queues.send("q", *[BODY] * 4)
        await queues.life.transactor.stop()

    Rig().live(play)


@BOUNDS
def test_committed_messages_take_room_until_they_are_settled(settings: QueueSettings) -> None:
    async def play(queues: Queues) -> None:
        queues.life.transactor.start()
        await queues.desk.create("q", settings)
        transaction = Transaction(queues)
        await transaction.begin()
        transaction.write(4)
        await transaction.end(True)
        assert await refusal(queues) is Code.QUEUE_FULL
        await transaction.begin()
        await transaction.end(False)  # Of nothing.
        assert await refusal(queues) is Code.QUEUE_FULL
        assert await queues.drain("q") == [BODY] * 4
        await queues.send("q", *[BODY] * 4)
        await queues.life.transactor.stop()

    Rig().live(play)


@BOUNDS
@pytest.mark.parametrize("kept", ["in the log", "in a snapshot"])
def test_a_transaction_open_at_a_crash_frees_its_room(settings: QueueSettings, kept: str) -> None:
    rig = Rig()

    async def begin(queues: Queues) -> None:
        queues.life.transactor.start()
        await queues.desk.create("q", settings)
        await queues.send("q", BODY)
        transaction = Transaction(queues)
        await transaction.begin()
        transaction.write(3)
        assert await refusal(queues) is Code.QUEUE_FULL
        if kept == "in a snapshot":
            await checkpoint(queues.life.hall)
        await queues.life.hall.commits.durable()

    async def go_on(queues: Queues) -> None:
        queues.life.transactor.start()
        assert await refusal(queues) is Code.QUEUE_FULL
        await queues.life.transactor.init("tx", 60_000, -1, -1)  # Whoever takes the name ends what was open.
        await queues.send("q", *[BODY] * 3)
        assert await refusal(queues) is Code.QUEUE_FULL
        assert await queues.drain("q") == [BODY] * 4
        await queues.life.transactor.stop()

    rig.live(begin)
    rig.live(go_on)


def test_purged_messages_are_subtracted_once() -> None:
    async def play(queues: Queues) -> None:
        queues.life.transactor.start()
        await queues.desk.create("q", BY_MESSAGES)
        transaction = Transaction(queues)
        await transaction.begin()
        transaction.write(4)
        await queues.desk.purge("q")
        await queues.send("q", *[BODY] * 4)
        await transaction.end(False)
        assert await refusal(queues) is Code.QUEUE_FULL
        await queues.life.transactor.stop()

    Rig().live(play)
