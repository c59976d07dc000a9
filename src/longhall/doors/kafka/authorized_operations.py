"""The operations that a client may do, as the bits of Kafka's `authorized_operations`.

A client that did not ask gets none. Without authentication every client may do everything that Kafka knows for the kind
of resource.
"""

from __future__ import annotations

from typing import Final

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import CLUSTER_NAME, AccessAction, Kind
from longhall.front.guard import AccessGuard

NOT_ASKED: Final = -(1 << 31)

OPERATION_OF: Final[dict[AccessAction, int]] = {
    AccessAction.ALL: 2,
    AccessAction.READ: 3,
    AccessAction.WRITE: 4,
    AccessAction.CREATE: 5,
    AccessAction.DELETE: 6,
    AccessAction.ALTER: 7,
    AccessAction.DESCRIBE: 8,
    AccessAction.CLUSTER_ACTION: 9,
    AccessAction.DESCRIBE_CONFIGS: 10,
    AccessAction.ALTER_CONFIGS: 11,
    AccessAction.IDEMPOTENT_WRITE: 12,
}
ACTION_OF: Final = {number: action for action, number in OPERATION_OF.items()}

_CONFIGURED: Final = (AccessAction.DESCRIBE_CONFIGS, AccessAction.ALTER_CONFIGS)
_ACTIONS: Final[dict[Kind, tuple[AccessAction, ...]]] = {
    Kind.CLUSTER: (
        AccessAction.CREATE,
        AccessAction.ALTER,
        AccessAction.DESCRIBE,
        AccessAction.CLUSTER_ACTION,
        *_CONFIGURED,
        AccessAction.IDEMPOTENT_WRITE,
    ),
    Kind.TOPIC: (
        AccessAction.READ,
        AccessAction.WRITE,
        AccessAction.CREATE,
        AccessAction.DELETE,
        AccessAction.ALTER,
        AccessAction.DESCRIBE,
        *_CONFIGURED,
    ),
    Kind.GROUP: (AccessAction.READ, AccessAction.DELETE, AccessAction.DESCRIBE, *_CONFIGURED),
}


def _bits(actions: tuple[AccessAction, ...]) -> int:
    return sum(1 << OPERATION_OF[action] for action in actions)


OF_CLUSTER: Final = _bits(_ACTIONS[Kind.CLUSTER])
OF_TOPIC: Final = _bits(_ACTIONS[Kind.TOPIC])
OF_GROUP: Final = _bits(_ACTIONS[Kind.GROUP])


def operations_of(access: AccessGuard | None, caller: Caller, kind: Kind, name: str = CLUSTER_NAME) -> int:
    """The operations that a client may do with one resource."""
    actions = _ACTIONS[kind]
    if access is None or not access.active:
        return _bits(actions)
    return _bits(tuple(action for action in actions if access.would_allow(caller, action, kind, name)))
