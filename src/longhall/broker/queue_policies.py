"""The settings of a queue under policies.

    key                               against an argument of the queue
    message-ttl, expires, max-length, max-length-bytes, delivery-limit    the smaller number
    overflow, dead-letter-exchange, dead-letter-routing-key               the argument

An operator policy bounds the numbers once more, and its overflow is the one that holds. The settings in force follow
from the declared ones and from the policies alone, so every replica has the same. Policies are for queues that AMQP has
declared: those of other doors have no virtual host that their owners would know of.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.exchanges.events import PolicySet
from longhall.exchanges.field_table import decode_table
from longhall.exchanges.policies import Policies
from longhall.queues.settings import AmqpSettings, QueueSettings

QUEUE_TYPE: Final = "x-queue-type"
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
GOVERNED: Final = ("time_to_live_ms", "messages_max", "bytes_max", "when_full")
GOVERNED_AMQP: Final = ("expires_ms", "deliveries_max", "letters_exchange", "letters_key", "letters_refused")


def queue_type(amqp: AmqpSettings) -> str:
    """The type with which a queue was declared."""
    kind = _arguments(amqp).get(QUEUE_TYPE, CLASSIC)
    return kind if isinstance(kind, str) else CLASSIC


def effective_settings(declared: QueueSettings, policies: Policies) -> QueueSettings:
    """The settings in force; the declared ones themselves if no policy changes them."""
    amqp = declared.amqp
    if amqp is None or not len(policies):
        return declared
    kind = queue_type(amqp)
    policy = policies.of_queue(False, amqp.host, amqp.name, kind)
    operator = policies.of_queue(True, amqp.host, amqp.name, kind)
    if policy is None and operator is None:
        return declared
    said = _definition(policy)
    bounds = _definition(operator)
    settings = _with_numbers(declared, amqp, kind, said, bounds)
    settings = _with_overflow(settings, _arguments(amqp), said, bounds)
    settings = _with_letters(settings, said)
    return settings if settings != declared else declared


def declared_settings(changed: QueueSettings, declared: QueueSettings, effective: QueueSettings) -> QueueSettings:
    """The declared settings after a change of the effective ones: what a policy has set is not declared by that."""
    same = {name: getattr(declared, name) for name in GOVERNED if getattr(changed, name) == getattr(effective, name)}
    if changed.amqp is not None and declared.amqp is not None and effective.amqp is not None:
        same["amqp"] = msgspec.structs.replace(
            changed.amqp,
            **{
                name: getattr(declared.amqp, name)
                for name in GOVERNED_AMQP
                if getattr(changed.amqp, name) == getattr(effective.amqp, name)
            },
        )
    return msgspec.structs.replace(changed, **same)


def _with_numbers(
    declared: QueueSettings, amqp: AmqpSettings, kind: str, said: dict[str, Any], bounds: dict[str, Any]
) -> QueueSettings:
    def least(own: int, key: str, smallest: int = 0) -> int:
        """0 is no bound for a setting; a definition says so by leaving the key out."""
        given = [max(one[key], smallest) for one in (said, bounds) if key in one]
        return min([*given, *([own] if own else [])], default=0)

    changes: dict[str, Any] = {}
    if kind == QUORUM:
        changes["deliveries_max"] = _deliveries_max(amqp, said, bounds)
    return msgspec.structs.replace(
        declared,
        time_to_live_ms=least(declared.time_to_live_ms, "message-ttl", 1),
        messages_max=least(declared.messages_max, "max-length"),
        bytes_max=least(declared.bytes_max, "max-length-bytes"),
        amqp=msgspec.structs.replace(amqp, expires_ms=least(amqp.expires_ms, "expires"), **changes),
    )


def _deliveries_max(amqp: AmqpSettings, said: dict[str, Any], bounds: dict[str, Any]) -> int:
    """One more than the delivery limit. A queue without the argument has a default, which a policy replaces."""
    keys = [one["delivery-limit"] for one in (said, bounds) if "delivery-limit" in one]
    if not keys:
        return amqp.deliveries_max
    limits = [limit + 1 for limit in keys if limit >= 0]
    if "x-delivery-limit" in _arguments(amqp) and amqp.deliveries_max:
        limits.append(amqp.deliveries_max)
    return min(limits, default=0)


def _with_overflow(
    settings: QueueSettings, arguments: dict[str, Any], said: dict[str, Any], bounds: dict[str, Any]
) -> QueueSettings:
    overflow = bounds.get("overflow") or (None if "x-overflow" in arguments else said.get("overflow"))
    if overflow is None or settings.amqp is None:
        return settings
    return msgspec.structs.replace(
        settings,
        when_full="drop-oldest" if overflow == "drop-head" else "refuse",
        amqp=msgspec.structs.replace(settings.amqp, letters_refused=overflow == "reject-publish-dlx"),
    )


def _with_letters(settings: QueueSettings, said: dict[str, Any]) -> QueueSettings:
    amqp = settings.amqp
    if amqp is None or "dead-letter-exchange" not in said:
        return settings
    exchange = amqp.letters_exchange if amqp.letters_exchange is not None else said["dead-letter-exchange"]
    key = amqp.letters_key if amqp.letters_key is not None else said.get("dead-letter-routing-key")
    return msgspec.structs.replace(
        settings, amqp=msgspec.structs.replace(amqp, letters_exchange=exchange, letters_key=key)
    )


def _definition(policy: PolicySet | None) -> dict[str, Any]:
    return policy.definition if policy is not None else {}


def _arguments(amqp: AmqpSettings) -> dict[str, Any]:
    return decode_table(amqp.arguments)[0] if amqp.arguments else {}
