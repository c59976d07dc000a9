"""What policies make of the settings of queues, against arguments and operator policies."""

from __future__ import annotations

from typing import Any

import msgspec

from longhall.broker.catalogue import Catalogue
from longhall.broker.events import QueueConfigured, QueueDeclared
from longhall.broker.options import HallOptions
from longhall.broker.queue_policies import effective_settings
from longhall.doors.amqp.declarations import settings_of
from longhall.exchanges.events import PolicyRemoved, PolicySet
from longhall.exchanges.field_table import encode_table
from longhall.exchanges.policies import Policies
from longhall.queues.settings import QueueSettings

ID = bytes(16)


def declared(name: str = "orders", **arguments: Any) -> QueueSettings:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return settings_of("/", name, True, False, "", encode_table(table))


def policy(definition: dict[str, Any], operator: bool = False) -> PolicySet:
    return PolicySet(
        host="/", name="p", pattern="^orders", apply_to="queues", priority=0, definition=definition, operator=operator
    )


def under(settings: QueueSettings, said: dict[str, Any], bounds: dict[str, Any] | None = None) -> QueueSettings:
    policies = Policies()
    policies.apply(policy(said))
    if bounds is not None:
        policies.apply(policy(bounds, operator=True))
    return effective_settings(settings, policies)


def test_numbers_take_the_smallest_of_argument_policy_and_operator() -> None:
    settings = declared(max_length=10, message_ttl=5_000)
    said = under(settings, {"max-length": 20, "message-ttl": 1_000, "expires": 60_000, "max-length-bytes": 9})
    assert (said.messages_max, said.time_to_live_ms, said.bytes_max) == (10, 1_000, 9)
    assert said.amqp is not None
    assert said.amqp.expires_ms == 60_000
    bounded = under(settings, {"max-length": 20}, {"max-length": 3, "overflow": "reject-publish"})
    assert (bounded.messages_max, bounded.when_full) == (3, "refuse")
    assert under(declared("other", max_length=10), {"max-length": 3}).messages_max == 10


def test_words_of_an_argument_stand_against_a_policy_and_yield_to_the_operator() -> None:
    said = {"overflow": "reject-publish-dlx", "dead-letter-exchange": "dlx", "dead-letter-routing-key": "dead"}
    plain = under(declared(), said)
    assert plain.amqp is not None
    assert (plain.when_full, plain.amqp.letters_refused) == ("refuse", True)
    assert (plain.amqp.letters_exchange, plain.amqp.letters_key) == ("dlx", "dead")
    own = under(declared(overflow="drop-head", dead_letter_exchange="mine"), said)
    assert own.amqp is not None
    assert (own.when_full, own.amqp.letters_refused, own.amqp.letters_exchange) == ("drop-oldest", False, "mine")
    operated = under(declared(overflow="reject-publish"), said, {"overflow": "drop-head"})
    assert operated.when_full == "drop-oldest"


def test_a_delivery_limit_replaces_the_default_of_a_quorum_queue_and_bounds_its_argument() -> None:
    def limit(settings: QueueSettings, said: int) -> int:
        amqp = under(settings, {"delivery-limit": said}).amqp
        assert amqp is not None
        return amqp.deliveries_max

    assert limit(declared(queue_type="quorum"), 50) == 51
    assert limit(declared(queue_type="quorum"), -1) == 0
    assert limit(declared(queue_type="quorum", delivery_limit=3), 50) == 4
    assert limit(declared(), 50) == 0


def test_the_catalogue_follows_policies_and_keeps_what_was_declared() -> None:
    catalogue = Catalogue(HallOptions())
    settings = declared(max_length=10)
    catalogue.apply(
        QueueDeclared(name="orders", queue_id=ID, number=7, topic_id=ID, owns_topic=True, settings=settings, at_ms=1)
    )
    entry = catalogue.queues.by_id[ID]
    catalogue.apply(policy({"max-length": 4, "message-ttl": 100}))
    assert (entry.settings.messages_max, entry.settings.time_to_live_ms) == (4, 100)
    assert entry.declared is settings

    # Who changes another setting reads and writes the settings in force; they do not become declared by that.
    configured = catalogue.queues.decide_configure("orders", msgspec.structs.replace(entry.settings, lease_ms=9), 2)
    assert isinstance(configured, QueueConfigured)
    catalogue.apply(configured)
    assert (entry.settings.messages_max, entry.settings.lease_ms) == (4, 9)

    again = Catalogue(HallOptions())
    again.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(catalogue.snapshot()), strict=False))
    restored = again.queues.by_id[ID]
    assert (restored.settings, restored.declared) == (entry.settings, entry.declared)

    catalogue.apply(PolicyRemoved(host="/", name="p"))
    assert (entry.settings.messages_max, entry.settings.time_to_live_ms, entry.settings.lease_ms) == (10, 0, 9)
