"""The acknowledged messages that are still on the disks of a cluster, served or not.

The check searches the bytes of all files for the names of messages, so the messages must not be compressed. A copy that
a full sync has set aside counts as surviving.
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
    """Compares the acknowledged messages of a log with the files of all hosts."""

    def __init__(self, log: LogOracle, hosts: list[Host]) -> None:
        self._log = log
        self._hosts = hosts

    def check(self) -> None:
        """Every acknowledged message is on at least one disk."""
        lost = self._lost()
        demand(not lost, f"acknowledged messages are on no disk of the cluster: {self.story()}")

    def story(self) -> str:
        """How many messages each host has, and which are lost."""
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
    """The messages whose bytes are in a file of the host, page cache included."""
    return _names(bytes(inode.content) for _, inode in host.platter.inodes())


def _names(contents: Iterable[bytes]) -> set[bytes]:
    return {name for content in contents for name in NAME.findall(content)}
