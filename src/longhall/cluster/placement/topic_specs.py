"""What a replication group should store of a topic, from the catalogue of the main hall."""

from __future__ import annotations

import msgspec

from longhall.broker.catalogue import Topic
from longhall.broker.hall import Hall
from longhall.cluster.placement.placement_rules import configuration_in_wing, settings_in_wing
from longhall.cluster.placement.topic_operations import QueueSpec, TopicSpec


def spec_of(hall: Hall, topic: Topic) -> TopicSpec:
    """The topic with the queues on it, for each of its groups."""
    queues = hall.catalogue.queues
    owner = queues.by_name.get(topic.name)
    over = [
        QueueSpec(
            name=entry.name,
            queue_id=entry.queue_id,
            settings=settings_in_wing(entry.settings),
            starts=entry.starts,
        )
        for entry in queues.over_topic(topic.topic_id)
        if entry.settings.wings
    ]
    is_owned = owner is not None and owner.owns_topic and owner.topic_id == topic.topic_id
    return TopicSpec(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=len(topic.partitions),
        configuration=configuration_in_wing(topic.configuration, len(set(topic.options.wings))),
        queue=settings_in_wing(owner.settings) if owner is not None and is_owned else None,
        queues=over or msgspec.UNSET,
    )
