"""A random workload on a hall across crashes, and the checks that the hall kept every acknowledged change."""

from __future__ import annotations

import asyncio
import random

from longhall.broker.checkpoint import checkpoint
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.partition import Partition
from longhall.broker.topic_administration import add_partitions, configure_topic, create_topic, delete_topic, trim_log
from longhall.records.batch import read_records
from longhall.topics.effects import CommitRequest
from tests.broker.desk import Life, batch_of, stored_batches

KEEP, MAYBE, GONE = "keep", "maybe", "gone"


class Known:
    """A topic as the workload expects it."""

    def __init__(self, name: str, configuration: dict[str, str]) -> None:
        self.name = name
        self.state = MAYBE  # The creation is not acknowledged yet.
        self.configurations = [configuration]  # The last acknowledged one, and those requested since.
        self.partitions = [1]  # The acknowledged number, and those requested since.
        self.starts: dict[int, list[int]] = {}  # The same for the start offsets, by partition.


class Message:
    def __init__(self, topic: Known, partition: int, batch: bytes, transaction: str = "") -> None:
        self.topic = topic
        self.partition = partition
        self.batch = batch
        self.transaction = transaction
        self.offset = -1  # Once it is acknowledged.


class Workload:
    """The requests and their acknowledgements over all starts of the hall."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.topics: list[Known] = []
        self.messages: dict[bytes, Message] = {}
        self.offsets: dict[str, list[int]] = {}
        self.outcomes: dict[str, str] = {}  # Transaction to commit, abort or maybe.
        self.retries: dict[int, Message] = {}  # Producer to the last one acknowledged.
        self.epochs: list[int] = []
        self.lives = 0

    # Acting

    async def act(self, life: Life) -> None:
        self.lives += 1
        life.transactor.start()
        actors = [self._admin(life), self._keep(life), self._commit(life), self._transact(life)]
        actors += [self._send(life, number) for number in range(3)]
        await asyncio.gather(*[asyncio.get_running_loop().create_task(actor) for actor in actors])

    def _fresh(self) -> bytes:
        return b"message-%d" % len(self.messages)

    def _somewhere(self, life: Life) -> tuple[Known, Partition] | None:
        there = [topic for topic in self.topics if topic.state == KEEP and life.hall.topic(topic.name) is not None]
        if not there:
            return None
        topic = self.chance.choice(there)
        return topic, life.partition(topic.name, self.chance.randrange(len(life.hall.routes[topic.name])))

    async def _pause(self) -> None:
        await asyncio.sleep(self.chance.random() * 0.005)

    async def _admin(self, life: Life) -> None:
        for _ in range(self.chance.randrange(3, 12)):
            await self._pause()
            there = [topic for topic in self.topics if topic.state == KEEP]
            what = self.chance.randrange(6) if len(there) > 2 else 0
            if what == 0:
                await self._create(life)
                continue
            topic = self.chance.choice(there)
            if what == 1:
                topic.state = MAYBE
                await delete_topic(life.hall, topic.name)
                topic.state = GONE
            elif what == 2:
                asked = {**topic.configurations[-1], "retention.ms": str(self.chance.randrange(10**12, 10**13))}
                topic.configurations.append(asked)
                await configure_topic(life.hall, topic.name, asked)
                topic.configurations = [asked]
            elif what == 3:
                topic.partitions.append(topic.partitions[-1] + 1)
                await add_partitions(life.hall, topic.name, topic.partitions[-1])
                topic.partitions = topic.partitions[-1:]
            else:
                partition = life.partition(topic.name, self.chance.randrange(len(life.hall.routes[topic.name])))
                offset = self.chance.randrange(partition.high_watermark + 1)
                topic.starts.setdefault(partition.number, [0]).append(offset)
                start = await trim_log(life.hall, partition, offset)
                topic.starts[partition.number] = [start]

    async def _create(self, life: Life) -> None:
        free = [topic.name for topic in self.topics if topic.state == GONE]
        name = self.chance.choice(free) if free and self.chance.random() < 0.5 else f"topic-{len(self.topics)}"
        compacts = self.chance.random() < 0.4
        configuration = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"} if compacts else {}
        topic = Known(name, configuration)
        self.topics = [other for other in self.topics if other.name != name or other.state != GONE] + [topic]
        await create_topic(life.hall, name, 1, configuration)
        topic.state = KEEP

    async def _send(self, life: Life, number: int) -> None:
        producer_id = 100_000 + self.lives * 10 + number
        sequences: dict[int, int] = {}
        for _ in range(self.chance.randrange(5, 40)):
            await self._pause()
            place = self._somewhere(life)
            if place is None:
                continue
            topic, partition = place
            name = self._fresh()
            size = self.chance.choice((10, 300, 20_000, 70_000))
            sequence = sequences.get(partition.log.partition, 0)
            batch = batch_of(name + b"!" * size, key=name, producer_id=producer_id, epoch=0, sequence=sequence)
            message = self.messages[name] = Message(topic, partition.number, batch)
            sent = await life.send(partition, batch)
            if sent.code is None:
                sequences[partition.log.partition] = sequence + 1
                message.offset = sent.base_offset
                if topic.state == KEEP:
                    self.retries[producer_id] = message
            await life.send(partition, batch_of(b"noise", key=b"noise", records=5))

    async def _commit(self, life: Life) -> None:
        for _ in range(self.chance.randrange(15)):
            await self._pause()
            place = self._somewhere(life)
            if place is None:
                continue
            group = f"group-{self.chance.randrange(3)}"
            asked = self.offsets.setdefault(group, [-1])
            asked.append(asked[-1] + 1)
            rows = (("a-topic-of-its-own", 0, asked[-1], -1, ""),)
            result = await life.coordinator.commit_offsets(CommitRequest(group_id=group, offsets=rows))
            assert result.code is None, result.code
            self.offsets[group] = asked[-1:]

    async def _transact(self, life: Life) -> None:
        taken = await life.transactor.init("tx", 60_000, -1, -1)
        assert taken.code is None, taken.code
        producer_id, epoch = taken.producer_id, taken.producer_epoch
        sequences: dict[int, int] = {}
        for number in range(self.chance.randrange(8)):
            await self._pause()
            places = [place for place in (self._somewhere(life), self._somewhere(life)) if place is not None]
            if not places:
                continue
            name = f"{self.lives}/{number}"
            self.outcomes[name] = MAYBE
            added = [(topic.name, partition.number) for topic, partition in places]
            assert (await life.transactor.add("tx", producer_id, epoch, added)).code is None
            for topic, partition in places:
                key = self._fresh()
                sequence = sequences.get(partition.log.partition, 0)
                batch = batch_of(
                    key, key=key, producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=True
                )
                message = self.messages[key] = Message(topic, partition.number, batch, name)
                sent = await life.send(partition, batch, "tx")
                if sent.code is None:
                    sequences[partition.log.partition] = sequence + 1
                    message.offset = sent.base_offset
            commit = self.chance.random() < 0.6
            ended = await life.transactor.end("tx", producer_id, epoch, commit, False)
            assert ended.code is None, ended.code
            self.outcomes[name] = "commit" if commit else "abort"

    async def _keep(self, life: Life) -> None:
        cleaner = LogCleaner(life.hall)
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(self.chance.random() * 0.05)
            if self.chance.random() < 0.6:
                await checkpoint(life.hall)
            else:
                await cleaner.run()

    # Checking

    async def check(self, life: Life) -> None:
        """Everything that was promised is there, and nothing is there twice."""
        assert life.report.damage == []
        now = [shard.epoch for shard in life.hall.shards]
        assert all(new > old for new, old in zip(now, self.epochs, strict=False))
        self.epochs = now
        life.transactor.start()
        await asyncio.sleep(1)
        self._check_topics(life)
        await self._check_groups(life)
        seen = self._check_messages(life)
        self._check_transactions(life, seen)
        await self._check_retries(life)

    def _check_topics(self, life: Life) -> None:
        for topic in list(self.topics):
            found = life.hall.topic(topic.name)
            if topic.state == MAYBE:
                topic.state = KEEP if found is not None else GONE
            if topic.state == GONE:
                others = [other for other in self.topics if other.name == topic.name and other is not topic]
                assert found is None or any(other.state != GONE for other in others), f"{topic.name} came back"
                continue
            assert found is not None, f"{topic.name} is lost"
            assert found.configuration in topic.configurations
            topic.configurations = [found.configuration]
            assert len(found.partitions) in topic.partitions
            topic.partitions = [len(found.partitions)]
            for number, starts in topic.starts.items():
                start = life.partition(topic.name, number).log.start_offset
                assert max(starts) >= start >= starts[0]
                topic.starts[number] = [start]

    async def _check_groups(self, life: Life) -> None:
        for group, asked in self.offsets.items():
            (row,) = await life.coordinator.fetch_offsets(group, [("a-topic-of-its-own", 0)], False)
            assert row.offset in asked, (group, row.offset, asked)
            self.offsets[group] = [row.offset]

    def _check_messages(self, life: Life) -> set[bytes]:
        """The names of messages that a reader of committed ones sees."""
        visible: set[bytes] = set()
        for topic in self.topics:
            if topic.state != KEEP:
                continue
            for partition in life.hall.routes[topic.name]:
                where: dict[bytes, int] = {}
                aborted = partition.table().aborted_ranges()
                for header, batch in stored_batches(partition):
                    for record in [] if header.is_control else read_records(batch, 0):
                        assert record.key is not None
                        if record.key == b"noise":
                            continue
                        assert record.key not in where, f"{record.key!r} is there twice"
                        where[record.key] = record.offset
                        known = self.messages[record.key]
                        assert (known.topic, known.partition) == (topic, partition.number)
                        hidden = header.is_transactional and any(
                            producer == header.producer_id and first <= header.base_offset < marker
                            for producer, first, marker in aborted
                        )
                        if not hidden and header.base_offset < partition.last_stable_offset:
                            visible.add(record.key)
                for name, message in self.messages.items():
                    if message.topic is topic and message.partition == partition.number and message.offset >= 0:
                        if message.offset >= partition.log.start_offset and not message.transaction:
                            assert where.get(name) == message.offset, f"{name!r} was acknowledged at {message.offset}"
        return visible

    def _check_transactions(self, life: Life, visible: set[bytes]) -> None:
        for name, outcome in self.outcomes.items():
            parts = [
                (key in visible, message)
                for key, message in self.messages.items()
                if message.transaction == name
                and message.topic.state == KEEP
                and message.offset >= life.partition(message.topic.name, message.partition).log.start_offset
                and message.offset >= 0
            ]
            shown = {seen for seen, _ in parts}
            assert len(shown) <= 1, f"half of {name} is visible"
            if shown and outcome != MAYBE:
                assert shown == {outcome == "commit"}, name
            elif shown == {True}:
                self.outcomes[name] = "commit"

    async def _check_retries(self, life: Life) -> None:
        for message in self.retries.values():
            if message.topic.state != KEEP:
                continue
            partition = life.partition(message.topic.name, message.partition)
            end = partition.log.next_offset
            sent = await life.send(partition, message.batch)
            assert (sent.code, sent.base_offset) == (None, message.offset), "a retry was not recognised"
            assert partition.log.next_offset == end
        self.retries.clear()
