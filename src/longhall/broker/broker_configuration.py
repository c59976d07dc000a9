"""Broker configurations that change while nodes run, by Kafka's names: the table, and their effect on the options.

The catalogue stores them as text, for all brokers (the empty name) and for single ones (their number). A value of one
broker precedes the value of all, and both precede the settings with which a node started. Most of them are the defaults
of topic configurations, so a topic that has its own value does not notice. This module does not know who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from longhall.broker.configuration import INT, LONG, QUOTA_BYTES, QUOTA_MESSAGES, SETTINGS, check_values, number
from longhall.broker.options import HallOptions

ALL_BROKERS: Final = ""
CONNECTIONS: Final = "max.connections"
CONNECTIONS_PER_ADDRESS: Final = "max.connections.per.ip"
BROKERS_MAX: Final = 1_000  # Brokers with configurations of their own.

_LONG_MAX: Final = (1 << 63) - 1

BrokerValues = Mapping[str, Mapping[str, str]]  # By broker, the empty name for all, and by name.


class DynamicSetting(NamedTuple):
    """One row of the table: the default of a topic configuration, an option of the hall, a limit of the node, or
    nothing: tools set and remove some of Kafka's configurations without being asked, and these only have to be kept.
    """

    kind: int
    check: Callable[[str], None]
    meaning: str
    topic: str = ""  # The topic configuration whose default this is.
    option: str = ""  # The field of `HallOptions`.


def _default_of(topic: str) -> DynamicSetting:
    setting = SETTINGS[topic]
    return DynamicSetting(setting.kind, setting.check, f"The default of {topic}. {setting.meaning}", topic=topic)


DYNAMIC: Final[dict[str, DynamicSetting]] = {
    "message.max.bytes": _default_of("max.message.bytes"),
    "min.insync.replicas": _default_of("min.insync.replicas"),
    "log.retention.ms": _default_of("retention.ms"),
    "log.retention.bytes": _default_of("retention.bytes"),
    "log.segment.bytes": _default_of("segment.bytes"),
    "log.roll.ms": _default_of("segment.ms"),
    "log.roll.jitter.ms": _default_of("segment.jitter.ms"),
    "log.message.timestamp.before.max.ms": _default_of("message.timestamp.before.max.ms"),
    "log.message.timestamp.after.max.ms": _default_of("message.timestamp.after.max.ms"),
    "log.cleaner.delete.retention.ms": _default_of("delete.retention.ms"),
    "log.cleaner.min.cleanable.ratio": _default_of("min.cleanable.dirty.ratio"),
    "log.cleaner.min.compaction.lag.ms": _default_of("min.compaction.lag.ms"),
    "log.cleaner.max.compaction.lag.ms": _default_of("max.compaction.lag.ms"),
    "longhall.durability": _default_of("longhall.durability"),
    QUOTA_BYTES: _default_of(QUOTA_BYTES),
    QUOTA_MESSAGES: _default_of(QUOTA_MESSAGES),
    "log.cleaner.backoff.ms": DynamicSetting(
        LONG,
        number(10, _LONG_MAX),
        "How often retention and compaction look for work.",
        option="cleaner_interval_ms",
    ),
    "producer.id.expiration.ms": DynamicSetting(
        INT,
        number(1, _LONG_MAX),
        "An idempotent producer that is silent for this long is forgotten.",
        option="producer_expiry_ms",
    ),
    CONNECTIONS: DynamicSetting(INT, number(1, 1_000_000), "Open connections of each door, all clients together."),
    CONNECTIONS_PER_ADDRESS: DynamicSetting(
        INT, number(1, 1_000_000), "Open connections of each door from one address."
    ),
    **{
        name: DynamicSetting(
            LONG, number(1, _LONG_MAX), "No effect: the leader of a replication group throttles catch-up by itself."
        )
        for name in (
            "leader.replication.throttled.rate",
            "follower.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        )
    },
    "sasl.kerberos.min.time.before.relogin": DynamicSetting(
        LONG, number(0, _LONG_MAX), "No effect: there are no logins by Kerberos."
    ),
}
# Dynamic in Kafka, but not here: a default for all topics would change the logs of queues too.
ONLY_FOR_TOPICS: Final = frozenset({"log.cleanup.policy", "compression.type", "log.message.timestamp.type"})
NAME_OF_DEFAULT: Final = {setting.topic: name for name, setting in DYNAMIC.items() if setting.topic}


def check(configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for invalid values, and for names that are not in the table."""
    check_values("broker", {name: setting.check for name, setting in DYNAMIC.items()}, configuration)


def values_of(brokers: BrokerValues, broker: int) -> dict[str, str]:
    """The values that hold for one broker. Unknown names of a newer version are ignored."""
    values = {**brokers.get(ALL_BROKERS, {}), **brokers.get(str(broker), {})}
    return {name: value for name, value in values.items() if name in DYNAMIC}


def options_with(options: HallOptions, values: Mapping[str, str]) -> HallOptions:
    """The options of a hall with these values in place of what the node was started with."""
    fields: dict[str, int] = {}
    topic_defaults: dict[str, str] = {}
    for name, value in values.items():
        setting = DYNAMIC[name]
        if setting.topic:
            topic_defaults[setting.topic] = value
        elif setting.option:
            fields[setting.option] = int(value)
    return msgspec.structs.replace(options, topic_defaults=topic_defaults, **fields)
