"""The move record of a topic: which of its partitions move from one replication group to another, and how far.

The catalogue of the main hall has the record, and every group of the topic has a copy of it. `decide_*` returns the
next record or a refusal; nothing here changes a record, copies messages or knows which nodes there are. Group 0 is the
main hall.

    phase       event         next          condition
    (none)      begin         copying       the partition does not move, and the target is another group than its owner
    copying     fence         fenced        the copy has caught up
    copying     cancel        cancelled
    fenced      switch        switched      the target has committed the whole log and the producers
    fenced      lift          copying       the fence has lasted too long
    fenced      cancel        cancelled
    switched    finish        (none)        the target was proven, and the source has discarded its copy
    cancelled   finish        (none)        the source serves again, and the target has discarded its copy

All other pairs are refused. The owner of a partition changes with `switch` alone, in the same entry of the catalogue.

    phase       owner     serves clients
    copying     source    source
    fenced      source    nobody
    switched    target    target
    cancelled   source    source

Invariants: the generation rises with every change. A group never goes back to a lower generation, so a group that has
the fenced record serves the partition again only with a later record, in which it is the owner. A partition has at most
one move. The partitions of a queue are one unit: they begin and take every step together, in one generation.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from longhall.errors import Code, LonghallError

EPOCHS_A_MOVE: Final = 100_000  # Leader epochs of a partition rise by this with each move: groups count their own.
MOVES_MAX: Final = 20_000  # Of one partition, so that leader epochs fit into 31 bits.


class MovePhase(Enum):
    """The phase of a move; the table in the module's docstring has the transitions."""

    COPYING = "copying"
    FENCED = "fenced"
    SWITCHED = "switched"
    CANCELLED = "cancelled"


class PartitionMove(msgspec.Struct, frozen=True, kw_only=True):
    """One partition that moves from one group to another. `step` is the generation in which it got its phase: equal
    moves are the same step of the same move.
    """

    partition: int
    source: int
    target: int
    phase: MovePhase
    step: int


class MoveRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The moves of one topic. `counts` has the completed switches of each partition, `groups` every group that stored a
    part of the topic at some time, or began to: they keep the topic, without messages, to remember the generation.
    """

    generation: int = 0
    moves: tuple[PartitionMove, ...] = ()
    counts: dict[str, int] = {}
    groups: tuple[int, ...] = ()

    def of(self, partition: int) -> PartitionMove | None:
        """The move of a partition; None if it does not move."""
        for move in self.moves:
            if move.partition == partition:
                return move
        return None

    def is_fenced(self, partition: int) -> bool:
        """True if no group serves the partition at the moment."""
        move = self.of(partition)
        return move is not None and move.phase is MovePhase.FENCED

    def takes_copy(self, partition: int, group: int) -> bool:
        """True if the group takes pieces of the partition's log."""
        move = self.of(partition)
        return move is not None and move.target == group and move.phase in (MovePhase.COPYING, MovePhase.FENCED)

    def unit_of(self, move: PartitionMove) -> tuple[int, ...]:
        """The partitions that take every step together with this one: those of a queue, which is one unit."""
        return tuple(one.partition for one in self.moves if one.step == move.step and one.target == move.target)

    def epoch_base(self, partition: int) -> int:
        """What is added to the leader epoch of the group that has the partition."""
        return self.counts.get(str(partition), 0) * EPOCHS_A_MOVE


NO_MOVES: Final = MoveRecord()

_decoder: Final = msgspec.json.Decoder(MoveRecord)


def decode_record(text: str) -> MoveRecord:
    """The record in a configuration. ValueError if it is none."""
    if not text:
        return NO_MOVES
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"must be a move record: {error}") from None


def encode_record(record: MoveRecord) -> str:
    """The record for a configuration; the same text for equal records."""
    return msgspec.json.encode(record, order="deterministic").decode()


def owners_of(wings: list[int], partitions: int) -> list[int]:
    """The group of each partition of a topic with these wings; 0 is the main hall."""
    return [wings[number % len(wings)] if wings else 0 for number in range(partitions)]


