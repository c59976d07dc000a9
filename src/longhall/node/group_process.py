"""The process of a wing on one host. The host's main process has it started (`fork_server`) and writes its orders to
its standard input.

It is a complete node of another replication group, with its own directory, record and replicas. It ends when the main
process ends, for whatever reason, so that the processes of a host live and die together.
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
from longhall.world.real.process_name import name_process

PROGRAM: Final = "longhall.node.group_process"
PROCESS_NAME: Final = "wing:"  # Followed by the name of the wing.
DIRECTORY: Final = "wings"
LOCAL: Final = "127.0.0.1:0"  # For doors that only the main process uses.
PARTITIONS_APART: Final = 1 << 24  # Per wing, so that partition numbers and message ids of two wings differ.


class WingOrders(msgspec.Struct, kw_only=True, frozen=True):
    """The start parameters of a wing process."""

    wing: ReplicationGroup
    settings: Settings


def settings_of(settings: Settings, wing: ReplicationGroup, node: int, level: int) -> Settings:
    """The settings of a wing process: those of the host, with other addresses and another directory. The wing raises
    its feature level by itself, but never above that of the main hall.
    """
    advertised = parse_address(settings.advertised_kafka) if settings.advertised_kafka is not None else None
    return msgspec.structs.replace(
        settings,
        data=os.path.join(settings.data, DIRECTORY, wing.name),
        kafka=str(Address(parse_address(settings.kafka).host, 0)),
        advertised_kafka=str(Address(advertised.host, 0)) if advertised is not None else None,
        sqs=LOCAL,
        amqp=LOCAL,
        stomp=LOCAL,
        stomp_websocket=LOCAL,
        management=LOCAL,
        prometheus=LOCAL,
        http=LOCAL,
        peers=str(Address(parse_address(settings.peers).host, 0)),
        ready_file=None,
        agent_check=None,
        drain_delay_ms=0,
        node_id=node,
        role="all",
        auto_create_topics=False,
        scale_hook=None,
        feature_level_max=level,
        feature_level_automatic=True,
    )


def main() -> int:
    """Serve the wing until the main process stops it or ends."""
    from longhall.node.lifecycle import run

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # An interrupt at the terminal is for the main process.
    orders = read_start_parameters(WingOrders, "`longhall serve`")
    name_process(PROCESS_NAME + orders.wing.name)
    return run(orders.settings, wing=orders.wing)


if __name__ == "__main__":
    sys.exit(main())
