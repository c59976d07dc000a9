"""What a run of the model may do: the rules that are in force, and how often each costly step is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from model.state import State

RULES: Final[Mapping[str, str]] = {
    "R1": "a leader asks for a new in-sync member only when a note that has it is committed",
    "R2": "a record is created only by proof that the most complete log is at hand",
    "R3": "a replica with a higher epoch than the record's neither follows nor leads under it",
    "R4": "a follower never discards what it knows to be committed",
    "R5": "a leader that lacks committed entries of an in-sync follower gives way",
    "R7": "the most complete of those who answer is elected, and enough must answer",
    "R8": "a leader that answers is not replaced",
    "R9": "after an unclean stop a node leaves the in-sync set only if another in-sync member answers",
    "R10": "a directory that is older than the coordinator remembers leaves the in-sync set",
    "R11": "a replica remembers the newest record that it has heard of, and takes an older one for stale",
    "R12": "nobody is elected while a registered node calls the record stale",
    "R13": "who answers a proof promises to take nothing of older leaders; a leader among them gives way",
}

# Steps that are taken a bounded number of times. Everything else is free.
KINDS: Final = (
    "write",  # a client's message
    "remove",  # a leader takes a follower out of the in-sync set
    "drop",  # the manager takes a node without a session out of the in-sync set
    "move",  # the manager adds or removes a replica
    "crash",
    "stop",  # a node is lost in such a way that it restarts with everything: its session goes on for a while
    "session",  # the session of a live node ends
    "whim",  # the manager deposes a leader that lives, is registered and answers
    "transfer",
    "lose",  # the coordinator's data
    "restore",  # a backup of the coordinator's data
    "wipe",  # a directory is lost
    "rollback",  # a directory becomes an older copy of itself
)
POSITION: Final = {kind: at for at, kind in enumerate(KINDS)}


class Bounds(NamedTuple):
    """What may happen in one run."""

    rules: frozenset[str]
    limits: tuple[int, ...]
    epoch_max: int
    forgets: bool = False  # A crash may make a node forget how much of its log is committed.
    heal_every: int = 1  # Liveness is checked in every such state.
    checks: frozenset[str] = frozenset({"I1", "I2", "I3", "I4"})

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
