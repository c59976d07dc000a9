"""The process of a wing on one host, as the host's main process starts it: its orders come first on standard input.

It is a node like any other, of a hall of its own: another directory, another record at the coordinator, other nodes
beside it. When the main process is gone, however it went, so is this one: a host is there as a whole or not at all.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import msgspec

from longhall.coordination.ports import ReplicationGroup
from longhall.node.addresses import Address, parse_address
from longhall.node.settings import Settings
from longhall.node.start_parameters import read_start_parameters

PROGRAM: Final = "longhall.node.group_process"
DIRECTORY: Final = "wings"
LOCAL: Final = "127.0.0.1:0"  # For doors that nobody but the main process has to find.
PARTITIONS_APART: Final = 1 << 24  # Numbers of partitions, and so ids of messages, are not those of another wing.


class WingOrders(msgspec.Struct, kw_only=True, frozen=True):
    """What such a process is told."""

    wing: ReplicationGroup
    settings: Settings


def settings_of(settings: Settings, wing: ReplicationGroup, node: int, level: int) -> Settings:
    """Those of a wing's process: everything of the host's but where it is. It raises its feature level by itself, but
    never above that of the hall.
    """
    advertised = parse_address(settings.advertised_kafka) if settings.advertised_kafka is not None else None
    return msgspec.structs.replace(
        settings,
        data=os.path.join(settings.data, DIRECTORY, wing.name),
        kafka=str(Address(parse_address(settings.kafka).host, 0)),
        advertised_kafka=str(Address(advertised.host, 0)) if advertised is not None else None,
        sqs=LOCAL,
        http=LOCAL,
        peers=str(Address(parse_address(settings.peers).host, 0)),
        ready_file=None,
        node_id=node,
        auto_create_topics=False,
        scale_hook=None,
        feature_level_max=level,
        feature_level_automatic=True,
    )


def main() -> int:
    """Serve the wing until the main process says that it is enough, or is gone."""
    from longhall.node.lifecycle import run

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # One at the terminal is for the main process, who stops us.
    orders = read_start_parameters(WingOrders, "`longhall serve`")
    return run(orders.settings, wing=orders.wing)


if __name__ == "__main__":
    sys.exit(main())
