"""The operations on policies, and the state of many queues in one reply, for those who operate the AMQP door."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.cluster.rpc.operation import Operation
from longhall.queues.settings import QueueSettings

STATES_MAX: Final = 1_000  # Queues of one reply.


class PolicyView(msgspec.Struct, array_like=True):
    """A policy or an operator policy."""

    host: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: dict[str, Any]
    operator: bool = False


class SetPolicy(Operation[bool]):
    """Create or replace a policy; the reply is True if there was none of this name. INVALID_REQUEST with the reason."""

    policy: PolicyView


class RemovePolicy(Operation[bool]):
    """Remove a policy; the reply is False if there is none."""

    host: str
    name: str
    operator: bool = False


class ListPolicies(Operation[list[PolicyView]]):
    """All policies, or all operator policies, by virtual host and name."""

    operator: bool = False


class QueueState(msgspec.Struct, array_like=True):
    """A queue with its settings in force, its messages and its counters since the leader began to lead."""

    name: str
    settings: QueueSettings
    available: int = 0
    in_flight: int = 0
    delayed: int = 0
    bytes: int = 0
    consumers: int = 0
    sends: int = 0
    deliveries: int = 0
    settles: int = 0
    paused: bool = False
    created_ms: int = 0
    policy: str = ""
    operator_policy: str = ""
    active_session: str = ""  # With a single active consumer: its session
    active_consumer: int = 0  # and its key there.


class DescribeQueues(Operation[list[QueueState]]):
    """The state of up to STATES_MAX queues by their names in the hall, in this order; those that do not exist are left
    out. Without the age of their oldest message, which would have to be read.
    """

    names: list[str]
