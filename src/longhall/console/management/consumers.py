"""Consumers as the management API has them, from the reports of all doors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longhall.broker.queues.consumers.session import SESSION_LEASE_MS
from longhall.console.management.sources import NodeReport
from longhall.doors.amqp.listing import ChannelView, ConnectionView, ConsumerView
from longhall.exchanges.names import names_of
from longhall.service.policy_operations import QueueState


def consumers_of(reports: list[NodeReport], states: Mapping[str, QueueState], queue: str = "") -> list[dict[str, Any]]:
    """All consumers, or those of one queue. `states` has the queues with a single active consumer, by name."""
    return [
        shown_consumer(report.facts.name, connection, channel, consumer, states.get(consumer.queue))
        for report in reports
        for connection in report.door.connections
        for channel in connection.channels
        for consumer in channel.consumers
        if not queue or consumer.queue == queue
    ]


def shown_consumer(
    node: str, connection: ConnectionView, channel: ChannelView, consumer: ConsumerView, state: QueueState | None
) -> dict[str, Any]:
    """One consumer. Of a queue with a single active consumer only one is active."""
    single = state is not None and state.active_session != ""
    chosen = (state.active_session, state.active_consumer) if state is not None else ("", 0)
    active = not single or chosen == (connection.session, consumer.key)
    host, name = names_of(consumer.queue)
    return {
        "consumer_tag": consumer.tag,
        "active": active,
        "activity_status": ("single_active" if active else "waiting") if single else "up",
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch,
        "exclusive": consumer.exclusive,
        "arguments": {"x-priority": consumer.priority} if consumer.priority else {},
        "consumer_timeout": SESSION_LEASE_MS,  # What a consumer holds comes back after this, or with its connection.
        "queue": {"name": name, "vhost": host},
        "channel_details": {
            "name": channel_name(connection, channel),
            "number": channel.number,
            "connection_name": connection.name,
            "node": node,
            "peer_host": connection.peer,
            "peer_port": connection.peer_port,
            "user": connection.user,
        },
    }


def channel_name(connection: ConnectionView, channel: ChannelView) -> str:
    """The name by which operators know a channel."""
    return f"{connection.name} ({channel.number})"
