"""What is left of the acknowledged messages on the disks of a cluster, whether anybody serves it or not.

It looks for the names of messages in the bytes of all files, so it needs messages that are not compressed. A copy that
was set aside counts: it is there for whoever needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

from simulation.checkers.log import LogOracle
from simulation.checkers.violation import demand
from simulation.world import Host

NAME: Final = re.compile(rb"(?:plain|idempotent|transactional)-\d+/\d+/\d+(?=:)")


@final
class SurvivingMessages:
    """See the module."""

    def __init__(self, log: LogOracle, hosts: list[Host]) -> None:
        self._log = log
        self._hosts = hosts

    def check(self) -> None:
        """Everything that was acknowledged is on at least one disk."""
        lost = self._lost()
        demand(not lost, f"acknowledged messages are on no disk of the cluster: {self.story()}")

    def story(self) -> str:
        """How much of it is where, and what was lost."""
        wanted = set(self._log.acknowledged_names())
        found = [f"{host.name} has {len(wanted & names_on(host))}" for host in self._hosts]
        lost = sorted(self._lost())
        examples = ", ".join(name.decode() for name in lost[:5])
        return f"{len(wanted)} acknowledged, {', '.join(found)}, {len(lost)} lost" + (f": {examples}" if lost else "")

    def _lost(self) -> set[bytes]:
        lost = set(self._log.acknowledged_names())
        for host in self._hosts:
            if lost:
                lost -= names_on(host)
        return lost


def names_on(host: Host) -> set[bytes]:
    """The messages whose bytes are in any file of a host, its page cache included."""
    return _names(bytes(inode.content) for _, inode in host.platter.inodes())


def _names(contents: Iterable[bytes]) -> set[bytes]:
    return {name for content in contents for name in NAME.findall(content)}