def lanes_of(owners: list[int]) -> list[int]:
    """The shortest list of wings from which these owners follow: partition p is in wing p modulo its length."""
    lengths = range(1, len(owners) + 1)
    return next(owners[:k] for k in lengths if all(owner == owners[at % k] for at, owner in enumerate(owners)))


def decide_begin(record: MoveRecord, owners: list[int], moves: dict[int, int]) -> MoveRecord:
    """Begin to move partitions to other groups. Raises INVALID_REQUEST for an unknown partition or one that moves."""
    begun: list[PartitionMove] = []
    for partition, target in sorted(moves.items()):
        if not 0 <= partition < len(owners):
            raise _refused(f"there is no partition {partition}")
        if record.of(partition) is not None:
            raise _refused(f"partition {partition} is moving already: cancel that, or wait for its end")
        if owners[partition] == target:
            raise _refused(f"partition {partition} is in the group {target} already")
        if record.counts.get(str(partition), 0) >= MOVES_MAX:
            raise _refused(f"partition {partition} has moved {MOVES_MAX} times, and cannot move again")
        source = owners[partition]
        begun.append(
            PartitionMove(
                partition=partition,
                source=source,
                target=target,
                phase=MovePhase.COPYING,
                step=record.generation + 1,
            )
        )
    groups = {*record.groups, *owners, *(move.target for move in begun)}
    return msgspec.structs.replace(
        record,
        generation=record.generation + 1,
        moves=(*record.moves, *begun),
        groups=tuple(sorted(groups)),
    )


def decide_fence(record: MoveRecord, *partitions: int) -> MoveRecord:
    """Have the source refuse clients: the copy has caught up."""
    return _step(record, partitions, (MovePhase.COPYING,), MovePhase.FENCED)


def decide_lift(record: MoveRecord, *partitions: int) -> MoveRecord:
    """Have the source serve clients again: the last piece takes too long."""
    return _step(record, partitions, (MovePhase.FENCED,), MovePhase.COPYING)


def decide_cancel(record: MoveRecord, *partitions: int) -> MoveRecord:
    """Leave the partitions where they are. Refused after the switch."""
    return _step(record, partitions, (MovePhase.COPYING, MovePhase.FENCED), MovePhase.CANCELLED)


def decide_switch(record: MoveRecord, owners: list[int], *partitions: int) -> tuple[MoveRecord, list[int]]:
    """Make the target the owner; returns the record and the owners. The target has everything."""
    after = _step(record, partitions, (MovePhase.FENCED,), MovePhase.SWITCHED)
    counts, switched = dict(record.counts), list(owners)
    for partition in partitions:
        move = after.of(partition)
        assert move is not None
        assert owners[partition] == move.source, "a partition moves from its owner"
        counts[str(partition)] = counts.get(str(partition), 0) + 1
        switched[partition] = move.target
    return msgspec.structs.replace(after, counts=counts), switched


def decide_finish(record: MoveRecord, *partitions: int) -> MoveRecord:
    """End a move: the group that is not the owner has discarded its copy."""
    after = _step(record, partitions, (MovePhase.SWITCHED, MovePhase.CANCELLED), MovePhase.CANCELLED)
    return msgspec.structs.replace(after, moves=tuple(move for move in after.moves if move.partition not in partitions))


def _step(
    record: MoveRecord, partitions: tuple[int, ...], phases: tuple[MovePhase, ...], phase: MovePhase
) -> MoveRecord:
    """Give the moves of these partitions, all of them together, their next phase."""
    stepped: dict[int, PartitionMove] = {}
    for partition in partitions:
        move = record.of(partition)
        if move is None:
            raise _refused(f"partition {partition} does not move")
        if move.phase not in phases:
            raise _refused(f"the move of partition {partition} is {move.phase.value}")
        stepped[partition] = msgspec.structs.replace(move, phase=phase, step=record.generation + 1)
    return msgspec.structs.replace(
        record,
        generation=record.generation + 1,
        moves=tuple(stepped.get(one.partition, one) for one in record.moves),
    )


def _refused(reason: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, reason)
