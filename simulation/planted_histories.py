"""Planted bugs for the scenarios in `scenarios/histories.py`: each is the mistake that its scenario is named after."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker import replay, send
from longhall.broker.hall_time import HallTime
from longhall.broker.transaction_check import check_transaction
from longhall.cluster.membership.record_registrar import RecordRegistrar
from longhall.cluster.replication import log_matching
from longhall.cluster.replication.group_replica import GroupRecord, GroupReplica
from longhall.cluster.replication.leadership_check import LeadershipCheck
from longhall.cluster.replication.replica_repair import ReplicaRepair
from longhall.cluster.replication.sync_verification import SyncVerification
from longhall.cluster.rpc.leader_client import LeaderClient
from longhall.errors import Code, LonghallError
from longhall.queues.events import Extended
from longhall.queues.events import decoder as queue_decoder
from longhall.shards.shard import QUEUES
from longhall.topics.producers import ProducerTable
from simulation.bug import Bug
from simulation.planted_queues import _forget_deduplication
from simulation.planted_replicas import (
    _answer_before_the_sync,
    _elect_whoever_is_there,
    _leave_before_it_is_recorded,
)
from simulation.planted_topics import _read_open_transactions, _retry_a_failed_sync, _trust_torn_frames

_Replacements = list[tuple[Any, str, Any]]


def _cut_to_the_known_watermark() -> _Replacements:
    """Truncate at once, and not only when a leader can replicate the entries again."""
    good: Any = GroupReplica.become_follower

    def become_follower(self: Any, epoch: int, leader: int) -> None:
        comes_back = self.follower.connection is None and self.leading is None and not self._ended
        if comes_back and self.replica.applied <= self.replica.committed < self.replica.index:
            self.log.truncate(self.replica.committed)
        good(self, epoch, leader)

    return [(GroupReplica, "become_follower", become_follower)]


def _agree_by_length() -> _Replacements:
    return [
        (log_matching, "common_index", lambda leader, index, follower, other, *rest: min(index, other)),
        (log_matching, "contains", lambda *histories: True),
    ]


def _write_under_an_old_epoch() -> _Replacements:
    good: Any = ProducerTable.decide

    def decide(self: Any, header: Any) -> Any:
        decided = good(self, header)
        return None if decided is Code.INVALID_PRODUCER_EPOCH else decided

    return [(ProducerTable, "decide", decide), (send, "check_transaction", lambda *arguments: None)]


def _write_without_adding() -> _Replacements:
    good: Any = check_transaction

    def adding(hall: Any, partition: Any, header: Any, transactional_id: Any, joins: bool) -> Any:
        return good(hall, partition, header, transactional_id, True)

    return [(send, "check_transaction", adding)]


def _carry_once_more() -> _Replacements:
    good: Any = LeaderClient.lost

    def lost(self: Any, call: Any, error: Exception, sent: bool) -> None:
        good(self, call, error, False)

    def give_up(self: Any, call: Any, error: LonghallError) -> None:
        self._wait(call)

    return [(LeaderClient, "lost", lost), (LeaderClient, "_give_up", give_up)]


def _believe_what_was_not_answered() -> _Replacements:
    good: Any = RecordRegistrar.record_in_sync

    async def record_in_sync(self: Any, epoch: int, version: int, in_sync: frozenset[int]) -> Any:
        async def read_back(epoch: int, in_sync: frozenset[int]) -> GroupRecord:
            return GroupRecord(version=version + 1, in_sync=in_sync)

        self._read_back = read_back
        return await good(self, epoch, version, in_sync)

    return [(RecordRegistrar, "record_in_sync", record_in_sync)]


def _keep_ones_own_clock() -> _Replacements:
    return [(HallTime, "follow", HallTime.not_before)]


def _believe_to_lead() -> _Replacements:
    async def confirm(self: Any) -> None:
        """Confirm without asking any replica."""

    return [(LeadershipCheck, "confirm", confirm)]


def _apply_otherwise() -> _Replacements:
    """The replay skips events that only move the end of a lease."""
    good: Any = replay.Replay._apply

    def apply(self: Any, shard: int, room: int, event: bytes) -> None:
        if room != QUEUES or not isinstance(queue_decoder.decode(event), Extended):
            good(self, shard, room, event)

    return [(replay.Replay, "_apply", apply)]


def _spread_damage() -> _Replacements:
    async def finish(self: Any) -> None:
        self._waiting = []

    return [(SyncVerification, "finish", finish)]


def _refuse_what_others_have() -> _Replacements:
    return [(ReplicaRepair, "request", lambda self, number, offset, on_repaired: False)]


HISTORY_BUGS: Final[dict[str, Bug]] = {
    "cut-to-the-known-watermark": Bug(
        "A restarted replica truncates entries that it does not know to be committed.",
        "kip-101",
        20,
        _cut_to_the_known_watermark,
    ),
    "agree-by-length": Bug("Logs of equal length are taken for equal.", "kip-279", 4, _agree_by_length),
    "lead-without-everything": Bug("The first node that comes back leads.", "kip-966", 4, _elect_whoever_is_there),
    "answer-from-memory": Bug(
        "Followers acknowledge before their sync.", "nats-power-failure", 4, _answer_before_the_sync
    ),
    "trust-flipped-bits": Bug("The checksum of the log is not checked.", "nats-flipped-bit", 4, _trust_torn_frames),
    "believe-a-second-sync": Bug(
        "A successful sync after a failed one is trusted.", "failed-fsync", 4, _retry_a_failed_sync
    ),
    "show-open-transactions": Bug(
        "Readers of committed transactions see open ones.", "redpanda-bufstream", 4, _read_open_transactions
    ),
    "write-under-an-old-epoch": Bug("A fenced writer may write.", "kip-890", 2, _write_under_an_old_epoch),
    "write-without-adding": Bug("A write adds its partition to the transaction.", "kip-890", 2, _write_without_adding),
    "carry-once-more": Bug(
        "A request that may have been carried out is sent again to the next leader.",
        "rabbitmq-mirrored-queues",
        10,
        _carry_once_more,
    ),
    "believe-what-was-not-answered": Bug(
        "A change without an answer is taken for done.", "zookeeper-lost-answers", 4, _believe_what_was_not_answered
    ),
    "go-on-alone": Bug(
        "A leader commits without the replicas that it has lost.",
        "zookeeper-paused-leader",
        4,
        _leave_before_it_is_recorded,
    ),
    "forget-ids-in-a-failover": Bug(
        "The next leader knows no deduplication ids.", "sqs-fifo-deduplication", 4, _forget_deduplication
    ),
    "keep-ones-own-clock": Bug(
        "The next leader uses the clock of its own host.", "cluster-clocks", 4, _keep_ones_own_clock
    ),
    "believe-to-lead": Bug(
        "A deposed leader that has not noticed answers that something does not exist.",
        "cluster-deposed",
        2,
        _believe_to_lead,
    ),
    "spread-damage": Bug("The data of a full sync is not checked.", "cluster-damage", 20, _spread_damage),
    "refuse-what-others-have": Bug(
        "Messages that are damaged on the leader are given up.", "cluster-damage", 4, _refuse_what_others_have
    ),
    "apply-otherwise": Bug("Followers apply fewer events than the leader.", "cluster-letters", 2, _apply_otherwise),
}
