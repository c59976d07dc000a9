"""Topic placement: topics in wings are created, changed and deleted there too.

    default     without a placement, the rule of `default_placement` chooses the hall or wings that are led now
    create      the wings are chosen first and are part of the committed configuration
    commit      then the wings get the topic as it is in the main hall, and the call returns
    delete      then the wings delete their part of the topic

The catalogue of the main hall is authoritative: the group reconciler repeats what fails after its commit. A new
configuration does not change the placement of a topic; moves of its partitions do (`partition_administration`). Topics
of the main hall itself are not affected.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import ARCHIVE, IN_THE_HALL, MOVES, PLACEMENT, WINGS
from longhall.broker.default_placement import default_placement, groups_support, lanes_of
from longhall.broker.feature_gates import check_group_archives
from longhall.broker.hall import Hall
from longhall.broker.placement import groups_of
from longhall.errors import Code, LonghallError

_log = logging.getLogger("longhall.wings")


def is_for_wings(hall: Hall, configuration: Mapping[str, str]) -> bool:
    """True if this hall must choose wings for a topic of this configuration; never in a wing."""
    return not hall.options.wing and configuration.get(PLACEMENT, IN_THE_HALL) != IN_THE_HALL


def place_by_default(
    hall: Hall, partitions: int, configuration: Mapping[str, str], copies_min: int
) -> tuple[int, Mapping[str, str]]:
    """The partition count and the configuration of a new topic whose creator named no placement: with the wings that
    the rule chooses, or unchanged if the hall stores it. The topic has at least `copies_min` replicas.
    """
    if PLACEMENT in configuration or hall.wings is None or hall.options.wing:
        return partitions, configuration
    count = hall.options.default_partitions if partitions == -1 else partitions
    wings = hall.wings.spread(copies_min)
    placement = default_placement(
        len(wings), count, configuration, supports=lambda feature: groups_support(feature, hall.feature_level)
    )
    if placement == IN_THE_HALL:
        return partitions, configuration
    chosen = wings[: lanes_of(placement, count)]
    return count, {**configuration, PLACEMENT: placement, WINGS: ",".join(map(str, chosen))}


def check_given(hall: Hall, configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION if a user names the wings of a new topic."""
    if is_for_wings(hall, configuration):
        _check_archive(hall, configuration)
    for setting in (WINGS, MOVES):
        if configuration.get(setting, "") and not hall.options.wing:
            reason = f"{setting} is chosen by the cluster: give {PLACEMENT} alone."
            raise LonghallError(Code.INVALID_CONFIGURATION, reason)


async def choose_wings(
    hall: Hall, name: str, partitions: int, configuration: Mapping[str, str]
) -> tuple[int, dict[str, str]]:
    """The partition count of a new topic, and its configuration with the chosen wings. Waits until the wings are led.

    With -1 partitions the topic has one for each wing.
    """
    assert hall.wings is not None, "checked by the gates"
    wings = await hall.wings.choose(configuration[PLACEMENT], name)
    if partitions == -1:
        partitions = len(wings)
    if partitions < len(wings):
        raise LonghallError(
            Code.INVALID_PARTITION_COUNT,
            f"With {PLACEMENT}={configuration[PLACEMENT]} the topic is in {len(wings)} wings and has at least as many "
            f"partitions, not {partitions}.",
        )
    return partitions, {**configuration, WINGS: ",".join(map(str, wings))}


def keep_placement(hall: Hall, topic: Topic, configuration: Mapping[str, str]) -> dict[str, str]:
    """The new configuration of a topic with its placement unchanged. Raises INVALID_CONFIGURATION for another one."""
    kept = dict(configuration)
    for setting, usual in ((PLACEMENT, IN_THE_HALL), (WINGS, ""), (MOVES, "")):
        have = topic.configuration.get(setting, usual)
        if kept.pop(setting, have) != have:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"{setting} cannot change: '{topic.name}' has '{have}'.",
            )
        if setting in topic.configuration:
            kept[setting] = have
    if is_for_wings(hall, kept):
        _check_archive(hall, kept)
    return kept


def _check_archive(hall: Hall, configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for a topic in wings that must be archived, below the feature level for it."""
    if configuration.get(ARCHIVE, "none") != "none":
        check_group_archives(hall)


async def furnish(hall: Hall, name: str) -> None:
    """Apply the committed state of a topic to its wings."""
    topic = hall.topic(name)
    if topic is None or not topic.options.wings or hall.wings is None:
        return
    try:
        await hall.wings.furnish(name)
    except LonghallError as error:
        raise LonghallError(
            Code.TIMED_OUT, f"The change is committed, but the wings of '{name}' have not applied it yet: {error}"
        ) from error


async def clear(hall: Hall, topic: Topic) -> None:
    """Delete a topic from its wings. A wing that does not answer deletes it later."""
    groups = groups_of(topic.options.wings, topic.options.moves)
    if not groups or hall.wings is None:
        return
    try:
        await hall.wings.clear(topic.name, topic.topic_id, groups)
    except LonghallError as error:
        _log.warning("wings still store a deleted topic", extra={"topic": topic.name, "reason": str(error)})
