"""The roles that every installation has, as sets of rules. Further roles are rules with the subject `role:NAME`.

administrator   everything, whatever rules say
operator        topics, queues, exchanges, groups, hosts and configurations; no message, no user, no rule
producer        sends to every topic, queue and exchange
consumer        receives from every topic and queue, in every group
viewer          sees names, settings and numbers; no message
"""

from __future__ import annotations

from typing import Final

from longhall.directory.access_rules import CLUSTER_NAME, EVERY_NAME, ROLE, AccessAction, AccessRule, Kind

ADMINISTRATOR: Final = "administrator"
OPERATOR: Final = "operator"
PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
VIEWER: Final = "viewer"

_NAMED: Final = (Kind.TOPIC, Kind.EXCHANGE, Kind.GROUP, Kind.TRANSACTIONAL_ID)


def _allow(role: str, kind: Kind, *actions: AccessAction) -> list[AccessRule]:
    name = CLUSTER_NAME if kind is Kind.CLUSTER else EVERY_NAME
    return [AccessRule(subject=ROLE + role, action=action, kind=kind, name=name) for action in actions]


def _operator() -> list[AccessRule]:
    actions = (AccessAction.CREATE, AccessAction.DELETE, AccessAction.ALTER, AccessAction.ALTER_CONFIGS)
    rules = [rule for kind in _NAMED for rule in _allow(OPERATOR, kind, *actions)]
    # To alter the cluster is to change users and rules, as Kafka has it: an operator must not make itself more.
    cluster = (AccessAction.CREATE, AccessAction.DESCRIBE, AccessAction.CLUSTER_ACTION, AccessAction.ALTER_CONFIGS)
    return [*rules, *_allow(OPERATOR, Kind.CLUSTER, *cluster), *_allow(OPERATOR, Kind.USER, AccessAction.DESCRIBE)]


def _viewer() -> list[AccessRule]:
    kinds = (*_NAMED, Kind.CLUSTER, Kind.USER)
    return [
        rule for kind in kinds for rule in _allow(VIEWER, kind, AccessAction.DESCRIBE, AccessAction.DESCRIBE_CONFIGS)
    ]


ROLES: Final[dict[str, tuple[AccessRule, ...]]] = {
    ADMINISTRATOR: (),
    OPERATOR: tuple(_operator()),
    PRODUCER: (
        *_allow(PRODUCER, Kind.TOPIC, AccessAction.WRITE),
        *_allow(PRODUCER, Kind.EXCHANGE, AccessAction.WRITE),
        *_allow(PRODUCER, Kind.TRANSACTIONAL_ID, AccessAction.WRITE),
        *_allow(PRODUCER, Kind.CLUSTER, AccessAction.IDEMPOTENT_WRITE),
    ),
    CONSUMER: (
        *_allow(CONSUMER, Kind.TOPIC, AccessAction.READ),
        *_allow(CONSUMER, Kind.EXCHANGE, AccessAction.READ),
        *_allow(CONSUMER, Kind.GROUP, AccessAction.READ),
    ),
    VIEWER: tuple(_viewer()),
}
