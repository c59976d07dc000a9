"""The data directory at the start of a node: whose it is, and what its recovery has found."""

from __future__ import annotations

import logging

from longhall.broker.hall import Hall
from longhall.broker.recovery import Identity, identify, read_identity
from longhall.broker.replay import Recovered
from longhall.errors import Code, LonghallError
from longhall.node.room_settings import options_of
from longhall.node.settings import Settings
from longhall.world.ports import World

_log = logging.getLogger("longhall.node")


def tell_recovery(hall: Hall, report: Recovered) -> None:
    """Log the damage that recovery found in the write-ahead log."""
    for damage in report.damage:
        _log.error(
            "a part of the write-ahead log is damaged; run longhall doctor",
            extra={"position": damage.position, "next_position": damage.next_position},
        )
    for position in report.corrected:
        _log.error("a flipped bit of the write-ahead log was corrected", extra={"position": position})
    if report.cut_bytes:
        _log.warning(
            "the end of the write-ahead log was incomplete and was cut: a write that was not acknowledged, or damage "
            "within a second of the last write",
            extra={"position": report.end, "bytes": report.cut_bytes},
        )
    hall.log_cut_bytes = report.cut_bytes
    hall.log_corrections = len(report.corrected)


def identity_of_lone_node(world: World, settings: Settings) -> Identity:
    """The identity of the directory of a node without a cluster, which is made with the first start."""
    identity = identify(world.disk, world.entropy, options_of(settings))
    if identity.member:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"{settings.data} belongs to a cluster: name its ZooKeeper with --coordinator",
        )
    return identity


def identity_of_leader(world: World, settings: Settings) -> Identity:
    """The identity of the directory for a worker, which never makes one."""
    identity = read_identity(world.disk)
    if identity is None:
        raise LonghallError(Code.NOT_READY, f"{settings.data} has no data yet")
    return identity
