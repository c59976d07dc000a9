"""Publications through exchanges: which of them are for sealed queues, and their seals.

The route of a publication is asked for before its body leaves this process, and remembered for ROUTE_S. A message that
goes to one queue is sealed for it. A message for several queues, one of which is sealed, is refused: it would need a
seal for each. The broker refuses clear text for a sealed queue, should a binding change in that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar, final
from weakref import WeakValueDictionary

from longhall.broker.pending import Pending, started
from longhall.broker.queues.sending.publication import Publication, Published
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.exchanges.properties import decode_properties, decode_stored
from longhall.front.sealing.messages import MessageSealer
from longhall.queues.messages import QueueView
from longhall.service.exchange_operations import CommitTransaction, FindRoute, PublishMessages
from longhall.service.queue_operations import DescribeQueue
from longhall.service.router import Router

ROUTE_S: Final = 1.0
ROUTES_MAX: Final = 10_000

R = TypeVar("R")
_Way = tuple[str, str, str, bytes]  # Virtual host, exchange, routing key and headers.


@final
class PublicationSealer:
    """Seals the publications of one process. On a node without master keys they pass: the broker refuses them."""

    def __init__(self, router: Router, sealer: MessageSealer) -> None:
        self._router = router
        self._sealer = sealer
        self._routes: dict[_Way, tuple[list[str], float]] = {}
        self._turns: WeakValueDictionary[Caller, asyncio.Lock] = WeakValueDictionary()

    def publish(self, op: PublishMessages, caller: Caller) -> Pending[list[Published]] | None:
        """Seal what is for sealed queues, and publish all; None if nothing has to be sealed, as far as is known."""
        if self._sealer.keys.masters is None or self._may_pass(op.host, op.publications, caller):
            return None
        return _kept(self._publish(op, caller))

    def commit(self, op: CommitTransaction, caller: Caller) -> Pending[list[Published]] | None:
        """The same for a transaction, which is refused as a whole if one of its messages cannot be sealed."""
        if self._sealer.keys.masters is None or self._may_pass(op.host, op.publications, caller):
            return None
        return _kept(self._commit(op, caller))

    async def _publish(self, op: PublishMessages, caller: Caller) -> list[Published]:
        answers: list[Published] = []
        passed: list[Publication] = []
        places: list[int] = []
        async with self._turn(caller):
            await self._seal_each(op, answers, passed, places)
            # Begun in this turn, and awaited behind it: a client's messages stay in their order.
            pending = self._router.dispatch(PublishMessages(op.host, passed), caller)
        for at, answer in zip(places, await pending, strict=True):
            answers[at] = answer
        return answers

    async def _seal_each(
        self, op: PublishMessages, answers: list[Published], passed: list[Publication], places: list[int]
    ) -> None:
        for at, publication in enumerate(op.publications):
            try:
                passed.append(await self._sealed(op.host, publication))
            except LonghallError as error:
                answers.append(Published(0, error.code, str(error)))
            else:
                places.append(at)
                answers.append(Published())

    async def _commit(self, op: CommitTransaction, caller: Caller) -> list[Published]:
        async with self._turn(caller):
            sealed = [await self._sealed(op.host, publication) for publication in op.publications]
            pending = self._router.dispatch(CommitTransaction(op.host, sealed, op.ends), caller)
        return await pending

    def _turn(self, caller: Caller) -> asyncio.Lock:
        """The turn of a client, whose messages wait for each other while a key is fetched; those of others do not."""
        turn = self._turns.get(caller)
        if turn is None:
            turn = self._turns[caller] = asyncio.Lock()
        return turn

    def _may_pass(self, host: str, publications: list[Publication], caller: Caller) -> bool:
        """True if nothing has to be sealed, and nothing of this client waits."""
        turn = self._turns.get(caller)
        return (turn is None or not turn.locked()) and self._all_in_clear(host, publications)

    def _all_in_clear(self, host: str, publications: list[Publication]) -> bool:
        """True if this process knows that no message is for a sealed queue."""
        for publication in publications:
            if publication.message.seal:
                continue
            names = self._names_now(host, publication)
            if names is None:
                return False
            for name in names:
                view = self._router.view(name)
                if view is None or view.settings.sealed:
                    return False
        return True

    async def _sealed(self, host: str, publication: Publication) -> Publication:
        names = self._names_now(host, publication)
        if names is None:
            names = await self._find(host, publication)
        views = [view for view in [await self._view(name) for name in names] if view is not None]
        sealed = [view for view in views if view.settings.sealed]
        if not sealed or publication.message.seal:
            return publication
        if len(views) > 1:
            raise LonghallError(
                Code.SEALED,
                f"the message goes to {len(views)} queues, of which '{sealed[0].name}' is sealed: a sealed message is "
                "for one queue",
            )
        view = sealed[0]
        messages = self._sealer.seal_now(view.name, view.settings, [publication.message])
        if messages is None:
            messages = await self._sealer.seal(view.name, view.settings, [publication.message])
        return Publication(publication.exchange, publication.keys, messages[0])

    def _names_now(self, host: str, publication: Publication) -> list[str] | None:
        """The queues of a message, as far as they are known without asking."""
        if not publication.exchange:
            return [hall_name(host, key) for key in publication.keys]
        found: list[str] = []
        for way in _ways(host, publication):
            known = self._routes.get(way)
            if known is None or self._now_s() - known[1] >= ROUTE_S:
                return None
            found += known[0]
        return list(dict.fromkeys(found))

    async def _find(self, host: str, publication: Publication) -> list[str]:
        found: list[str] = []
        for way in _ways(host, publication):
            try:
                names = await self._router.dispatch(FindRoute(*way))
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_EXCHANGE:
                    raise
                names = []
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[way] = (names, self._now_s())
            found += names
        return list(dict.fromkeys(found))

    async def _view(self, name: str) -> QueueView | None:
        try:
            return self._router.view(name) or await self._router.dispatch(DescribeQueue(name))
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise
            return None

    def _now_s(self) -> float:
        return self._sealer.keys.now_s()


def _ways(host: str, publication: Publication) -> list[_Way]:
    stored = publication.message.amqp
    headers = decode_properties(decode_stored(stored)[2]).headers or b"" if stored else b""
    return [(host, publication.exchange, key, headers) for key in publication.keys]


def _kept(work: Coroutine[Any, Any, R]) -> Pending[R]:
    pending = started(work)
    pending.keep()
    return pending
