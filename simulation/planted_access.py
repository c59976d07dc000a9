"""Planted bugs in permissions."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.waiting import Commit
from longhall.front.guard import AccessGuard
from longhall.service import accounts
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _revoked_and_remembered() -> _Replacements:
    good: Any = AccessGuard.directory_changed

    def directory_changed(self: Any, event: Any) -> None:
        if event.put:
            good(self, event)

    return [(AccessGuard, "directory_changed", directory_changed)]


def _rule_before_its_commit() -> _Replacements:
    async def commit(hall: Any, event: Any) -> None:
        hall.append_catalogue(event, Commit())

    return [(accounts, "commit_event", commit)]


ACCESS_BUGS: Final[dict[str, Bug]] = {
    "revoked-and-remembered": Bug(
        "A node goes on to decide by a rule that was revoked.", "cluster-access", 3, _revoked_and_remembered
    ),
    "rule-before-its-commit": Bug(
        "A change of access rules is acknowledged before it is committed.", "cluster-access", 8, _rule_before_its_commit
    ),
}
