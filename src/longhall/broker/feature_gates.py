"""Feature gates: what may be written at which feature level.

    level 1   what the first release with clusters writes and understands
    level 2   a batch may span several entries of the log (up to 64 MiB in a cluster, instead of 4); topics and queues
              may be acknowledged by one host or by a quorum, because elections choose the most complete replica; queues
              grow and shrink, and FIFO groups have marks; directories have format 2
    level 3   topics and queues may be placed in wings
    level 4   the log notes its replicas, and replicas compare digests of their state at marks in it, so that a lost
              coordinator can be rebuilt from the logs and a divergent replica is found; the receipt secret is not
              in the coordinator any more, and a node that joins asks a member for it
    level 5   the catalogue has exchanges, bindings, virtual hosts and policies, and queues have the settings of AMQP;
              consumer groups may have server-side assignment, and groups may have settings; queues deduplicate
              the records of Kafka producers; a purge empties the deduplication window; queues have profiles, places
              for late messages, exactly-once delivery, retries of lapsed leases and of sends, several delivery windows
              with a time zone, and letters after their deletion
    level 6   transactions have partitions of several replication groups, and their coordinator writes markers there;
              groups have outboxes, and queues remember what arrived from those of other groups;
              broker configurations change at run time
    level 7   the catalogue has the directory: tenants, users, access keys, tokens, and what else is kept beside them;
              queues and topics may be sealed: records have seals, batches have the bit that says so, and topics have
              data keys in their configuration; queues in one replication group may have an audit
    level 8   topics in replication groups may have several queues: forks, and queues over topics; retry topics are in
              the groups of their queues; topics in groups may have to be archived; the log has notes of usage;
              partitions may move between replication groups: topics have move records
    level 9   queues in replication groups move, grow, and take part in transactions; segments of quiet partitions are
              closed by an event; nodes may have the roles metadata and storage; users may be dormant; the hall
              reserves blocks of producer ids for other processes

Reads are never gated: a version reads all levels up to its newest. Writes are gated by `Hall.feature_level`, which is
raised only when every node of the cluster can read the new formats, and never decreases. A standalone node stays at
level 1, so that an older version can open its directory, unless one of its queues has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longhall.broker.configuration import ACKNOWLEDGE, IN_THE_HALL, PLACEMENT, UNPLACED
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings

OLDEST: Final = 1
NEWEST: Final = 9
WORDS: Final = {
    1: "the formats of the first release with clusters",
    2: "batches up to 64 MiB in a cluster; acknowledgement by one host or by a quorum; queues that grow and shrink",
    3: "queues and topics in wings, with leaders of their own",
    4: "the log notes its replicas, and replicas compare digests of their state",
    5: "exchanges and bindings, and the queues of AMQP; consumer groups with server-side assignment; deduplication of "
    "records by queues; profiles, late messages, exactly-once delivery and time zones of queues",
    6: "transactions over several replication groups; messages that move between them: dead letters, answers, moves; "
    "broker configurations that change at run time",
    7: "the directory of tenants, users, access keys and tokens; sealed queues and topics; audits of queues in a "
    "replication group",
    8: "forks, queues over topics, and topics that must be archived, in replication groups; usage in the log; "
    "partitions that move between replication groups",
    9: "queues in replication groups that move, grow and take part in transactions; nodes that store wings alone",
}
MAP_LEVEL: Final = 2  # Maps of partitions, and marks.
WINGS_LEVEL: Final = 3  # Placements other than in the hall itself.
RECEIPT_SECRET_LEVEL: Final = 4  # The coordinator's record has the digest of the receipt secret alone.
REPLICAS_LEVEL: Final = 4  # The log notes its replicas, and marks at which they compare their state.
EXCHANGES_LEVEL: Final = 5  # Exchanges in the catalogue, and AMQP's settings of queues.
BROKERS_LEVEL: Final = 6  # Broker configurations in the catalogue.
CONSUMER_GROUPS_LEVEL: Final = 5  # Groups with server-side assignment, and settings of groups.
DELETED_LEVEL: Final = 5  # The dead-letter queues of deleted queues in the catalogue.
PRODUCED_LEVEL: Final = 5  # The deduplication window has ids of Kafka producers, with the times of the hall.
QUEUE_RULES_LEVEL: Final = 5  # Settings of queues that the version before does not know, or does not enforce.
FORGET_LEVEL: Final = 5  # Purges that empty the deduplication window.
TRANSACTIONS_LEVEL: Final = 6  # Partitions of other replication groups in transactions.
DIRECTORY_LEVEL: Final = 7  # Entries of the directory in the catalogue.
OUTBOX_LEVEL: Final = 6  # Messages between replication groups.
SEALED_LEVEL: Final = 7  # Sealed queues and topics.
GROUP_AUDITS_LEVEL: Final = 7  # Audits of queues in other replication groups.
GROUP_QUEUES_LEVEL: Final = 8  # Several queues over one topic in other replication groups.
USAGE_LEVEL: Final = 8  # Notes of usage in the log.
MOVES_LEVEL: Final = 8  # Move records of topics, and the events of copies.
GROUP_SETTLES_LEVEL: Final = 9  # Transactions that settle messages of queues in other replication groups.
SEGMENT_CLOSED_LEVEL: Final = 9  # The event that closes an active segment.
TENANT_SEALING_LEVEL: Final = 9  # Tenants whose queues and topics are sealed without further word.
ENDED_SESSIONS_LEVEL: Final = 9  # Sessions of browsers that have logged out, in the directory.
DORMANT_USERS_LEVEL: Final = 9  # Users because of whom no door asks for logins: an older node would ask.
GROUP_GROWTH_LEVEL: Final = 9  # Queues that grow in other replication groups.
SPREAD_LEVEL: Final = 9  # Queues that AMQP declared are spread by default.
ROLES_LEVEL: Final = 9  # Nodes that never get a replica of the hall although they store wings.
PRODUCER_IDS_LEVEL: Final = 9  # Blocks of producer ids that the leader of the hall reserves for other processes.
QUEUE_MOVES_LEVEL: Final = 9  # Queues, and compacted topics, that move between replication groups.
ACKNOWLEDGE_LEVEL: Final = 2  # Weaker acknowledgements, and elections that account for them.


def check_exchanges(hall: Hall) -> None:
    """Raises NOT_READY for exchanges, and queues of AMQP, below their feature level."""
    if hall.replica is not None and hall.feature_level < EXCHANGES_LEVEL:
        raise _too_low(hall, Code.NOT_READY, "exchanges need", EXCHANGES_LEVEL)


def check_directory(hall: Hall) -> None:
    """Raises NOT_READY for changes of the directory below its feature level."""
    if hall.replica is not None and hall.feature_level < DIRECTORY_LEVEL:
        raise _too_low(hall, Code.NOT_READY, "the directory of users needs", DIRECTORY_LEVEL)


def check_broker_configuration(hall: Hall) -> None:
    """Raises INVALID_REQUEST for changes of broker configurations below their feature level."""
    if not may_configure_brokers(hall):
        raise _too_low(hall, Code.INVALID_REQUEST, "broker configurations need", BROKERS_LEVEL)


def may_configure_brokers(hall: Hall) -> bool:
    """True if the catalogue may have broker configurations."""
    return hall.replica is None or hall.feature_level >= BROKERS_LEVEL


def check_sealed(hall: Hall) -> None:
    """Raises INVALID_CONFIGURATION for sealed queues and topics below their feature level: an older leader would take
    clear text for them.
    """
    if hall.replica is not None and hall.feature_level < SEALED_LEVEL:
        raise _too_low(hall, Code.INVALID_CONFIGURATION, "sealed queues and topics need", SEALED_LEVEL)


def check_tenant_sealing(hall: Hall) -> None:
    """Raises NOT_READY for a tenant's master key below its feature level: an older node creates queues in clear."""
    if hall.replica is not None and hall.feature_level < TENANT_SEALING_LEVEL:
        raise _too_low(hall, Code.NOT_READY, "sealing by default needs", TENANT_SEALING_LEVEL)


