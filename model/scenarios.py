"""The scenarios: initial states, and the bounds of what may happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from model.bounds import KINDS, LIVENESS, RULES, SAFETY, Bounds, limits
from model.faults import crashed
from model.state import NOBODY, NOTHING, Coordinator, Entry, Node, Office, Record, Saved, State, bit


def cluster(nodes: int, replicas: int, in_sync: int | None = None, blank: int = NOTHING) -> State:
    """A cluster whose node 0 leads epoch 1; its epoch is committed on all replicas, and all have agreed."""
    in_sync = replicas if in_sync is None else in_sync
    record = Record(0, 1, replicas, in_sync, 1)
    log = (Entry(1, 0, replicas),)
    made = []
    for number in range(nodes):
        keeps = bool(replicas & bit(number))
        office = Office(
            1, 1, in_sync, NOTHING, replicas, 0, tuple(int(bool(replicas & bit(n) and n)) for n in range(nodes))
        )
        made.append(
            Node(
                log=log if keeps else (),
                synced=int(keeps),
                committed=int(keeps),
                life=1,
                seen=1,
                blank=bool(blank & bit(number)),
                up=True,
                epoch=1,
                leader=0 if keeps and number else NOBODY,
                agreed=bool(keeps and number),
                halted=False,
                heard=None,
                office=office if number == 0 else None,
            )
        )
    return State(
        nodes=tuple(made),
        coordinator=Coordinator(record, 1, (1 << nodes) - 1, (1,) * nodes),
        backup=None,
        saved=(None,) * nodes,
        spent=(0,) * len(KINDS),
        truth=((log[0], 1),),
        leaders=((1, 0),),
        alone=(),
        quorum=(NOTHING, ()),
        broken="",
    )


class Scenario(NamedTuple):
    """An initial state, the bounds of a run, and the rules without which an invariant breaks."""

    about: str
    start: State
    limits: tuple[int, ...]
    epoch_max: int
    checks: frozenset[str]
    reveals: Mapping[str, str] = {}  # Rules, joined by commas, and the invariant that breaks without them.
    heal_every: int = 5
    attended: bool = False
    lost: int = NOTHING
    same_life: bool = False
    progress: bool = False

    def bounds(self, without: Iterable[str] = (), checks: Iterable[str] = ()) -> Bounds:
        """The bounds of a run without some rules, which checks all invariants of the scenario or only these."""
        return Bounds(
            rules=frozenset(RULES) - frozenset(without),
            limits=self.limits,
            epoch_max=self.epoch_max,
            checks=frozenset(checks) or self.checks,
            heal_every=self.heal_every,
            attended=self.attended,
            same_life=self.same_life,
            progress=self.progress,
            lost=self.lost,
        )


def power_cut() -> State:
    """All nodes have lost power; their sessions last for a while."""
    state = cluster(3, 0b111)
    return state._replace(nodes=tuple(crashed(node, node.synced, node.committed) for node in state.nodes))


def incomplete_leader(in_sync: int) -> State:
    """After another failure node 3 leads epoch 2 without an entry that node 2 has, and knows to be committed."""
    state = cluster(3, 0b111)
    entry = Entry(1, 0, NOTHING)
    begun = Entry(2, 0, 0b111)
    record = Record(2, 2, 0b111, in_sync, 2)
    first, second, third = state.nodes
    log = first.log
    first = crashed(first, 1, 1)
    second = second._replace(log=(*log, entry), synced=2, committed=2, epoch=2, leader=2, agreed=False, seen=2)
    office = Office(2, 2, in_sync, NOTHING, 0b111, 1, (0, 0, 0))
    third = third._replace(log=(*log, begun), synced=2, epoch=2, leader=NOBODY, agreed=False, office=office, seen=2)
    return state._replace(
        nodes=(first, second, third),
        coordinator=state.coordinator._replace(record=record, given=2, registered=0b110),
        truth=(*state.truth, (entry, 1)),
    )


def copied_directory(life: int) -> State:
    """A copy of node 1's directory was taken when it had a single entry, in the given life."""
    state = cluster(2, 0b11)
    first = state.nodes[0]
    return state._replace(saved=(Saved(first.log, 1, life, 1), None))


