"""Policies and the state of many queues, carried out by the leader of the hall.

A policy is one event of the catalogue: the settings in force of all queues follow from it on every replica, and the
reply waits for its commit.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

import msgspec

from longhall.broker.configuration import IN_THE_HALL
from longhall.broker.feature_gates import check_exchanges
from longhall.broker.hall import Hall
from longhall.broker.queue_policies import effective_settings, queue_type
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep.measurement import waiting_messages
from longhall.broker.topic_administration import commit_event
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.exchanges.events import PolicySet
from longhall.exchanges.policies import Policies
from longhall.service import policy_operations as ops
from longhall.service.local import LocalBroker
from longhall.service.partition_operations import CancelQueueMove, PlaceQueue
from longhall.service.queue_operations import ConfigureQueue
from longhall.service.router import Router

MOVE_S_MAX: Final = 20.0
MOVE_LOOK_S: Final = 0.05


@final
class PolicyService:
    """The operations of `policy_operations` on one hall."""

    def __init__(self, hall: Hall, queues: QueueService, router: Router) -> None:
        self._hall = hall
        self._consumers = queues.consumers
        self._router = router

    def register(self, broker: LocalBroker) -> None:
        """Carry out these operations in this process."""
        broker.also(ops.SetPolicy, self._set)
        broker.also(ops.RemovePolicy, self._remove)
        broker.also(ops.ListPolicies, self._list)
        broker.also(ops.DescribeQueues, self._describe)

    async def _set(self, op: ops.SetPolicy, caller: Caller) -> bool:
        check_exchanges(self._hall)
        topology = self._hall.catalogue.exchanges
        event = PolicySet(**msgspec.structs.asdict(op.policy))
        if event.host not in topology.hosts:
            raise LonghallError(Code.UNKNOWN_VIRTUAL_HOST, f"There is no virtual host '{event.host}'.")
        is_new = topology.policies.find(event.operator, event.host, event.name) is None
        decided = topology.policies.decide_set(event)
        if decided is not None:
            await self._bring_to_hall(decided, caller)
            before = self._placed_settings()
            await commit_event(self._hall, decided)
            await self._tell(before, caller)
        return is_new

    async def _bring_to_hall(self, event: PolicySet, caller: Caller) -> None:
        """The hall has the exchanges: queues of other groups whose dead letters would go through one move there first.
        Raises what such a move is refused with, and NOT_READY if it takes long; the policy is not set then.
        """
        deadline_s = asyncio.get_running_loop().time() + MOVE_S_MAX
        begun: set[str] = set()
        policies = self._hall.catalogue.exchanges.policies.with_policy(event)
        while True:
            names = [queue.entry.name for queue in self._hall.queues.values() if _needs_hall(queue, policies)]
            if not names:
                return
            if asyncio.get_running_loop().time() > deadline_s:
                for name in begun.intersection(names):
                    await self._router.dispatch(CancelQueueMove(name), caller)
                raise LonghallError(
                    Code.NOT_READY,
                    f"queues of the policy could not move to the exchanges in time, '{names[0]}' among them; try again",
                )
            for name in names:
                if name not in begun:
                    begun.add(name)
                    await self._router.dispatch(PlaceQueue(name, IN_THE_HALL), caller)
            await asyncio.sleep(MOVE_LOOK_S)

    async def _remove(self, op: ops.RemovePolicy, caller: Caller) -> bool:
        decided = self._hall.catalogue.exchanges.policies.decide_remove(op.operator, op.host, op.name)
        if decided is None:
            return False
        before = self._placed_settings()
        await commit_event(self._hall, decided)
        await self._tell(before, caller)
        return True

    def _placed_settings(self) -> list[tuple[RunningQueue, object]]:
        return [(queue, queue.settings) for queue in self._hall.queues.values()]

    async def _tell(self, before: list[tuple[RunningQueue, object]], caller: Caller) -> None:
        """Wake receivers of queues whose settings have changed, and give the groups that store a queue its settings."""
        for queue, settings in before:
            if queue.settings is settings or queue.removed:
                continue
            queue.waiters.wake(len(queue.waiters))
            if queue.settings.wings:
                await self._router.dispatch(ConfigureQueue(queue.entry.name, queue.settings), caller)

    def _list(self, op: ops.ListPolicies, caller: Caller) -> list[ops.PolicyView]:
        return [
            ops.PolicyView(**msgspec.structs.asdict(one))
            for one in self._hall.catalogue.exchanges.policies.rows(op.operator)
        ]

    def _describe(self, op: ops.DescribeQueues, caller: Caller) -> list[ops.QueueState]:
        found = [self._hall.running_queue(name) for name in op.names[: ops.STATES_MAX]]
        return [self._state(queue) for queue in found if queue is not None]

    def _state(self, queue: RunningQueue) -> ops.QueueState:
        entry, state = queue.entry, queue.queue.state
        policy, operator = self._policies_of(queue)
        active = self._consumers.active_consumer(queue)
        return ops.QueueState(
            name=entry.name,
            settings=queue.settings,
            available=waiting_messages(self._hall, queue),
            in_flight=queue.queue.in_flight + queue.queue.held_back,
            delayed=queue.staging.count,
            bytes=sum(partition.log.bytes_kept() for partition in queue.lanes.values()),
            consumers=self._consumers.consumer_count(queue),
            sends=queue.sends,
            deliveries=state.next_number - 1,
            settles=queue.settles,
            paused=state.paused,
            created_ms=entry.created_ms,
            policy=policy,
            operator_policy=operator,
            active_session=active.session.session_id if active is not None else "",
            active_consumer=active.key if active is not None else 0,
        )

    def _policies_of(self, queue: RunningQueue) -> tuple[str, str]:
        policies = self._hall.catalogue.exchanges.policies
        amqp = queue.settings.amqp
        if amqp is None or not len(policies):
            return "", ""
        kind = queue_type(amqp)
        found = [policies.of_queue(operator, amqp.host, amqp.name, kind) for operator in (False, True)]
        return found[0].name if found[0] is not None else "", found[1].name if found[1] is not None else ""


def _needs_hall(queue: RunningQueue, policies: Policies) -> bool:
    """True for a queue of another group whose dead letters go through an exchange with these policies."""
    declared = queue.entry.declared
    if not queue.settings.wings or declared.amqp is None:
        return False
    amqp = effective_settings(declared, policies).amqp
    return amqp is not None and amqp.letters_exchange is not None
