"""Place: topics that wings keep are made, changed and cleared there too.

    new         the wings are chosen first, and are part of what the hall commits of the topic
    committed   then the wings are furnished with what the hall has, and then it is answered
    deleted     then what the wings have of it is cleared

The hall's own catalogue is the truth: whatever fails behind its commit is made up for by whoever minds the wings. Where
a topic is kept is decided once. Of a topic that the hall itself keeps nothing here does anything.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import ARCHIVE, IN_THE_HALL, PLACEMENT, WINGS
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError

_log = logging.getLogger("longhall.wings")


def is_for_wings(hall: Hall, configuration: Mapping[str, str]) -> bool:
    """Whether wings are to be found for a topic of this configuration. A wing is told what it keeps."""
    return not hall.options.wing and configuration.get(PLACEMENT, IN_THE_HALL) != IN_THE_HALL


def check_given(hall: Hall, configuration: Mapping[str, str]) -> None:
    """What users give for a new topic must not say which wings: those are chosen here."""
    if is_for_wings(hall, configuration):
        _check_archive(configuration)
    if configuration.get(WINGS, "") and not hall.options.wing:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"{WINGS} is chosen by the cluster: give {PLACEMENT} alone.")


async def choose_wings(
    hall: Hall, name: str, partitions: int, configuration: Mapping[str, str]
) -> tuple[int, dict[str, str]]:
    """How many partitions a new topic has, and its configuration with the wings in it. May take as long as it takes to
    bring wings up. -1 partitions are as many as there are wings.
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
    """Another configuration for a topic, in which it stays where it is, also if that is not said."""
    kept = dict(configuration)
    for setting, usual in ((PLACEMENT, IN_THE_HALL), (WINGS, "")):
        have = topic.configuration.get(setting, usual)
        if kept.pop(setting, have) != have:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"{setting} is decided when a topic is made: of '{topic.name}' it stays '{have}'.",
            )
        if setting in topic.configuration:
            kept[setting] = have
    if is_for_wings(hall, kept):
        _check_archive(kept)
    return kept


def _check_archive(configuration: Mapping[str, str]) -> None:
    """How far an archive is, is known to the hall and not to its wings: they would keep everything for ever."""
    if configuration.get(ARCHIVE, "none") != "none":
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"{ARCHIVE}={configuration[ARCHIVE]} is for topics that the hall itself keeps."
        )


async def furnish(hall: Hall, name: str) -> None:
    """The hall has committed something about a topic: have its wings follow."""
    topic = hall.topic(name)
    if topic is None or not topic.options.wings or hall.wings is None:
        return
    try:
        await hall.wings.furnish(name)
    except LonghallError as error:
        raise LonghallError(
            Code.TIMED_OUT, f"It is decided and will be so, but the wings of '{name}' do not follow yet: {error}"
        ) from error


async def clear(hall: Hall, topic: Topic) -> None:
    """The hall has committed that a topic is gone. Whoever asked for it need not wait for wings that do not answer."""
    if not topic.options.wings or hall.wings is None:
        return
    try:
        await hall.wings.clear(topic.name, topic.topic_id, topic.options.wings)
    except LonghallError as error:
        _log.warning("wings still have what is deleted", extra={"topic": topic.name, "reason": str(error)})
