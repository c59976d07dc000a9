"""Planted bugs in the handling of a lost or restored coordinator, and in the choice of the next leader."""

from __future__ import annotations

from typing import Any, Final

from longhall.cluster.membership import controller, coordinator_session, election, join, record_registrar
from longhall.cluster.replication import full_sync, log_matching
from longhall.cluster.replication.group_replica import GroupReplica
from longhall.node import join_state
from longhall.node.cluster_node import ClusterNode
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _make_a_record_anyway() -> _Replacements:
    async def check_record(coordinator: Any, member_file: Any) -> None:
        return

    return [(join_state, "check_record", check_record)]


def _discard_for_a_shorter_log() -> _Replacements:
    """A replica with more entries than the leader does a full sync and deletes its own log."""
    good: Any = join_state.check_record

    async def check_record(coordinator: Any, member_file: Any) -> None:
        if await coordinator.shard(0) is not None:
            await good(coordinator, member_file)

    return [
        (join_state, "check_record", check_record),
        (log_matching, "contains", lambda longer, index, other, other_index, committed, nonces=({}, {}): True),
        (GroupReplica, "refuse_leader", GroupReplica.refetch),
        (full_sync, "_check_history", lambda disk, path, history: None),
    ]


def _believe_a_restored_record() -> _Replacements:
    async def check_record(coordinator: Any, member_file: Any) -> None:
        return

    async def is_contradicted(self: Any, state: Any, members: Any) -> bool:
        return False

    return [
        (join_state, "check_record", check_record),
        (ClusterNode, "_check_record", lambda self, hall: None),
        (controller, "is_stale", lambda state, known: False),
        (controller.Controller, "_is_contradicted", is_contradicted),
        (coordinator_session, "is_stale", lambda state, known: False),
        (record_registrar, "is_stale", lambda state, known: False),
    ]


def _elect_one_alone() -> _Replacements:
    good: Any = election.decide

    def decide(
        state: Any,
        alive: Any,
        suspects: Any = frozenset(),
        unfit: Any = frozenset(),
        unclean: Any = frozenset(),
        in_sync_min: int = 1,
    ) -> Any:
        return good(state, alive, suspects, unfit)

    return [(controller, "decide", decide)]


def _leave_the_set_together() -> _Replacements:
    async def is_another_in_service(others: list[int], ask: Any) -> bool:
        return bool(others)

    return [(join, "_is_another_in_service", is_another_in_service)]


COORDINATOR_BUGS: Final[dict[str, Bug]] = {
    "make-a-record-anyway": Bug(
        "A node that finds no record makes one out of its own log.", "lost-coordinator", 4, _make_a_record_anyway
    ),
    "discard-for-a-shorter-log": Bug(
        "A replica with committed entries that the leader lacks does a full sync.",
        "lost-coordinator",
        4,
        _discard_for_a_shorter_log,
    ),
    "believe-a-restored-record": Bug(
        "Nodes follow a record that is older than one they have seen.",
        "restored-coordinator",
        4,
        _believe_a_restored_record,
    ),
    "elect-one-alone": Bug(
        "A replica that was stopped uncleanly leads alone before the others are back.",
        "rolled-back",
        4,
        _elect_one_alone,
    ),
    "leave-the-set-together": Bug(
        "Nodes that stopped together all leave the in-sync set, since the sessions of the others are alive.",
        "elections",
        4,
        _leave_the_set_together,
    ),
}
