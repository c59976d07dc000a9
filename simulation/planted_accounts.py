"""Planted bugs in the directory of users."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.waiting import Commit
from longhall.directory.directory import Directory
from longhall.service import accounts
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _account_before_its_commit() -> _Replacements:
    async def commit(hall: Any, event: Any) -> None:
        hall.append_catalogue(event, Commit())

    return [(accounts, "commit_event", commit)]


def _snapshot_without_removals() -> _Replacements:
    """A snapshot has the entries of the last one, and those that were put since; a restart brings back what is gone."""
    kept: dict[int, dict[tuple[str, str], bytes]] = {}
    good: Any = Directory.snapshot

    def snapshot(self: Any) -> list[Any]:
        version, rows = good(self)
        known = kept.setdefault(id(self), {})
        known.update({(kind, name): value for kind, name, value in rows})
        return [version, [[kind, name, value] for (kind, name), value in sorted(known.items())]]

    return [(Directory, "snapshot", snapshot)]


ACCOUNT_BUGS: Final[dict[str, Bug]] = {
    "account-before-its-commit": Bug(
        "The change of a user is acknowledged before it is committed.",
        "cluster-accounts",
        6,
        _account_before_its_commit,
    ),
    "snapshot-without-removals": Bug(
        "The snapshot of the directory has users that were removed.",
        "cluster-accounts",
        6,
        _snapshot_without_removals,
    ),
}