def may_keep_dormant_users(hall: Hall) -> bool:
    """True if the directory may have dormant users."""
    return hall.replica is None or hall.feature_level >= DORMANT_USERS_LEVEL


def may_end_sessions(hall: Hall) -> bool:
    """True if the directory may have sessions that were ended."""
    return hall.replica is None or hall.feature_level >= ENDED_SESSIONS_LEVEL


def check_group_audits(hall: Hall) -> None:
    """Raises INVALID_CONFIGURATION for audits in other groups below their feature level: a group of the version before
    would create an audit topic of its own.
    """
    if hall.replica is not None and hall.feature_level < GROUP_AUDITS_LEVEL:
        raise _too_low(hall, Code.INVALID_CONFIGURATION, "audits of queues in groups need", GROUP_AUDITS_LEVEL)


def check_group_queues(hall: Hall) -> None:
    """Raises INVALID_CONFIGURATION for queues over a topic in other groups below their feature level: a group of the
    version before would not store them.
    """
    if hall.replica is not None and hall.feature_level < GROUP_QUEUES_LEVEL:
        raise _too_low(
            hall, Code.INVALID_CONFIGURATION, "forks and queues over topics in groups need", GROUP_QUEUES_LEVEL
        )


def check_group_archives(hall: Hall) -> None:
    """Raises INVALID_CONFIGURATION for topics in other groups that must be archived below their feature level: a group
    of the version before is not told the progress of the archive, and keeps all messages.
    """
    if hall.replica is not None and hall.feature_level < GROUP_QUEUES_LEVEL:
        raise _too_low(hall, Code.INVALID_CONFIGURATION, "archived topics in groups need", GROUP_QUEUES_LEVEL)


