"""Which topics and queues may be sealed: rules for their configurations.

A queue that owns its topic is sealed message by message, because the broker delivers single messages. Every other topic
is sealed batch by batch, and no queue can be over it. What needs clear text in the broker is refused here, with the
reason; docs/security.md lists it.
"""

from __future__ import annotations

from collections.abc import Mapping

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import SEAL_KEYS, SEAL_REUSE, SEALED
from longhall.broker.feature_gates import check_sealed
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings


def keep_keys(hall: Hall, topic: Topic | None, configuration: Mapping[str, str], owned: bool) -> dict[str, str]:
    """The new configuration of a topic with its data keys unchanged.

    Raises INVALID_CONFIGURATION if a user names them, seals a topic that queues read, or seals the topic of a queue
    past its queue (`owned`). A wing takes what the main hall has.
    """
    kept = dict(configuration)
    if hall.options.wing:
        return kept
    have = topic.configuration.get(SEAL_KEYS, "") if topic is not None else ""
    if kept.pop(SEAL_KEYS, have) != have:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"{SEAL_KEYS} is not for users to set: set {SEALED}.")
    if have:
        kept[SEAL_KEYS] = have
    before = topic.configuration.get(SEALED, "") if topic is not None else ""
    if kept.get(SEALED, "") == before:
        return kept
    check_sealed(hall)
    if owned:
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"{SEALED} of a queue's topic follows the setting `sealed` of the queue."
        )
    if topic is not None and hall.queues_on(topic.topic_id):
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"Queues or share groups read '{topic.name}': batches that are sealed whole cannot be delivered to them.",
        )
    return kept


def check_queue_sealed(hall: Hall, settings: QueueSettings, topic: Topic | None) -> None:
    """Raises INVALID_CONFIGURATION for settings that a sealed queue cannot have. `topic` is the one that a queue over a
    topic reads: it is sealed as that is, which can only be the topic of another queue.
    """
    if topic is not None:
        _check_over(hall, settings, topic)
    if not settings.sealed:
        return
    if not hall.options.wing:  # The main hall has checked the queue of a wing.
        check_sealed(hall)
    if settings.whole_bytes_max > settings.message_bytes_max:
        raise _refused("A sealed queue takes no messages in chunks (whole_bytes_max): a chunk cannot be opened alone.")
    letters = settings.dead_letters
    if letters is not None and letters.after_delete:
        raise _refused("A sealed queue has no dead letters after its deletion (after_delete): its keys go with it.")


def _check_over(hall: Hall, settings: QueueSettings, topic: Topic) -> None:
    owner = hall.catalogue.queues.by_name.get(topic.name)
    is_of_queue = owner is not None and owner.topic_id == topic.topic_id
    if not is_of_queue and (topic.configuration.get(SEALED) or topic.configuration.get(SEAL_KEYS)):
        raise LonghallError(
            Code.SEALED,
            f"The batches of '{topic.name}' are or were sealed as a whole: the broker cannot deliver single messages.",
        )
    if settings.sealed != topic.configuration.get(SEALED, ""):
        raise _refused("A queue over a topic is sealed as the topic is.")


def seal_configuration(settings: QueueSettings) -> dict[str, str]:
    """The configuration of a queue's own topic."""
    return {SEALED: settings.sealed, SEAL_REUSE: str(settings.seal_reuse_ms)} if settings.sealed else {}


def _refused(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, why)
