"""The operations that a client may do, as the bits of Kafka's `authorized_operations`.

A client that did not ask gets none. Without authentication every client may do everything that Kafka knows for the kind
of resource.
"""

from __future__ import annotations

from typing import Final

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import CLUSTER_NAME, Action, Kind
from longhall.front.guard import Guard

NOT_ASKED: Final = -(1 << 31)

OPERATION_OF: Final[dict[Action, int]] = {
    Action.ALL: 2,
    Action.READ: 3,
    Action.WRITE: 4,
    Action.CREATE: 5,
    Action.DELETE: 6,
    Action.ALTER: 7,
    Action.DESCRIBE: 8,
    Action.CLUSTER_ACTION: 9,
    Action.DESCRIBE_CONFIGS: 10,
    Action.ALTER_CONFIGS: 11,
    Action.IDEMPOTENT_WRITE: 12,
}
ACTION_OF: Final = {number: action for action, number in OPERATION_OF.items()}

_CONFIGURED: Final = (Action.DESCRIBE_CONFIGS, Action.ALTER_CONFIGS)
_ACTIONS: Final[dict[Kind, tuple[Action, ...]]] = {
    Kind.CLUSTER: (
        Action.CREATE,
        Action.ALTER,
        Action.DESCRIBE,
        Action.CLUSTER_ACTION,
        *_CONFIGURED,
        Action.IDEMPOTENT_WRITE,
    ),
    Kind.TOPIC: (
        Action.READ,
        Action.WRITE,
        Action.CREATE,
        Action.DELETE,
        Action.ALTER,
        Action.DESCRIBE,
        *_CONFIGURED,
    ),
    Kind.GROUP: (Action.READ, Action.DELETE, Action.DESCRIBE),
}


def _bits(actions: tuple[Action, ...]) -> int:
    return sum(1 << OPERATION_OF[action] for action in actions)


OF_CLUSTER: Final = _bits(_ACTIONS[Kind.CLUSTER])
OF_TOPIC: Final = _bits(_ACTIONS[Kind.TOPIC])
OF_GROUP: Final = _bits(_ACTIONS[Kind.GROUP])


def operations_of(access: Guard | None, caller: Caller, kind: Kind, name: str = CLUSTER_NAME) -> int:
    """The operations that a client may do with one resource."""
    actions = _ACTIONS[kind]
    if access is None or not access.active:
        return _bits(actions)
    return _bits(tuple(action for action in actions if access.would_allow(caller, action, kind, name)))
