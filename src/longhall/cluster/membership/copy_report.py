"""The report of a node on its copy of the log, for other nodes. A node that is fenced answers too.

A rebuilt record is proven from reports (`record_proof`), and an operator is shown them (`longhall cluster recover`).
A node asks for one to find out whether another node is alive, because a session may outlive its node.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from longhall.broker.events import ReplicasNoted, shard_decoder
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import ReplicationGroup
from longhall.errors import LonghallError
from longhall.log.frames import CONTINUED, CONTINUES, EVENT
from longhall.shards.replica import Replica
from longhall.shards.shard import SHARD

REPORT: Final = "copy-report"
PROMISE: Final = "recovery-promise"
ANSWER_S: Final = 1.0

_log = logging.getLogger("longhall.recovery")

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
NOTHING: Final = "nothing"  # It is no replica, or has no leader to follow.
HALTED: Final = "halted"  # It is fenced: its copy contradicts the record, or there is no record.


class LeaderReport(msgspec.Struct, frozen=True, kw_only=True):
    """The in-sync set, which only a leader knows. `asked` is a set that the coordinator may have recorded already."""

    epoch: int
    in_sync: list[int]
    asked: list[int] = []


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node, its role, and the end of its log. `epochs` are pairs of number and first index."""

    node: int
    role: str = NOTHING
    reason: str = ""  # Why it is halted.
    intact: bool = True  # False if the directory is new, damaged or an older copy of itself: it proves nothing.
    epoch: int = 0  # Of the last entry.
    epoch_known: int = 0  # The newest epoch that the node was given, has promised or has written.
    index: int = 0
    committed: int = 0  # At least.
    epochs: list[tuple[int, int]] = []
    nonces: dict[int, int] = {}
    replicas: list[int] = []  # The replicas by the notes in the log, uncommitted notes included.
    leading: LeaderReport | None = None
    level: int = 1
    rebuilt: int = 0  # Of the last record that the node has seen,
    revision: int = -1  # and its revision.
    drains: list[int] = []
    wings: list[ReplicationGroup] = []


def encode_report(report: CopyReport) -> bytes:
    return msgspec.msgpack.encode(report)


def decode_report(body: bytes) -> CopyReport:
    """Decode a report. msgspec.DecodeError if it is none, which counts as no answer."""
    return msgspec.msgpack.decode(body, type=CopyReport)


async def ask_report(peers: Peers, node: int, timeout_s: float = ANSWER_S) -> CopyReport | None:
    """The report of a node; None if it does not answer."""
    try:
        return decode_report(await peers.request(node, REPORT, b"", timeout_s))
    except (OSError, TimeoutError, LonghallError, msgspec.DecodeError) as error:
        _log.debug("a node does not report its copy", extra={"node": node, "reason": str(error)})
        return None


def noted_replicas(replica: Replica) -> frozenset[int]:
    """Every node that the log notes as a replica, in applied and in uncommitted entries."""
    found = set(replica.replicas)
    for entry, _ in replica.pending:
        if entry.kind == EVENT and entry.room() == SHARD and not entry.flags & (CONTINUED | CONTINUES):
            event = shard_decoder.decode(entry.event())
            if isinstance(event, ReplicasNoted):
                found.update(event.replicas)
    return frozenset(found)
