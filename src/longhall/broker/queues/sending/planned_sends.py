"""Sends that are part of a larger atomic write: their targets, the rules of these, and the appends.

    construct      resolves the targets and checks the sizes; it refuses what can never be
    make_room      asks for queues of other groups, and waits until all bounded queues have room at the same time
    plan           applies the rules of the queues: from here on nothing may be refused, and nothing may await
    write          appends, inside the atomic write of the caller
    finish         timers and waiting receivers, after the write

The targets are queues and topics of this replication group, and queues of others, whose messages are in the outbox. In
a step that the hall coordinates (`group_steps`) there may be topics of others too, whose messages are batches of it.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.outbox.outbox_delivery import OutboxCarrier
from longhall.broker.queues.outbox.outbox_log import arrived
from longhall.broker.queues.running_queue import RunningQueue, owner_of
from longhall.broker.queues.sending.outbox_sends import OutboxSend
from longhall.broker.queues.sending.room import decide_room, make_room
from longhall.broker.queues.sending.rules import (
    charge_quota,
    check_quota,
    due_of_send,
    identify,
    record_of,
    repeated_send,
)
from longhall.broker.queues.sending.topic_sends import TopicSend
from longhall.broker.queues.write import write_records
from longhall.broker.system_topics import refuse_system_topic
from longhall.broker.waiting import acknowledged
from longhall.errors import Code, LonghallError
from longhall.names import OUTBOX_SHARD
from longhall.queues.envelope import RANDOM_BYTES, derive_message_id, encode_record, new_message_id
from longhall.queues.messages import Accepted, Outgoing, WriteBack
from longhall.records.partitioner import partition_for
from longhall.shards.shard import ALL, ONE

BYTES_MAX: Final = 4 * 1024 * 1024  # Of all bodies: they are in one frame of the log.
TRIES_MAX: Final = 100  # How often room is made in several queues before it is there in all of them.


@final
class PlannedSends:
    """The sends of one atomic write."""

    def __init__(
        self,
        hall: Hall,
        stager: DelayStager,
        sends: list[WriteBack],
        carrier: OutboxCarrier | None = None,
        *,
        is_step: bool = False,
    ) -> None:
        self._hall = hall
        self._stager = stager
        self._carrier = carrier
        self._all = sends
        self._elsewhere: dict[int, OutboxSend | TopicSend] = {}  # By place in `_all`.
        self._sends: list[WriteBack] = []  # The others, with their targets.
        self._targets: list[SendTarget] = []
        for at, each in enumerate(sends):
            target = _target_of(hall, each, carrier is not None, is_step)
            if not isinstance(target, SendTarget):
                self._elsewhere[at] = target
            else:
                self._sends.append(each)
                self._targets.append(target)
        self._plan: list[tuple[SendTarget, list[tuple[Outgoing, Accepted]]]] = []
        self._staged: set[RunningQueue] = set()
        _check_sizes(self._targets, self._sends)
        if sum(len(message.body) for send in sends for message in send.messages) > BYTES_MAX:
            raise LonghallError(Code.MESSAGE_TOO_LARGE, f"all messages of one step may have {BYTES_MAX} bytes")

    @property
    def batches(self) -> list[TopicSend]:
        """The sends to topics of other groups, which a step appends before its outcome."""
        return [send for send in self._elsewhere.values() if isinstance(send, TopicSend)]

    async def make_room(self) -> None:
        """Let there be room in all target queues at the same time."""
        for elsewhere in self._elsewhere.values():
            await elsewhere.locate(self._carrier)
        hall, loads = self._hall, _loads(self._targets, self._sends)
        for _ in range(TRIES_MAX):
            for target, (count, size) in loads.items():
                await make_room(hall, target, count, size)
            if all(decide_room(hall, target, count, size) is None for target, (count, size) in loads.items()):
                return
        raise LonghallError(Code.QUEUE_FULL, "the queues did not have room at the same time")

    def plan(self) -> None:
        """Apply the rules of the target queues: from here on nothing may be refused."""
        hall, targets, sends = self._hall, self._targets, self._sends
        now_ms = hall.time.now_ms()
        size = sum(len(message.body) for send in self._all for message in send.messages)
        self._plan = []
        for target_queue, (count, load) in _loads(targets, sends).items():
            if decide_room(hall, target_queue, count, load) is not None:
                raise LonghallError(Code.QUEUE_FULL, f"'{target_queue.entry.name}' is full")
        for elsewhere in self._elsewhere.values():
            elsewhere.plan()
        if self._elsewhere and hall.refusal is not None:
            raise LonghallError(hall.refusal)
        for target in targets:
            if target.has_moved:
                raise LonghallError(Code.QUEUE_MOVED, "A target of the messages has moved while there was no room.")
            options = target.partition.options
            refusal = hall.refusal_for(options.in_sync_min, options.acknowledge == ONE)
            if refusal is not None:
                raise LonghallError(refusal)
        if hall.is_backed_up:
            raise LonghallError(Code.COMMIT_BACKLOG)
        if hall.storage_full or not hall.has_room(size + EVENT_ROOM_BYTES):
            raise LonghallError(Code.STORAGE_FULL, "the disk is full")
        seen: set[tuple[RunningQueue, str, str]] = set()
        for target, send in zip(targets, sends, strict=True):
            rows: list[tuple[Outgoing, Accepted]] = []
            for message in send.messages:
                accepted = self._judge(target.queue, message, now_ms, seen) if target.queue is not None else Accepted()
                if not message.seal and target.partition.options.is_sealed:
                    raise LonghallError(Code.SEALED, "a message in clear cannot be written to a sealed queue or topic")
                encode_record(message, "", now_ms)  # Raises for reserved names.
                rows.append((message, accepted))
            self._plan.append((target, rows))

    def _judge(
        self, queue: RunningQueue, message: Outgoing, now_ms: int, seen: set[tuple[RunningQueue, str, str]]
    ) -> Accepted:
        check_quota(queue, now_ms)
        if not queue.deduplicates:
            return Accepted()
        identity = identify(queue, message)
        if not identity:
            return Accepted()
        key = (queue, identity, message.group)
        repeated = Accepted(repeated=True) if key in seen else repeated_send(queue, message, now_ms)
        seen.add(key)
        return repeated or Accepted()

    def write(self) -> list[list[Accepted]]:
        """Append the messages. Inside the atomic write."""
        answers: list[list[Accepted]] = []
        planned = iter(self._plan)
        for at in range(len(self._all)):
            if at in self._elsewhere:
                answers.append(self._elsewhere[at].write())
                continue
            target, rows = next(planned)
            for message, accepted in rows:
                if not accepted.repeated:
                    self._write_one(target, message, accepted)
            answers.append([accepted for _, accepted in rows])
        return answers

    def _write_one(self, target: SendTarget, message: Outgoing, accepted: Accepted) -> None:
        hall, queue = self._hall, target.queue
        now_ms = hall.time.now_ms()
        if queue is None:
            partition = target.choose(message.key)
            record = encode_record(message, "", now_ms)
        else:
            due_ms = due_of_send(queue, message.delay_ms, now_ms)
            accepted.message_id = message.message_id or new_message_id(hall.world.entropy.bytes(RANDOM_BYTES))
            record = record_of(queue, message, accepted.message_id, now_ms, due_ms)
            if due_ms:
                partition = self._stager.log_for(queue, due_ms, now_ms)
                self._staged.add(queue)
            else:
                partition = queue.lane_for(message.priority, message.group)
            charge_quota(queue, len(message.body), now_ms)
            queue.on_sent(1)
        lane = partition.lane
        offset = write_records(hall, partition, [record], now_ms, message=False)
        if hall.usage.meter is not None:
            name = queue.entry.name if queue is not None else hall.topic_name(partition.topic_id)
            hall.usage.meter.sent(name, 1, len(message.body))
        accepted.message_id = accepted.message_id or derive_message_id(lane, offset)
        if queue is None or queue.settings.fifo:
            accepted.sequence = offset if queue is None else queue.sequence_of(lane, offset)

    def finish(self) -> None:
        """After the write: timers of delayed messages."""
        for queue in self._staged:
            self._stager.arm(queue)

    async def acknowledged(self) -> None:
        """Wait until everything may be acknowledged, and a moment until it has arrived in other groups."""
        if self._elsewhere:
            await acknowledged(self._hall, self._hall.shards[OUTBOX_SHARD], ALL)
        for target in self._targets:
            await acknowledged(self._hall, target.partition.shard, target.partition.options.acknowledge)
        for send in self._elsewhere.values():
            if isinstance(send, OutboxSend):
                await arrived(self._hall, send.arrivals)


def repeated(sends: list[WriteBack]) -> list[list[Accepted]]:
    """The answer to a request that was carried out before."""
    return [[Accepted(repeated=True) for _ in each.messages] for each in sends]


@final
class SendTarget:
    """Where messages go: a queue, or a topic with the partition that was asked for (-1: by the key)."""

    def __init__(self, route: list[Partition], queue: RunningQueue | None, number: int) -> None:
        self.queue = queue
        self.number = number
        self._route = route
        self._turn = 0

    @property
    def has_moved(self) -> bool:
        """True if other groups store a part of it by now, or it moves."""
        return self.queue.is_away if self.queue is not None else any(one.elsewhere for one in self._route)

    @property
    def partition(self) -> Partition:
        """One of its logs."""
        return self._route[max(self.number, 0)]

    def choose(self, key: bytes | None) -> Partition:
        """The partition of the topic for a message."""
        if self.number >= 0:
            return self._route[self.number]
        if key is not None:
            return self._route[partition_for(key, len(self._route))]
        self._turn += 1
        return self._route[self._turn % len(self._route)]


def _target_of(hall: Hall, send: WriteBack, reaches_others: bool, is_step: bool) -> SendTarget | OutboxSend | TopicSend:
    if bool(send.queue) == bool(send.topic):
        raise LonghallError(Code.INVALID_REQUEST, "a send names a queue or a topic")
    if send.queue:
        queue = hall.running_queue(send.queue)
        if queue is None and hall.options.wing and reaches_others:
            return OutboxSend(hall, send.queue, send)  # The hall knows whether it exists.
        if queue is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{send.queue}'.")
        if all(partition.elsewhere for partition in queue.route):
            return OutboxSend(hall, send.queue, send)
        return SendTarget(queue.route, queue, -1)
    refuse_system_topic(send.topic)
    route = hall.shown(send.topic)
    if route is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{send.topic}'{_here(hall)}.")
    if send.partition >= len(route):
        raise LonghallError(Code.UNKNOWN_TOPIC, f"Topic '{send.topic}' has {len(route)} partitions.")
    owner = owner_of(route[0])  # The topic of a queue is the queue: its rules hold.
    if owner is not None and all(partition.elsewhere for partition in route):
        return OutboxSend(hall, owner.entry.name, send)
    if any(partition.elsewhere for partition in route):
        if is_step:
            return TopicSend(hall, route, send)
        raise _apart(f"topic '{send.topic}'")
    return SendTarget(route, owner, send.partition if owner is None else -1)


def _here(hall: Hall) -> str:
    return " in the replication group of the settled messages" if hall.options.wing else ""


def _apart(what: str) -> LonghallError:
    return LonghallError(
        Code.INVALID_REQUEST,
        f"{what} is in another replication group than the settled messages: messages go to queues of other groups, and "
        "to their topics only in Kafka transactions",
    )


def _check_sizes(targets: list[SendTarget], sends: list[WriteBack]) -> None:
    for target, send in zip(targets, sends, strict=True):
        settings = target.queue.settings if target.queue is not None else None
        bytes_max = settings.message_bytes_max if settings is not None else target.partition.options.message_bytes_max
        for message in send.messages:
            if len(message.body) > bytes_max:
                raise LonghallError(Code.MESSAGE_TOO_LARGE, f"a message may have {bytes_max} bytes")


def _loads(targets: list[SendTarget], sends: list[WriteBack]) -> dict[RunningQueue, tuple[int, int]]:
    """Messages and bytes for each queue."""
    loads: dict[RunningQueue, tuple[int, int]] = {}
    for target, send in zip(targets, sends, strict=True):
        if target.queue is not None:
            count, size = loads.get(target.queue, (0, 0))
            loads[target.queue] = count + len(send.messages), size + sum(len(one.body) for one in send.messages)
    return loads