def check_group_growth(hall: Hall) -> None:
    """Raises INVALID_CONFIGURATION for queues that grow in other groups below their feature level: a group of the
    version before has no parts that it is told to open.
    """
    if not may_grow_in_groups(hall):
        raise _too_low(hall, Code.INVALID_CONFIGURATION, "queues that grow in groups need", GROUP_GROWTH_LEVEL)


def may_grow_in_groups(hall: Hall) -> bool:
    """True if every group changes the parts of its queues as the leader of the hall says."""
    return hall.replica is None or hall.feature_level >= GROUP_GROWTH_LEVEL


def may_place_retries(hall: Hall) -> bool:
    """True if retry topics are in the groups of their queues; a group of the version before creates its own."""
    return hall.replica is None or hall.feature_level >= GROUP_QUEUES_LEVEL


def check_queue(hall: Hall, settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION for settings of a queue above the feature level: an older leader would ignore
    them, so a queue would lose its rules with the next election.
    """
    if hall.replica is None or hall.options.wing or hall.feature_level >= QUEUE_RULES_LEVEL:
        return  # The main hall has checked the queue of a wing.
    newer = newer_settings(settings)
    if newer:
        raise _too_low(hall, Code.INVALID_CONFIGURATION, f"{', '.join(newer)} of a queue need", QUEUE_RULES_LEVEL)


def newer_settings(settings: QueueSettings) -> list[str]:
    """The settings, other than by default, that a leader below `QUEUE_RULES_LEVEL` would ignore."""
    letters, retry, hours = settings.dead_letters, settings.retry, settings.hours
    used = {
        "late_stamped": settings.late_stamped != "arrival",
        "profile": settings.profile != "balanced",
        "delivery=exactly-once": settings.delivery == "exactly-once",
        "dead_letters.after_delete": letters is not None and letters.after_delete,
        "retry.lapsed": retry is not None and retry.lapsed,
        "retry.sends": retry is not None and retry.sends,
        "hours.also": hours is not None and bool(hours.also),
        "hours.zone": hours is not None and hours.zone != "UTC",
    }
    return [name for name, is_used in used.items() if is_used]


def check_consumer_groups(hall: Hall) -> None:
    """Raises UNSUPPORTED_VERSION for groups with server-side assignment below their feature level."""
    if hall.replica is not None and hall.feature_level < CONSUMER_GROUPS_LEVEL:
        raise _too_low(hall, Code.UNSUPPORTED_VERSION, "the consumer group protocol needs", CONSUMER_GROUPS_LEVEL)


def may_forget_sends(hall: Hall) -> bool:
    """True if a purge may empty the deduplication window."""
    return hall.replica is None or hall.feature_level >= FORGET_LEVEL


def may_use_outbox(hall: Hall) -> bool:
    """True if messages may go to queues of other groups, and come from there."""
    return hall.replica is None or hall.feature_level >= OUTBOX_LEVEL


def check_outbox(hall: Hall) -> None:
    """Raises NOT_READY for messages of other groups below their feature level."""
    if not may_use_outbox(hall):
        raise _too_low(hall, Code.NOT_READY, "messages between replication groups need", OUTBOX_LEVEL)


def check_moves(hall: Hall) -> None:
    """Raises NOT_READY for moves of partitions below their feature level."""
    if hall.replica is not None and hall.feature_level < MOVES_LEVEL:
        raise _too_low(hall, Code.NOT_READY, "moves of partitions need", MOVES_LEVEL)


def check_queue_moves(hall: Hall) -> None:
    """Raises NOT_READY for moves of queues and compacted topics below their feature level."""
    if hall.replica is not None and hall.feature_level < QUEUE_MOVES_LEVEL:
        raise _too_low(hall, Code.NOT_READY, "moves of queues need", QUEUE_MOVES_LEVEL)


def may_map(hall: Hall) -> bool:
    """True if the parts of a queue may change, and marks may be written."""
    return hall.replica is None or hall.feature_level >= MAP_LEVEL


def may_note_deleted(hall: Hall) -> bool:
    """True if the catalogue may remember the dead-letter queue of a deleted queue."""
    return hall.replica is None or hall.feature_level >= DELETED_LEVEL


def may_transact_in_groups(hall: Hall) -> bool:
    """True if every node that may coordinate a transaction writes markers to partitions of other groups."""
    return hall.replica is None or hall.feature_level >= TRANSACTIONS_LEVEL


def may_settle_in_groups(hall: Hall) -> bool:
    """True if every node that may coordinate a transaction tells its outcome to the groups of settled queues, and every
    replica of such a group keeps what is held for it.
    """
    return hall.replica is None or hall.feature_level >= GROUP_SETTLES_LEVEL


def may_reserve_producer_ids(hall: Hall) -> bool:
    """True if every leader of the hall reserves blocks of producer ids for other processes."""
    return hall.replica is None or hall.feature_level >= PRODUCER_IDS_LEVEL


def may_remember_produced(hall: Hall) -> bool:
    """True if replicas agree on the deduplication window when it has ids of Kafka producers."""
    return hall.replica is None or hall.feature_level >= PRODUCED_LEVEL


def may_note_usage(hall: Hall) -> bool:
    """True if every replica keeps the usage that is noted in the log."""
    return hall.replica is None or hall.feature_level >= USAGE_LEVEL


def may_close_segments(hall: Hall) -> bool:
    """True if every replica closes the active segment of a partition when the log says so."""
    return hall.replica is None or hall.feature_level >= SEGMENT_CLOSED_LEVEL


def check_topic(hall: Hall, configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for settings above the feature level."""
    check_acknowledge(hall, configuration.get(ACKNOWLEDGE, "all"))
    check_placement(hall, configuration.get(PLACEMENT, IN_THE_HALL))


def check_acknowledge(hall: Hall, whom: str) -> None:
    """Raises INVALID_CONFIGURATION for weaker acknowledgements below their feature level."""
    if whom != "all" and hall.replica is not None and hall.feature_level < ACKNOWLEDGE_LEVEL:
        raise _too_low(hall, Code.INVALID_CONFIGURATION, f"{ACKNOWLEDGE}={whom} needs", ACKNOWLEDGE_LEVEL)


def check_placement(hall: Hall, placement: str) -> None:
    """Raises INVALID_CONFIGURATION for wings on a standalone node, or below their feature level."""
    if placement in (UNPLACED, IN_THE_HALL) or hall.options.wing:
        return
    if hall.wings is None:
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"{PLACEMENT}={placement} is for clusters: this node is standalone."
        )
    if hall.feature_level < WINGS_LEVEL:
        raise _too_low(hall, Code.INVALID_CONFIGURATION, f"{PLACEMENT}={placement} needs", WINGS_LEVEL)


def _too_low(hall: Hall, code: Code, what: str, level: int) -> LonghallError:
    """The error for what needs a higher level; `what` ends with the verb."""
    group = "this group" if hall.options.wing else "the cluster"
    return LonghallError(
        code,
        f"{what} feature level {level}, and {group} is at level {hall.feature_level}: raise it with "
        "`longhall cluster upgrade` when every node has the new version",
    )
