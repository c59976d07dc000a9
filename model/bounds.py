"""The bounds of a run: the rules in force, and how often each costly step may be taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from model.state import State

RULES: Final[Mapping[str, str]] = {
    "R1": "a leader asks for a new in-sync member only when the last note names it and is committed",
    "R2": "a record is created only by proof that the most complete log is at hand",
    "R3": "a replica whose log has a higher epoch than the record takes the record for stale",
    "R4": "a follower never discards what it knows to be committed",
    "R5": "a leader that lacks committed entries of an in-sync follower gives way",
    "R7": "the most complete of those who answer is elected, and enough must answer",
    "R8": "a leader that answers is not replaced",
    "R9": "after an unclean stop a node leaves the in-sync set only if another in-sync member answers",
    "R10": "a directory of an earlier life than the coordinator remembers leaves the in-sync set",
    "R11": "a replica remembers the newest revision of the record, and takes an older record for stale",
    "R12": "nobody changes a record that a node which answers calls stale; it is replaced by proof",
    "R13": "an answer to a proof is a promise: nothing is taken of older leaders, and an older leader gives way",
    "R14": "an epoch is known by its number and by a nonce of its leader",
    "R15": "the leader notes with the coordinator what is committed, and nobody is elected who has less",
}
INVARIANTS: Final[Mapping[str, str]] = {
    "I1": "what was committed is in the log of every later leader",
    "I2": "what two replicas know to be committed is equal",
    "I3": "at most one leader commits in an epoch",
    "I4": "no replica discards an entry that it knows to be committed",
    "I5": "when faults end and the nodes run, a leader serves",
    "I7": "modes `one` and `quorum` lose nothing while those who have it could have been asked",
    "I8": "the log of a follower that has agreed with its leader is a prefix of the leader's log",
}
SAFETY: Final = frozenset({"I1", "I2", "I3", "I4", "I8"})
LIVENESS: Final = frozenset({"I5"})

# Steps that are taken a bounded number of times. All others are unbounded.
KINDS: Final = (
    "write",  # a client's message
    "remove",  # a leader takes a follower out of the in-sync set
    "drop",  # the manager takes a node without a session out of the in-sync set
    "move",  # the manager adds or removes a replica
    "crash",
    "session",  # the session of a live node ends
    "whim",  # the manager deposes a leader that lives, is registered and answers
    "transfer",
    "lose",  # the coordinator's data
    "restore",  # a backup of the coordinator's data
    "wipe",  # a directory is lost
    "rollback",  # a directory becomes a copy of itself from an earlier life
)
POSITION: Final = {kind: at for at, kind in enumerate(KINDS)}


class Bounds(NamedTuple):
    """The permitted steps of one run, and the invariants to check."""

    rules: frozenset[str]
    limits: tuple[int, ...]
    epoch_max: int
    checks: frozenset[str] = SAFETY
    heal_every: int = 1  # Liveness is checked in every such state.
    forgets: bool = False  # A crash makes a node forget its commit index.
    attended: bool = False  # A backup is restored while all nodes run, and none crashes afterwards.
    same_life: bool = False  # A directory may be rolled back within one life.
    progress: bool = False  # Leaders note what is committed, and no directory is rolled back before they have.
    lost: int = 0  # Nodes that never start again.

    def allows(self, state: State, kind: str) -> bool:
        """True if a step of this kind may be taken once more."""
        at = POSITION[kind]
        return state.spent[at] < self.limits[at]


def limits(**counts: int) -> tuple[int, ...]:
    """The limits of every kind; those not named are 0."""
    unknown = set(counts) - set(KINDS)
    assert not unknown, unknown
    return tuple(counts.get(kind, 0) for kind in KINDS)


def breaks(state: State, bounds: Bounds, invariant: str, sentence: str) -> State:
    """The state, with the invariant marked as broken if the run checks it."""
    if state.broken or invariant not in bounds.checks:
        return state
    return state._replace(broken=f"{invariant}: {sentence}")


def spend(state: State, kind: str) -> State:
    """The state after one more step of this kind."""
    at = POSITION[kind]
    spent = state.spent
    return state._replace(spent=(*spent[:at], spent[at] + 1, *spent[at + 1 :]))
