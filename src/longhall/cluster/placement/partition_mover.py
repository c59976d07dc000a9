"""The mover: the leader of the hall moves partitions between replication groups, step by step.

    phase       what the mover does                                               then
    copying     tells both groups; copies pieces from the source to the target    fence, when a piece reaches the end
    fenced      tells both groups; copies the last pieces, then the producers     switch; lift, if it takes too long
    switched    tells both groups; asks the target to prove its log               the source discards its log; finish
    cancelled   tells both groups; the target discards its copy                   finish

`topics/partition_moves.py` has the state machine, and decision 28 the reasons. The catalogue has all state: a new
leader goes on where the last one was, and the copy resumes at its own end. Every step first waits until what it acts on
is committed, and confirms that this node leads. Nothing is remembered but the time of a fence, errors, and numbers for
operators.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, final

import msgspec

from longhall.broker import partition_administration as administration
from longhall.broker.catalogue import Topic
from longhall.broker.hall import Hall
from longhall.broker.partition_copy import CopyPlace, LogPiece
from longhall.broker.pending import Pending
from longhall.broker.queue_copy import QueueLogs
from longhall.broker.waiting import committed
from longhall.cluster.placement.copy_calls import CALL_S_MAX, HALL, CopyCalls
from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.topics.partition_moves import MovePhase, PartitionMove

ALL: Final = -1
LOOK_S: Final = 1.0  # Between two looks at the catalogue, unless a move has just begun.
TURN_S: Final = 1.0  # A copy goes on for so long before others have their turn.
PAUSE_S: Final = 1.0  # After an error.
FENCE_S_MAX: Final = 5.0
LIFTED_S_MIN: Final = 2.0  # The copy goes on so long after a fence that was lifted,
LIFTED_S_MAX: Final = 60.0  # doubled each time up to this.
AT_ONCE_MAX: Final = 4  # Moves that are worked on at the same time.
NEAR_BYTES: Final = 256 * 1024  # A piece of at most this size that reaches the end: the rest is short.

R = TypeVar("R")

_log = logging.getLogger("longhall.moves")


class MoveGroups(Protocol):
    """The groups, as the mover uses them; fulfilled by `group_reconciler`."""

    @property
    def leads(self) -> bool:
        """True if this node leads the hall."""

    def call(self, number: int, operation: Operation[R]) -> Pending[R]:
        """Have the leader of a group carry out an operation."""

    async def tell(self, number: int, topic: Topic) -> None:
        """Have one group store the topic as the committed catalogue has it."""

    def copies_min(self, number: int) -> int:
        """The number of replicas in sync that the cluster wants of a group."""


class MoveProgress(msgspec.Struct, kw_only=True):
    """A move for operators. Groups are numbers; 0 is the hall. A queue moves with ALL its partitions."""

    topic: str
    partition: int
    source: int
    target: int
    phase: str
    copied_bytes: int = 0  # By this leader,
    left_messages: int | None = None  # and offsets that were missing at the last piece.
    problem: str = ""


@final
class _Work:
    """What this leader knows of a move."""

    def __init__(self) -> None:
        self.turn = 0  # The last round in which it was worked on.
        self.waits_until_s = 0.0
        self.copies_from_s = 0.0  # When the copy goes on after a fence that was lifted,
        self.lifts = 0  # and how many were.
        self.fence: tuple[int, float] = (0, 0.0)  # The step of the fence, and when this leader saw it.
        self.copied_bytes = 0
        self.left: int | None = None
        self.problem = ""

    def is_due(self, move: PartitionMove, now_s: float) -> bool:
        """True if the move may take its next step."""
        return self.waits_until_s <= now_s and (move.phase is not MovePhase.COPYING or self.copies_from_s <= now_s)

    def lifted(self, now_s: float) -> None:
        """Clients are served again: longer after each fence that was in vain."""
        self.copies_from_s = now_s + min(LIFTED_S_MIN * 2**self.lifts, LIFTED_S_MAX)
        self.lifts = min(self.lifts + 1, 16)


@final
class PartitionMover:
    """The task at the leader of the hall, and the progress of moves for operators."""

    def __init__(
        self, hall: Hall, groups: MoveGroups, confirm: Callable[[], Awaitable[None]], bytes_a_second: int
    ) -> None:
        self._hall = hall
        self._groups = groups
        self._calls = CopyCalls(hall, groups)
        self._confirm = confirm
        self._bytes_a_second = bytes_a_second
        self._free_s = 0.0  # When the next piece may be copied.
        self._work: dict[tuple[bytes, int], _Work] = {}
        self._rounds = 0
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to move partitions while this node leads."""
        self._task = self._hall.background.start("move partitions", self._move_always)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # For operators

    async def begin(self, name: str, targets: dict[int, int]) -> int:
        """Begin to move partitions of a topic; returns how many."""
        count = await administration.begin_moves(self._hall, name, targets)
        self._wanted.set()
        return count

    async def cancel(self, name: str, partitions: list[int] | None = None) -> int:
        """Cancel moves of a topic; returns how many."""
        count = await administration.cancel_moves(self._hall, name, partitions)
        self._wanted.set()
        return count

    def progress(self) -> list[MoveProgress]:
        """All moves that are under way."""
        found: list[MoveProgress] = []
        for topic, move in administration.moves_under_way(self._hall):
            work = self._work.get((topic.topic_id, move.partition)) or _Work()
            found.append(
                MoveProgress(
                    topic=topic.name,
                    partition=ALL if administration.owned_queue(self._hall, topic) is not None else move.partition,
                    source=move.source,
                    target=move.target,
                    phase=move.phase.value,
                    copied_bytes=work.copied_bytes,
                    left_messages=work.left,
                    problem=work.problem,
                )
            )
        return found

    # The task

    async def _move_always(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            under_way = administration.moves_under_way(self._hall) if self._groups.leads else []
            places = {(topic.topic_id, move.partition) for topic, move in under_way}
            self._work = {place: work for place, work in self._work.items() if place in places}
            able = [
                (self._work.setdefault((topic.topic_id, move.partition), _Work()), topic, move)
                for topic, move in under_way
            ]
            able = [one for one in able if one[0].is_due(one[2], loop.time())]
            if not able:
                self._wanted.clear()
                await _wait(self._wanted, LOOK_S)
                continue
            able.sort(key=lambda one: (one[2].phase is not MovePhase.FENCED, one[0].turn))  # A fence must be short.
            self._rounds += 1
            await asyncio.gather(*(self._work_on(work, topic, move) for work, topic, move in able[:AT_ONCE_MAX]))

    async def _work_on(self, work: _Work, topic: Topic, move: PartitionMove) -> None:
        """One step of a move. An error is noted and the step repeated later."""
        work.turn = self._rounds
        try:
            await self._take_step(work, topic, move)
            work.problem = ""
        except (LonghallError, OSError, TimeoutError) as error:
            work.problem = str(error) or type(error).__name__
            work.waits_until_s = asyncio.get_running_loop().time() + PAUSE_S
            _log.info(
                "a move has to wait",
                extra={"topic": topic.name, "partition": move.partition, "reason": work.problem},
            )

    async def _take_step(self, work: _Work, topic: Topic, move: PartitionMove) -> None:
        await self._be_sure()
        match move.phase:
            case MovePhase.COPYING:
                await self._tell(topic, move.source, move.target)
                if await self._copy(work, topic, move):
                    fenced = await administration.fence(self._hall, topic, move)
                    await self._pass_fence(work, topic, fenced)
            case MovePhase.FENCED:
                await self._pass_fence(work, topic, move)
            case MovePhase.SWITCHED:
                await self._give_away(topic, move)
            case MovePhase.CANCELLED:
                await self._tell(topic, move.source, move.target)
                await self._calls.discard(CopyPlace(topic.name, topic.topic_id, move), move.target)
                await administration.finish(self._hall, topic, move)

    async def _be_sure(self) -> None:
        """Wait until the catalogue as this node sees it is committed, and this node certainly leads."""
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        await self._confirm()

    async def _tell(self, topic: Topic, *groups: int) -> None:
        async with asyncio.timeout(CALL_S_MAX):
            await asyncio.gather(*(self._groups.tell(number, topic) for number in groups if number != HALL))

    # Phases

    async def _copy(self, work: _Work, topic: Topic, move: PartitionMove) -> bool:
        """Copy pieces for a while. True if the target is near the end of the source."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + TURN_S
        place = CopyPlace(topic.name, topic.topic_id, move)
        if administration.owned_queue(self._hall, topic) is not None:
            return await self._copy_queue(work, place)
        end = await self._calls.append(place, -1, LogPiece(0, 0, b""))
        while loop.time() < ends_s:
            piece = await self._calls.read(place, end)
            end = await self._calls.append(place, end, piece)
            work.copied_bytes += len(piece.batches)
            work.left = max(piece.end_offset - end, 0)
            await self._pace(len(piece.batches))
            if end >= piece.end_offset and len(piece.batches) <= NEAR_BYTES:
                return True
        return False

    async def _pass_fence(self, work: _Work, topic: Topic, move: PartitionMove) -> None:
        """Copy the rest of a fenced log, and make the target its owner. The fence is lifted if that takes too long, or
        is refused for good; the next one waits longer.
        """
        loop = asyncio.get_running_loop()
        if work.fence[0] != move.step:
            work.fence = (move.step, loop.time())
        left_s = work.fence[1] + FENCE_S_MAX - loop.time()
        try:
            async with asyncio.timeout(max(left_s, 0.1)):
                await self._tell(topic, move.source, move.target)
                await self._copy_rest(work, CopyPlace(topic.name, topic.topic_id, move))
                await self._be_sure()
                switched = await administration.switch(self._hall, topic, move)
        except (LonghallError, OSError, TimeoutError) as error:
            is_late = loop.time() >= work.fence[1] + FENCE_S_MAX
            is_refused = isinstance(error, LonghallError) and error.code is Code.INVALID_REQUEST
            if (is_late or is_refused) and topic.options.moves.of(move.partition) == move:
                await administration.lift(self._hall, topic, move)
                work.lifted(loop.time())
            raise
        _log.info(
            "a partition has moved",
            extra={"topic": topic.name, "partition": move.partition, "from": move.source, "to": move.target},
        )
        await self._give_away(topic, switched)

    async def _copy_rest(self, work: _Work, place: CopyPlace) -> None:
        """Copy up to the end of the fenced log, and complete the copy."""
        topic = self._hall.catalogue.by_id.get(place.topic_id)
        if topic is not None and administration.owned_queue(self._hall, topic) is not None:
            await self._copy_queue_rest(work, place)
            return
        end = await self._calls.append(place, -1, LogPiece(0, 0, b""))
        while True:
            piece = await self._calls.read(place, end)
            end = await self._calls.append(place, end, piece)
            work.copied_bytes += len(piece.batches)
            if piece.is_last and end == piece.end_offset:
                break
        work.left = 0
        await self._calls.complete(place, msgspec.structs.replace(piece, batches=b""))

    async def _give_away(self, topic: Topic, move: PartitionMove) -> None:
        """The source discards its log when the target serves the partition from enough replicas."""
        await self._tell(topic, move.target)
        place = CopyPlace(topic.name, topic.topic_id, move)
        proof = await self._calls.prove(place)
        if proof.in_sync < self._groups.copies_min(move.target):
            raise LonghallError(Code.NOT_ENOUGH_REPLICAS, "the target has too few replicas in sync")
        await self._tell(topic, move.source)
        await self._calls.discard(place, move.source)
        await self._be_sure()
        await administration.finish(self._hall, topic, move)

    # Queues

    def _logs_of(self, place: CopyPlace, logs: QueueLogs) -> list[CopyPlace]:
        """The place of each log of a queue: its partitions, and its hidden logs."""
        topic = self._hall.catalogue.by_id.get(place.topic_id)
        moves = [topic.options.moves.of(number) for number in range(len(logs.route))] if topic is not None else []
        route = [msgspec.structs.replace(place, move=move) for move in moves if move is not None]
        return [*route, *(msgspec.structs.replace(place, log=lane) for lane in logs.hidden)]

    async def _copy_queue(self, work: _Work, place: CopyPlace) -> bool:
        """Copy pieces of all logs of a queue for a while. True if the target is near the end of each."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + TURN_S
        near_bytes, left = 0, 0
        for one in self._logs_of(place, await self._calls.logs(place)):
            end = await self._calls.append(one, -1, LogPiece(0, 0, b""))
            while True:
                piece = await self._calls.read(one, end)
                end = await self._calls.append(one, end, piece)
                work.copied_bytes += len(piece.batches)
                await self._pace(len(piece.batches))
                if end >= piece.end_offset or loop.time() >= ends_s:
                    break
            near_bytes += len(piece.batches)
            left += max(piece.end_offset - end, 0)
        work.left = left
        return left == 0 and near_bytes <= NEAR_BYTES

    async def _copy_queue_rest(self, work: _Work, place: CopyPlace) -> None:
        """Copy the logs of a fenced queue up to their ends, then its state."""
        logs = await self._calls.logs(place)
        for one in self._logs_of(place, logs):
            end = await self._calls.append(one, -1, LogPiece(0, 0, b""))
            while True:
                piece = await self._calls.read(one, end)
                end = await self._calls.append(one, end, piece)
                work.copied_bytes += len(piece.batches)
                if piece.is_last and end == piece.end_offset:
                    break
            await self._calls.complete(one, msgspec.structs.replace(piece, batches=b""))
        work.left = 0
        await self._copy_state(place, logs)

    async def _copy_state(self, place: CopyPlace, logs: QueueLogs) -> None:
        at, checksum = 0, 0
        while True:
            piece = await self._calls.read_state(place, at)
            if at and piece.checksum != checksum:
                raise LonghallError(Code.NOT_READY, "the source has another leader; its state is read again")
            checksum = piece.checksum
            if at + len(piece.piece) >= piece.total:
                await self._calls.complete_queue(place, logs, at, piece)
                return
            await self._calls.append_state(place, at, piece)
            at += len(piece.piece)

    async def _pace(self, size_bytes: int) -> None:
        """Wait so that all copies together stay within the rate."""
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s) + size_bytes / self._bytes_a_second
        await asyncio.sleep(self._free_s - now_s)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
