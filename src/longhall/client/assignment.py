"""Assignment of partitions to the members of a group: by range, topic by topic, as Kafka's range assignor does."""

from __future__ import annotations

from longhall.client.groups import Place


def assign_by_range(subscriptions: dict[str, list[str]], partition_counts: dict[str, int]) -> dict[str, list[Place]]:
    """Give each member neighbouring partitions of every topic that it subscribes to, in the order of ids; the first get
    one more.
    """
    assigned: dict[str, list[Place]] = {member: [] for member in sorted(subscriptions)}
    for topic in sorted(partition_counts):
        members = [member for member in assigned if topic in subscriptions[member]]
        if not members:
            continue
        each, more = divmod(partition_counts[topic], len(members))
        first = 0
        for index, member in enumerate(members):
            size = each + (1 if index < more else 0)
            assigned[member] += [(topic, partition) for partition in range(first, first + size)]
            first += size
    return assigned