ALL: Final = SAFETY | LIVENESS
SCENARIOS: Final[Mapping[str, Scenario]] = {
    "failover": Scenario(
        "a node crashes, and a follower is late",
        cluster(3, 0b111),
        limits(write=1, crash=1, remove=1),
        3,
        ALL,
        heal_every=20,
    ),
    "loss": Scenario(
        "the coordinator loses its data",
        cluster(2, 0b11),
        limits(write=1, crash=1, remove=1, drop=1, lose=1),
        3,
        ALL,
    ),
    "late-node-first": Scenario(
        "all nodes stop, the coordinator loses its data, and a node that lags may start first",
        cluster(2, 0b11, 0b1),
        limits(write=1, crash=2, lose=1),
        3,
        ALL,
        {"R2": "I1"},
        heal_every=20,
    ),
    "deposed-leader": Scenario(
        "a leader is deposed, and the coordinator loses its data before the leader hears of it",
        cluster(2, 0b11),
        limits(write=1, session=1, whim=1, drop=1, lose=1),
        3,
        ALL,
        {"R13": "I5"},
        heal_every=1,
    ),
    "growth": Scenario(
        "a second replica is added, and the coordinator loses its data",
        cluster(2, 0b1),
        limits(move=1, crash=1, drop=1, lose=1),
        3,
        ALL,
        {"R1": "I1"},
    ),
    "backup": Scenario(
        "the coordinator is restored from a backup while all nodes run",
        cluster(2, 0b11),
        limits(write=1, crash=1, remove=1, restore=1),
        3,
        ALL,
        {"R11": "I1", "R12": "I1"},
        attended=True,
    ),
    "blind-backup": Scenario(
        "the same while nodes are away: entries may be lost, but no copy is destroyed and no divergence is silent",
        cluster(2, 0b11),
        limits(write=1, crash=1, remove=1, restore=1),
        3,
        frozenset({"I4", "I8"}),
    ),
    "same-epoch": Scenario(
        "a restored backup gives an epoch out twice",
        cluster(2, 0b11),
        limits(crash=2, restore=1),
        2,
        frozenset({"I4", "I8"}),
        {"R14": "I8"},
    ),
    "incomplete-leader": Scenario(
        "a node leads that lacks what an in-sync follower knows to be committed",
        incomplete_leader(0b110),
        limits(crash=1),
        4,
        frozenset({"I4", "I5", "I8"}),
        {"R5": "I5", "R4,R5": "I4"},
    ),
    "better-copy": Scenario(
        "a node comes back that has committed entries which the leader lacks, and is not in sync",
        incomplete_leader(0b100),
        limits(crash=1),
        4,
        frozenset({"I4", "I8"}),
        {"R4": "I4"},
    ),
    "power-cut": Scenario(
        "all nodes lose power, and one of them never returns",
        power_cut(),
        limits(drop=1),
        3,
        ALL,
        {"R9": "I5"},
        heal_every=1,
        lost=0b100,
    ),
    "modes": Scenario(
        "messages that one node, or a quorum, has acknowledged",
        cluster(3, 0b111),
        limits(write=1, crash=1, session=1),
        3,
        SAFETY | {"I7"},
        {"R7": "I7", "R8": "I7"},
    ),
    "older-copy": Scenario(
        "the directory of a node becomes a copy from an earlier life",
        copied_directory(0),
        limits(write=1, crash=1, rollback=1),
        3,
        SAFETY,
        {"R10": "I1"},
    ),
    "rolled-back": Scenario(
        "the directory of a node becomes a copy from the same life, after the leader has noted what is committed",
        copied_directory(1),
        limits(write=1, crash=1, rollback=1),
        3,
        SAFETY,
        {"R15": "I1"},
        same_life=True,
        progress=True,
    ),
}
# A copy from the same life is not told from a crash and a restart, and what was committed since the leader's last note
# of it is not missed: the model shows what no rule prevents.
SAME_LIFE: Final = Scenario(
    "the directory of a node becomes a copy from the same life",
    copied_directory(1),
    limits(write=1, crash=1, rollback=1),
    3,
    SAFETY,
    same_life=True,
)


def wide(nodes: int, **counts: int) -> Scenario:
    """A cluster whose first three nodes have replicas, under more faults than can be explored: for walks."""
    replicas = (1 << min(nodes, 3)) - 1
    return Scenario("by the command line", cluster(nodes, replicas), limits(**counts), 9, ALL)
