"""Planted bugs of replication: mistakes that have lost or duplicated messages in other systems."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.broker import checkpoint, recovery, replay, replica_recovery
from longhall.broker.events import Truncated
from longhall.cluster.membership import controller, election
from longhall.cluster.membership.feature_level import level_of
from longhall.cluster.replication.follower import GroupFollower
from longhall.cluster.replication.group_replica import GroupReplica
from longhall.cluster.replication.leader import GroupLeader
from longhall.cluster.replication.replica_log import ReplicaLog
from longhall.cluster.replication.write_admission import WriteAdmission
from longhall.log.frames import BATCH_CONTINUED, BATCH_CONTINUES, Entry
from longhall.log.layout import IDENTITY
from longhall.log.wal import Wal
from longhall.node import join_state
from longhall.shards.backlog import ENTRY_BYTES, Backlog
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.replica import Replica
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _commit_without_followers() -> _Replacements:
    def advance(self: Any) -> None:
        self.committed = max(self.committed, self.synced)

    return [(CommitTracker, "_advance", advance)]


def _commit_by_majority() -> _Replacements:
    """Commit as a quorum system does; but here any single replica of the in-sync set may become leader, and lack
    entries.
    """

    def advance(self: Any) -> None:
        synced = sorted([self.synced, *(self.followers[node].synced for node in self.in_sync if node != self.node)])
        self.committed = max(self.committed, synced[(len(synced) - 1) // 2])

    return [(CommitTracker, "_advance", advance)]


def _answer_before_the_sync() -> _Replacements:
    good: Any = GroupFollower.take_push

    def take_push(self: Any, push: Any) -> None:
        good(self, push)
        self.connection.synced(self._log.index)

    return [(GroupFollower, "take_push", take_push)]


def _truncate_to_the_commit_position() -> _Replacements:
    good: Any = GroupFollower.follow

    def follow(self: Any) -> Any:
        replica = self._log.replica
        if replica.committed < replica.index:
            self._log.truncate(replica.committed)
        return good(self)

    return [(GroupFollower, "follow", follow)]


def _apply_what_is_not_committed() -> _Replacements:
    good: Any = GroupFollower.take_push

    def take_push(self: Any, push: Any) -> None:
        good(self, push)
        self._commit(push.first + push.count - 1)

    return [(GroupFollower, "take_push", take_push)]


def _forget_the_cut() -> _Replacements:
    good: Any = ReplicaLog._write_mark

    def write_mark(self: Any, mark: Any) -> None:
        if not isinstance(mark, Truncated):
            good(self, mark)

    return [(ReplicaLog, "_write_mark", write_mark)]


def _leave_before_it_is_recorded() -> _Replacements:
    def ask(self: Any, in_sync: frozenset[int]) -> None:
        self.asked = in_sync
        self.in_sync = self.in_sync & in_sync
        self._advance()

    return [(CommitTracker, "ask", ask)]


def _publish_what_is_not_committed() -> _Replacements:
    async def committed(replica: Any, index: int) -> None:
        return

    return [(checkpoint, "_committed", committed)]


def _recover_everything_as_committed() -> _Replacements:
    good: Any = replica_recovery._take_frame

    def take_frame(hall: Any, replica: Any, frame: Any) -> None:
        good(hall, replica, frame)
        replica.commit(replica.index)

    return [(replica_recovery, "_take_frame", take_frame)]


def _serve_before_the_epoch_is_committed() -> _Replacements:
    good: Any = GroupLeader._begin_epoch

    def begin(self: Any, node: int, epoch: int, record: Any) -> None:
        good(self, node, epoch, record)
        self.admission.commit_epoch()

    return [(GroupLeader, "_begin_epoch", begin)]


def _count_what_was_sent() -> _Replacements:
    good: Any = GroupReplica.written

    def written(self: Any, time_ms: int) -> None:
        good(self, time_ms)
        if self.leading is not None:
            for node, stream in self.leader.streams.by_node.items():
                self.leading.answered(node, stream.next - 1)
            self.leader.advance()

    return [(GroupReplica, "written", written)]


def _lead_from_the_commit_position() -> _Replacements:
    good: Any = GroupReplica.become_leader

    async def become_leader(self: Any, epoch: int, record: Any) -> None:
        if self.leading is None and self.replica.committed < self.replica.index:
            self.log.truncate(self.replica.committed)
        await good(self, epoch, record)

    return [(GroupReplica, "become_leader", become_leader)]


def _forget_what_is_pending() -> _Replacements:
    good: Any = Replica.snapshot

    def snapshot(self: Any) -> dict[str, Any]:
        state: dict[str, Any] = good(self)
        return {**state, "pending": [], "index": state["applied"]}

    return [(Replica, "snapshot", snapshot)]


def _follow_in_memory() -> _Replacements:
    return [(Wal, "append_together", lambda self, entries, count: None)]


def _elect_without_asking() -> _Replacements:
    async def most_complete(
        ask: Any, candidates: list[int], epoch: int, in_sync: int, committed: tuple[int, int] = (0, 0)
    ) -> int:
        return candidates[-1]

    return [(controller, "most_complete", most_complete)]


def _one_is_a_quorum() -> _Replacements:
    return [(CommitTracker, "_synced_by_majority", lambda self, nodes: self.synced)]


def _forget_the_last_part() -> _Replacements:
    good: Any = replay.Replay._join

    def join(self: Any, entry: Any) -> Any:
        if entry.flags & BATCH_CONTINUES and not entry.flags & BATCH_CONTINUED:
            body = entry.body[:8] + bytes(len(entry.body) - 8)
            entry = Entry(entry.kind, entry.flags, entry.shard, entry.sequence, entry.epoch, body)
        return good(self, entry)

    return [(replay.Replay, "_join", join)]


def _let_everybody_in() -> _Replacements:
    """Skip the checks of the record and of the directory."""
    read: Any = recovery.read_identity
    identify: Any = recovery.identify

    async def check_level(coordinator: Any, level_max: int) -> int:
        return min(level_of((await coordinator.feature_level()).level), level_max)

    return [
        (join_state, "check_level", check_level),
        (join_state, "read_identity", lambda disk, format_max, name=IDENTITY: read(disk, name=name)),
        (
            join_state,
            "identify",
            lambda disk, entropy, options, shared, format_max: identify(disk, entropy, options, shared),
        ),
    ]


def _acknowledge_with_too_few() -> _Replacements:
    good: Any = WriteAdmission.update

    def update(self: Any, leading: Any) -> None:
        good(self, leading)
        self._hall.is_short = False

    return [(WriteAdmission, "update", update)]


def _elect_whoever_is_there() -> _Replacements:
    good: Any = election.decide

    def decide(
        state: Any,
        alive: Any,
        suspects: Any = frozenset(),
        unfit: Any = frozenset(),
        unclean: Any = frozenset(),
        in_sync_min: int = 1,
    ) -> Any:
        everybody = msgspec.structs.replace(state, in_sync=tuple(sorted({*state.in_sync, *state.replicas})))
        return good(everybody if state.leader not in alive - suspects else state, alive, suspects, unfit)

    return [(controller, "decide", decide)]


def _replace_a_living_leader() -> _Replacements:
    async def nobody(self: Any, state: Any, members: Any, suspects: Any) -> frozenset[int]:
        return frozenset()

    return [(controller.Controller, "_living_leader", nobody)]


def _never_back_up() -> _Replacements:
    def add(self: Any, size_bytes: int, entries: int) -> None:
        self.size_bytes += size_bytes
        self.entries += entries
        self.weight += size_bytes + entries * ENTRY_BYTES

    return [(Backlog, "add", add)]


REPLICA_BUGS: Final[dict[str, Bug]] = {
    "commit-without-followers": Bug(
        "An entry synced on the leader alone counts as committed.", "elections", 4, _commit_without_followers
    ),
    "commit-by-majority": Bug("Two of three are enough to acknowledge.", "survivors", 4, _commit_by_majority),
    "answer-before-the-sync": Bug(
        "A follower acknowledges entries that are not on its disk.", "survivors", 4, _answer_before_the_sync
    ),
    "truncate-to-the-commit-position": Bug(
        "A follower truncates entries that it does not know to be committed.",
        "elections",
        10,
        _truncate_to_the_commit_position,
    ),
    "apply-what-is-not-committed": Bug(
        "A follower applies entries before their commit.", "elections", 10, _apply_what_is_not_committed
    ),
    "forget-the-cut": Bug("A restart brings back truncated entries.", "elections", 20, _forget_the_cut),
    "count-what-was-sent": Bug(
        "Entries sent to a follower count as acknowledged.", "elections", 4, _count_what_was_sent
    ),
    "lead-from-the-commit-position": Bug(
        "A new leader truncates entries that it does not know to be committed.",
        "elections",
        4,
        _lead_from_the_commit_position,
    ),
    "forget-what-is-pending": Bug("A snapshot lacks uncommitted entries.", "elections", 4, _forget_what_is_pending),
    "follow-in-memory": Bug(
        "A follower acknowledges entries that it has not written.", "elections", 4, _follow_in_memory
    ),
    "acknowledge-with-too-few": Bug(
        "Entries under way when replicas are lost are acknowledged by too few replicas.",
        "elections",
        20,
        _acknowledge_with_too_few,
    ),
    "elect-whoever-is-there": Bug("A replica that lacks entries may lead.", "failovers", 10, _elect_whoever_is_there),
    "elect-without-asking": Bug(
        "Any in-sync replica may lead, even if another has more entries.", "quorums", 4, _elect_without_asking
    ),
    "replace-a-living-leader": Bug(
        "A leader without a session is replaced although it still leads.", "lone-leaders", 4, _replace_a_living_leader
    ),
    "take-without-bound": Bug("Messages are accepted however many wait for a commit.", "stalls", 2, _never_back_up),
    "one-is-a-quorum": Bug("An entry on the leader alone counts as on a quorum.", "quorums", 4, _one_is_a_quorum),
    "forget-the-last-part": Bug(
        "A follower lacks the end of a batch that took several entries.", "parts", 2, _forget_the_last_part
    ),
    "let-everybody-in": Bug("A version that is too old joins.", "upgrades", 2, _let_everybody_in),
    "leave-before-it-is-recorded": Bug(
        "The leader commits without a lagging replica before the record says so.",
        "elections",
        20,
        _leave_before_it_is_recorded,
    ),
    "publish-what-is-not-committed": Bug(
        "A snapshot has entries that were never committed.", "elections", 20, _publish_what_is_not_committed
    ),
    "recover-everything-as-committed": Bug(
        "A restart applies uncommitted entries.", "elections", 10, _recover_everything_as_committed
    ),
    "serve-before-the-epoch-is-committed": Bug(
        "A new leader serves inherited entries before they are committed.",
        "elections",
        10,
        _serve_before_the_epoch_is_committed,
    ),
}
