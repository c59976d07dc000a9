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


def _snapshot_of_the_time_before() -> _Replacements:
    """A snapshot has the entries of the snapshot before it: what changed in between is not in the log any more."""
    kept: dict[int, list[Any]] = {}
    good: Any = Directory.snapshot

    def snapshot(self: Any) -> list[Any]:
        version, rows = good(self)
        before = kept.get(id(self), [])
        kept[id(self)] = rows
        return [version, before]

    return [(Directory, "snapshot", snapshot)]


ACCOUNT_BUGS: Final[dict[str, Bug]] = {
    "account-before-its-commit": Bug(
        "The change of a user is acknowledged before it is committed.",
        "cluster-accounts",
        6,
        _account_before_its_commit,
    ),
    "directory-of-the-time-before": Bug(
        "The snapshot of the directory is older than the position that it is for.",
        "cluster-accounts",
        6,
        _snapshot_of_the_time_before,
    ),
}
