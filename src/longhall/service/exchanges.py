"""Exchanges, publishing and push, carried out by the leader of the hall.

decide, append, apply, release: a change of the topology is an event of the catalogue, and its reply waits for the
commit. What goes to queues of other replication groups is sent there by the router before the reply.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, final

from longhall.broker.feature_gates import check_exchanges, may_settle_in_groups
from longhall.broker.group_steps import GroupSteps
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending, started
from longhall.broker.queues.consumers.session import NewConsumer
from longhall.broker.queues.delivery.receive import receive
from longhall.broker.queues.delivery.settle import settle
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.planned_sends import PlannedSends
from longhall.broker.queues.sending.publication import Published
from longhall.broker.queues.sending.publish import ElsewhereMessages, Publishing
from longhall.broker.queues.sending.transaction import EndedMessages, PlannedTransaction, commit_transaction
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep.measurement import waiting_messages
from longhall.broker.queues.write import together
from longhall.broker.topic_administration import commit_event
from longhall.broker.transaction_participant import REJECTED_MARK
from longhall.broker.waiting import committed
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.exchanges.events import BindingAdded, BindingRemoved, ExchangeDeclared
from longhall.exchanges.exchange import Exchange
from longhall.exchanges.field_table import decode_table
from longhall.exchanges.names import names_of
from longhall.names import CATALOGUE_SHARD
from longhall.queues.messages import Accepted
from longhall.service import exchange_operations as ops
from longhall.service.local import LocalBroker
from longhall.service.queue_operations import DeleteQueue, SendMessages
from longhall.service.router import Router

CLEAR_BATCH: Final = 1000

Sends = list[tuple[RunningQueue, ElsewhereMessages, Pending[list[Accepted]]]]


@final
class ExchangeService:
    """The operations of `exchange_operations` on one hall."""

    def __init__(self, hall: Hall, queues: QueueService, router: Router, steps: GroupSteps | None = None) -> None:
        self._hall = hall
        self._steps = steps
        self._queues = queues
        self._consumers = queues.consumers
        self._router = router

    def register(self, broker: LocalBroker) -> None:
        """Carry out these operations in this process."""
        broker.also(ops.DeclareExchange, self._declare)
        broker.also(ops.DescribeExchange, self._describe)
        broker.also(ops.DeleteExchange, self._delete)
        broker.also(ops.BindExchange, self._bind)
        broker.also(ops.UnbindExchange, self._unbind)
        broker.also(ops.ListExchanges, self._list_exchanges)
        broker.also(ops.ListBindings, self._list_bindings)
        broker.also(ops.FindRoute, self._find_route)
        broker.also(ops.AddVirtualHost, self._add_host)
        broker.also(ops.RemoveVirtualHost, self._remove_host)
        broker.also(ops.ListVirtualHosts, lambda op, caller: sorted(self._hall.catalogue.exchanges.hosts))
        broker.also(ops.PublishMessages, self._publish)
        broker.also(ops.CommitTransaction, self._commit)
        broker.also(ops.UseQueue, self._use)
        broker.also(ops.RemoveQueue, self._remove_queue)
        broker.also(ops.ClearQueue, self._clear)
        broker.also(ops.AddConsumer, self._add_consumer)
        broker.also(ops.CancelConsumer, lambda op, caller: self._consumers.cancel(op.session, op.key))
        broker.also(ops.RetireQueue, self._retire)
        broker.also(ops.GiveCredit, self._give_credit)
        broker.also(
            ops.WithdrawCredit, lambda op, caller: self._consumers.withdraw_credit(op.session, op.key, op.credit)
        )
        broker.also(ops.LimitChannel, lambda op, caller: self._consumers.limit(op.session, op.channel, op.left))
        broker.also(ops.TakeMessage, self._take)
        broker.also(ops.EndHeld, self._end)
        broker.also(ops.ReplyDirectly, lambda op, caller: self._consumers.reply(op.session, op.delivery))

    # Exchanges

    async def _declare(self, op: ops.DeclareExchange, caller: Caller) -> ops.ExchangeView:
        check_exchanges(self._hall)
        one = op.exchange
        event = ExchangeDeclared(
            host=one.host,
            name=one.name,
            kind=one.kind,
            durable=one.durable,
            auto_delete=one.auto_delete,
            internal=one.internal,
            arguments=one.arguments,
        )
        decided = self._hall.catalogue.exchanges.decide_declare(event)
        if isinstance(decided, Code):
            raise LonghallError(decided, f"The exchange '{one.name}' cannot be made: {decided.value}.")
        if decided is not None:
            await commit_event(self._hall, decided)
            return one
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return self._view(one.host, one.name)

    def _describe(self, op: ops.DescribeExchange, caller: Caller) -> ops.ExchangeView:
        return self._view(op.host, op.name)

    def _view(self, host: str, name: str) -> ops.ExchangeView:
        exchange = self._hall.catalogue.exchanges.exchange(host, name)
        if exchange is None:
            raise LonghallError(Code.UNKNOWN_EXCHANGE, f"There is no exchange '{name}'.")
        return _view(exchange)

    async def _delete(self, op: ops.DeleteExchange, caller: Caller) -> None:
        decided = self._hall.catalogue.exchanges.decide_delete(op.host, op.name, op.if_unused)
        if isinstance(decided, Code):
            raise LonghallError(decided, f"The exchange '{op.name}' is not deleted: {decided.value}.")
        if decided is not None:
            await commit_event(self._hall, decided)

    async def _bind(self, op: ops.BindExchange, caller: Caller) -> None:
        check_exchanges(self._hall)
        one = op.binding
        if not one.to_exchange and self._hall.running_queue(one.destination) is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{one.destination}'.")
        decided = self._hall.catalogue.exchanges.decide_bind(BindingAdded(**_fields(one)))
        if isinstance(decided, Code):
            raise LonghallError(decided, f"'{one.source}' cannot be bound: {decided.value}.")
        if decided is not None:
            await commit_event(self._hall, decided)

    async def _unbind(self, op: ops.UnbindExchange, caller: Caller) -> None:
        decided = self._hall.catalogue.exchanges.decide_unbind(BindingRemoved(**_fields(op.binding)))
        if decided is not None:
            await commit_event(self._hall, decided)

    def _list_exchanges(self, op: ops.ListExchanges, caller: Caller) -> list[ops.ExchangeView]:
        exchanges = self._host(op.host)
        return [_view(exchanges[name]) for name in sorted(exchanges)]

    def _list_bindings(self, op: ops.ListBindings, caller: Caller) -> list[ops.BindingView]:
        return [
            ops.BindingView(op.host, name, one.to.to_exchange, one.to.name, one.key, one.arguments)
            for name, exchange in sorted(self._host(op.host).items())
            for one in exchange.bindings
        ]

    def _find_route(self, op: ops.FindRoute, caller: Caller) -> list[str]:
        headers = decode_table(op.headers)[0] if op.headers else {}
        topology = self._hall.catalogue.exchanges
        found = topology.route(op.host, op.exchange, [op.key], headers, self._exists)
        if isinstance(found, Code):
            raise LonghallError(found, f"There is no exchange '{op.exchange}'.")
        return list(found)

    def _exists(self, name: str) -> bool:
        return self._hall.running_queue(name) is not None

    def _host(self, name: str) -> dict[str, Exchange]:
        host = self._hall.catalogue.exchanges.hosts.get(name)
        if host is None:
            raise LonghallError(Code.UNKNOWN_VIRTUAL_HOST, f"There is no virtual host '{name}'.")
        return host.exchanges

    async def _add_host(self, op: ops.AddVirtualHost, caller: Caller) -> None:
        check_exchanges(self._hall)
        decided = self._hall.catalogue.exchanges.decide_add_host(op.name)
        if isinstance(decided, Code):
            raise LonghallError(decided, "There are too many virtual hosts.")
        if decided is not None:
            await commit_event(self._hall, decided)

    async def _remove_host(self, op: ops.RemoveVirtualHost, caller: Caller) -> None:
        decided = self._hall.catalogue.exchanges.decide_remove_host(op.name)
        if isinstance(decided, Code):
            raise LonghallError(decided, f"The virtual host '{op.name}' is not removed: {decided.value}.")
        for name in [name for name in self._queues.names("") if names_of(name)[0] == op.name]:
            await self._router.dispatch(DeleteQueue(name), caller)
        await commit_event(self._hall, decided)

    # Publishing

    def _publish(self, op: ops.PublishMessages, caller: Caller) -> Pending[list[Published]]:
        publishing = Publishing(self._hall, self._queues.stager, self._consumers, op.host, op.publications)
        # Before the append, which may put later messages for the same queues into the outbox.
        under_way: Sends = [
            (self._hall.known_queue(name), some, self._send(name, some, caller))
            for name, some in publishing.elsewhere.items()
        ]
        pending = publishing.append()
        return started(self._publish_elsewhere(publishing, pending, under_way)) if under_way else pending

    async def _publish_elsewhere(
        self, publishing: Publishing, here: Pending[list[Published]], under_way: Sends
    ) -> list[Published]:
        answers = await here
        for queue, some, pending in under_way:
            try:
                accepted = await pending
            except LonghallError as error:
                accepted = [Accepted(code=error.code, message=str(error)) for _ in some.places]
            publishing.answer(queue, some.places, some.messages, accepted)
        return answers

    def _send(self, name: str, some: ElsewhereMessages, caller: Caller) -> Pending[list[Accepted]]:
        """Send directly to a queue of another group. Later messages that take the outbox wait for these."""
        under_way = self._hall.outboxes.under_way
        under_way[name] = under_way.get(name, 0) + 1
        return started(self._sent(name, self._router.dispatch(SendMessages(name, some.messages), caller)))

    async def _sent(self, name: str, pending: Pending[list[Accepted]]) -> list[Accepted]:
        under_way = self._hall.outboxes.under_way
        try:
            return await pending
        finally:
            under_way[name] -= 1
            if not under_way[name]:
                del under_way[name]

    async def _commit(self, op: ops.CommitTransaction, caller: Caller) -> list[Published]:
        publishing = Publishing(self._hall, self._queues.stager, self._consumers, op.host, op.publications)
        if any(answer.code is not None for answer in publishing.answers):
            return publishing.answers
        apart = [one for one in op.ends if self._is_elsewhere(one.queue)]
        if self._steps is not None and apart and may_settle_in_groups(self._hall):
            await self._commit_in_groups(self._steps, op, publishing, apart, caller)
            return publishing.answers
        if not apart and (publishing.is_here or may_settle_in_groups(self._hall)):
            sends, carrier = publishing.write_backs(), self._queues.outbox.carrier
            await commit_transaction(self._hall, self._queues.stager, sends, op.ends, caller.identity, carrier)
            return publishing.answers
        # Below the feature level of settles in groups, one after the other.
        answers = await self._publish(ops.PublishMessages(op.host, op.publications), caller)
        if all(answer.code is None for answer in answers):
            for one in op.ends:
                await self._router.dispatch(ops.EndHeld(one.queue, "", one.receipts, one.how, []), caller)
        return answers

    async def _commit_in_groups(
        self,
        steps: GroupSteps,
        op: ops.CommitTransaction,
        publishing: Publishing,
        apart: list[EndedMessages],
        caller: Caller,
    ) -> None:
        """Commit a transaction that ends messages of other groups, all at once."""
        sends = PlannedSends(self._hall, self._queues.stager, publishing.write_backs(), self._queues.outbox.carrier)
        here = [one for one in op.ends if not self._is_elsewhere(one.queue)]
        step = PlannedTransaction(self._hall, sends, here, caller.identity)
        await step.make_ready()
        receipts: dict[str, list[str]] = {}
        for one in apart:
            if one.how != ops.REQUEUE:
                mark = REJECTED_MARK if one.how == ops.REJECT else ""
                receipts.setdefault(one.queue, []).extend(mark + receipt for receipt in one.receipts)
        if receipts:
            if not await steps.commit(receipts, step):
                raise LonghallError(Code.RECEIPT_SUPERSEDED, "the messages of the transaction were ended before")
        else:
            step.decide()
            with together(self._hall):
                step.write()
        await step.finish()
        for one in apart:
            if one.how == ops.REQUEUE:
                await self._router.dispatch(ops.EndHeld(one.queue, "", one.receipts, one.how, []), caller)

    def _is_elsewhere(self, name: str) -> bool:
        queue = self._hall.running_queue(name)
        return queue is not None and bool(queue.settings.wings) and not self._hall.options.wing

    # Queues

    async def _use(self, op: ops.UseQueue, caller: Caller) -> ops.QueueUse:
        queue = self._hall.known_queue(op.queue)
        idle_ms = self._consumers.idle_ms(queue)
        if op.counts:
            self._consumers.use(queue)
        await committed(self._hall, queue.shard)
        active = self._consumers.active_consumer(queue)
        return ops.QueueUse(
            waiting_messages(self._hall, queue),
            self._consumers.consumer_count(queue),
            idle_ms,
            active.session.session_id if active is not None else "",
            active.key if active is not None else 0,
        )

    async def _remove_queue(self, op: ops.RemoveQueue, caller: Caller) -> int:
        self._hall.known_queue(op.queue)
        use = await self._router.dispatch(ops.UseQueue(op.queue, counts=False), caller)
        if op.if_unused and use.consumers:
            raise LonghallError(Code.QUEUE_IN_USE, f"'{op.queue}' has consumers.")
        if op.if_empty and use.ready:
            raise LonghallError(Code.QUEUE_NOT_EMPTY, f"'{op.queue}' has {use.ready} messages.")
        await self._router.dispatch(DeleteQueue(op.queue), caller)
        return use.ready

    async def _retire(self, op: ops.RetireQueue, caller: Caller) -> bool:
        queue = self._hall.known_queue(op.queue)
        if queue.entry.topic_id != op.topic_id or queue.settings.amqp is None:
            return False
        use = await self._router.dispatch(ops.UseQueue(op.queue, counts=False), caller)
        if use.consumers or use.idle_ms < queue.settings.amqp.expires_ms:
            return False
        await self._router.dispatch(DeleteQueue(op.queue), caller)
        return True

    async def _clear(self, op: ops.ClearQueue, caller: Caller) -> int:
        queue = self._hall.known_queue(op.queue)
        await committed(self._hall, queue.shard)
        ready = waiting_messages(self._hall, queue)
        if not queue.queue.in_flight:
            await self._queues.purge(op.queue, 0)
            return ready
        cleared = 0
        while cleared < ready:  # What consumers hold stays with them.
            deliveries = await receive(self._hall, queue, min(CLEAR_BATCH, ready - cleared), 0, 60_000)
            if not deliveries:
                break
            cleared += len(deliveries)
            await settle(self._hall, queue, [one.receipt for one in deliveries])
        return ready

    # Sessions

    def _add_consumer(self, op: ops.AddConsumer, caller: Caller) -> None:
        consumer = NewConsumer(op.key, op.channel, op.queue, op.credit, op.no_ack, op.exclusive, op.priority, op.filter)
        self._consumers.consume(op.session, consumer, op.stream)

    def _give_credit(self, op: ops.GiveCredit | ops.EndHeld, caller: Caller) -> None:
        for key, credit in op.credits:
            self._consumers.give_credit(op.session, key, credit)

    async def _take(self, op: ops.TakeMessage, caller: Caller) -> ops.TakenMessage:
        queue = self._hall.known_queue(op.queue)
        delivery = await self._consumers.take(op.session, op.queue, op.no_ack)
        return ops.TakenMessage(delivery, waiting_messages(self._hall, queue) if delivery is not None else 0)

    def _end(self, op: ops.EndHeld, caller: Caller) -> Pending[None] | Coroutine[Any, Any, None]:
        if op.how == ops.REQUEUE:
            return self._requeue(op, caller)
        self._give_credit(op, caller)
        if op.how == ops.DONE:
            return self._consumers.release(op.session, op.queue, op.receipts)
        if op.how == ops.SETTLE:
            return self._consumers.settle(op.session, op.queue, op.receipts, caller.identity)
        if op.how == ops.UNSEEN:
            return self._consumers.hand_back(op.session, op.queue, op.receipts)
        return self._consumers.reject(op.session, op.queue, op.receipts)

    async def _requeue(self, op: ops.EndHeld, caller: Caller) -> None:
        """Give messages back. The credit comes after them, or it would be spent on the messages behind them."""
        try:
            await self._consumers.requeue(op.session, op.queue, op.receipts, caller.identity)
        finally:
            self._give_credit(op, caller)


def _view(exchange: Exchange) -> ops.ExchangeView:
    one = exchange.declared
    return ops.ExchangeView(one.host, one.name, one.kind, one.durable, one.auto_delete, one.internal, one.arguments)


def _fields(one: ops.BindingView) -> dict[str, Any]:
    return {
        "host": one.host,
        "source": one.source,
        "to_exchange": one.to_exchange,
        "destination": one.destination,
        "key": one.key,
        "arguments": one.arguments,
    }
