"""The gate between the doors of this process and the broker: messages of sealed queues pass it sealed, and no other.

    operation                                         at the gate
    send, settle with sends, publish, commit          bodies are sealed under the newest data key of their queue
    receive, take, receive from any, push             deliveries are opened; see `receiver` for pushes
    peek, list leases, search, letters                opened too; a search for text in bodies is refused
    edit a letter                                     the new body is sealed as the old one was
    uploads, a move to a queue that is not the source refused: they need clear text in the broker, or another key
    show, rotate and forget data keys                 carried out here, with the catalogue's leader
    create a queue                                    sealed as its creator's tenant wants it, if nothing else is said
    create and configure a queue, seal a tenant       the master key that the settings name has to exist here, unless
                                                      the door lets it come later, as SQS does

The gate is in the process that has the client's connection, so the broker, its replicas and the connections between
processes have ciphertext only. It knows no protocol and no storage.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar, final

import msgspec

from longhall.broker.pending import Pending, failed, started
from longhall.broker.seal_keys import KeyRing
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.errors import Code, LonghallError
from longhall.front.sealing.data_keys import DataKeys
from longhall.front.sealing.messages import MessageSealer
from longhall.front.sealing.publications import PublicationSealer
from longhall.front.sealing.receiver import OpeningReceiver
from longhall.queues.messages import Accepted, Delivery, Letter, LetterPage, MoveTask, Page, QueueView, WriteBack
from longhall.queues.settings import QueueSettings
from longhall.service import directory_operations as directory_ops
from longhall.service import exchange_operations as exchange_ops
from longhall.service import queue_operations as ops
from longhall.service import seal_operations as seal_ops
from longhall.service.router import Router
from longhall.service.sessions import ConnectionReceiver, PushReceiver

R = TypeVar("R")

KeyOfTenant = Callable[[str], str]  # The master key of what users of a tenant create; empty for none.

_UPLOADS: Final = (ops.BeginUpload, ops.AddUploadPart, ops.FinishUpload)


@final
class SealingGate:
    """The gate of one process. Fulfils `MessageGate` of the router and `PushGate` of its sessions."""

    def __init__(
        self, router: Router, keys: DataKeys, randomness: Callable[[int], bytes], key_of_tenant: KeyOfTenant
    ) -> None:
        self.keys = keys
        self._key_of_tenant = key_of_tenant
        self.sealer = MessageSealer(keys, randomness)
        self._router = router
        self._publications = PublicationSealer(router, self.sealer)
        self._ways: dict[type[Operation[Any]], Callable[[Any, Caller], Pending[Any] | None]] = {
            ops.SendMessages: self._send,
            ops.ReceiveMessages: self._receive,
            ops.ReceiveFromAny: self._receive_from_any,
            ops.SettleWithSends: self._settle_with_sends,
            ops.PeekMessages: self._browse,
            ops.ListLeases: self._browse,
            ops.SearchMessages: self._search,
            ops.ListLetters: self._list_letters,
            ops.ReadLetter: self._read_letter,
            ops.EditLetter: self._edit_letter,
            ops.StartMove: self._start_move,
            ops.CreateQueue: self._create,
            directory_ops.SealTenant: self._seal_tenant,
            ops.ConfigureQueue: self._configure,
            exchange_ops.TakeMessage: self._take,
            exchange_ops.PublishMessages: self._publications.publish,
            exchange_ops.CommitTransaction: self._publications.commit,
            seal_ops.ShowSealing: self._show_keys,
            seal_ops.RotateDataKey: self._rotate,
            seal_ops.ForgetDataKey: self._forget,
            **dict.fromkeys(_UPLOADS, self._upload),
        }

    def intercept(self, operation: Operation[Any], caller: Caller) -> Pending[Any] | None:
        """Carry out an operation with messages that may be sealed; None for every other one."""
        way = self._ways.get(type(operation))
        if way is None:
            return None
        try:
            return way(operation, caller)
        except LonghallError as error:
            return failed(error)

    def receiver(self, session_id: str, owner: ConnectionReceiver) -> PushReceiver:
        """What gets the pushes of a session, and passes them on in clear."""
        return OpeningReceiver(self._router, self.sealer, session_id, owner)

    # Sending

    def _send(self, op: ops.SendMessages, caller: Caller) -> Pending[list[Accepted]] | None:
        view = self._router.view(op.queue)
        if view is None:
            return _kept(self._send_to_unknown(op, caller))
        if not view.settings.sealed:
            return None
        sealed = self.sealer.seal_now(op.queue, view.settings, op.messages)
        if sealed is not None:
            return self._router.dispatch(ops.SendMessages(op.queue, sealed), caller)
        return _kept(self._send_sealed(op, view.settings, caller))

    async def _send_sealed(self, op: ops.SendMessages, settings: QueueSettings, caller: Caller) -> list[Accepted]:
        messages = await self.sealer.seal(op.queue, settings, op.messages)
        return await self._router.dispatch(ops.SendMessages(op.queue, messages), caller)

    async def _send_to_unknown(self, op: ops.SendMessages, caller: Caller) -> list[Accepted]:
        """This process does not know the queue yet, or it does not exist."""
        view = await self._find(op.queue)
        if view is None or not view.settings.sealed:
            return await self._router.dispatch(op, caller)
        return await self._send_sealed(op, view.settings, caller)

    def _settle_with_sends(self, op: ops.SettleWithSends, caller: Caller) -> Pending[list[list[Accepted]]] | None:
        if self.keys.masters is None and not any(self._is_sealed(one.queue) for one in op.sends):
            return None
        return _kept(self._settle_and_send(op, caller))

    async def _settle_and_send(self, op: ops.SettleWithSends, caller: Caller) -> list[list[Accepted]]:
        sends: list[WriteBack] = []
        for one in op.sends:
            view = await self._find(one.queue) if one.queue else None
            if view is not None and view.settings.sealed:
                messages = await self.sealer.seal(one.queue, view.settings, one.messages)
                one = msgspec.structs.replace(one, messages=messages)
            sends.append(one)
        return await self._router.dispatch(ops.SettleWithSends(op.queue, op.receipts, sends), caller)

    # Receiving

    def _receive(self, op: ops.ReceiveMessages, caller: Caller) -> Pending[list[Delivery]]:
        if self._is_sealed(op.queue) and self.keys.sealing(op.queue) is None:
            # A key that is not to be had refuses before anything is leased.
            return started(self._receive_sealed(op, caller))
        return self._opened(op.queue, self._router.dispatch(op, caller))

    async def _receive_sealed(self, op: ops.ReceiveMessages, caller: Caller) -> list[Delivery]:
        await self.keys.fetch_sealing(op.queue)
        return await self._opened(op.queue, self._router.dispatch(op, caller))

    def _opened(self, queue: str, pending: Pending[list[Delivery]]) -> Pending[list[Delivery]]:
        """The deliveries of a reply in clear; the same waiting, and the same end if the caller goes away.

        A node without master keys looks too: a queue that is not sealed may have dead letters of one that is, and what
        cannot be opened is refused.
        """
        if pending.known and not _has_seal(pending.reply):
            return pending
        result: Pending[list[Delivery]] = Pending()
        result.when_cancelled(pending.cancel)
        pending.when_done(partial(self._open, queue, result))
        return result

    def _open(self, queue: str, result: Pending[list[Delivery]], done: Pending[list[Delivery]]) -> None:
        if done.error is not None:
            result.fail(done.error)
            return
        deliveries = done.result()
        if not _has_seal(deliveries):
            result.complete(deliveries)
            return
        try:
            opened = self.sealer.open_now(queue, deliveries)
        except LonghallError:
            opened = None  # One by one: the others are delivered.
        if opened is not None:
            result.complete(opened)
            return
        result.keep()
        result.when_abandoned(partial(self._return, queue))
        result.run(self._open_each(queue, deliveries))

    async def _open_each(self, queue: str, deliveries: list[Delivery]) -> list[Delivery]:
        """Those that open. Without any, the first error: a key that is not to be had does not cost an attempt, and a
        broken message keeps its lease, so that it goes to the dead letters after its attempts.
        """
        opened: list[Delivery] = []
        returned: list[Delivery] = []
        first: LonghallError | None = None
        for delivery in deliveries:
            try:
                opened.append(await self.sealer.open_one(queue, delivery))
            except LonghallError as error:
                first = first or error
                if error.code is not Code.SEAL_BROKEN:
                    returned.append(delivery)
        self._return(queue, returned)
        if first is not None and not opened:
            raise first
        return opened

    def _return(self, queue: str, deliveries: list[Delivery]) -> None:
        operation = ops.undelivered(queue, deliveries)
        if operation is not None:
            self._router.dispatch(operation)

    def _receive_from_any(self, op: ops.ReceiveFromAny, caller: Caller) -> Pending[list[tuple[str, Delivery]]]:
        return started(self._open_any(op, caller))

    async def _open_any(self, op: ops.ReceiveFromAny, caller: Caller) -> list[tuple[str, Delivery]]:
        opened: list[tuple[str, Delivery]] = []
        first: LonghallError | None = None
        for queue, delivery in await self._router.dispatch(op, caller):
            try:
                opened += [(queue, one) for one in await self._open_each(queue, [delivery])]
            except LonghallError as error:
                first = first or error
        if first is not None and not opened:
            raise first
        return opened

    def _take(self, op: exchange_ops.TakeMessage, caller: Caller) -> Pending[exchange_ops.TakenMessage]:
        pending = self._router.dispatch(op, caller)
        if pending.known and (pending.reply.delivery is None or not pending.reply.delivery.seal):
            return pending
        return _kept(self._open_taken(op, pending, caller))

    async def _open_taken(
        self, op: exchange_ops.TakeMessage, pending: Pending[exchange_ops.TakenMessage], caller: Caller
    ) -> exchange_ops.TakenMessage:
        taken = await pending
        delivery = taken.delivery
        if delivery is None or not delivery.seal:
            return taken
        try:
            taken.delivery = await self.sealer.open_one(op.queue, delivery)
        except LonghallError:
            how = exchange_ops.UNSEEN
            ended = exchange_ops.EndHeld(op.queue, op.session, [delivery.receipt], how, [])
            if delivery.receipt:
                await self._router.dispatch(ended, caller)
            raise
        return taken

    # Looking

    def _browse(self, op: Any, caller: Caller) -> Pending[Page]:
        return _kept(self._open_page(op, caller))

    async def _open_page(self, op: Any, caller: Caller) -> Page:
        page: Page = await self._router.dispatch(op, caller)
        for seen in page.messages:
            seen.delivery = await self.sealer.open_one(op.queue, seen.delivery)
        return page

    def _search(self, op: ops.SearchMessages, caller: Caller) -> Pending[Page]:
        if op.text and self._is_sealed(op.queue):
            raise LonghallError(Code.SEALED, f"Queue '{op.queue}' is sealed: its bodies cannot be searched for text.")
        return self._browse(op, caller)

    def _list_letters(self, op: ops.ListLetters, caller: Caller) -> Pending[LetterPage]:
        return _kept(self._open_letters(op, caller))

    async def _open_letters(self, op: ops.ListLetters, caller: Caller) -> LetterPage:
        page = await self._router.dispatch(op, caller)
        page.letters = [await self.sealer.open_letter(op.queue, letter) for letter in page.letters]
        return page

    def _read_letter(self, op: ops.ReadLetter, caller: Caller) -> Pending[Letter]:
        return _kept(self._open_letter(op, op.queue, caller))

    async def _open_letter(self, op: Operation[Letter], queue: str, caller: Caller) -> Letter:
        return await self.sealer.open_letter(queue, await self._router.dispatch(op, caller))

    def _edit_letter(self, op: ops.EditLetter, caller: Caller) -> Pending[Letter]:
        return _kept(self._edit_sealed(op, caller))

    async def _edit_sealed(self, op: ops.EditLetter, caller: Caller) -> Letter:
        if op.body is not None and not op.seal:
            letter = await self._router.dispatch(ops.ReadLetter(op.queue, op.message_id), caller)
            body = op.body
            if letter.seal:
                seal, body = await self.sealer.reseal(letter, op.body)
                op = ops.EditLetter(op.queue, op.message_id, body, op.attributes, seal)
        return await self._open_letter(op, op.queue, caller)

    # Keys

    def _show_keys(self, op: seal_ops.ShowSealing, caller: Caller) -> Pending[KeyRing]:
        return _kept(self.keys.read_ring(op.name))

    def _rotate(self, op: seal_ops.RotateDataKey, caller: Caller) -> Pending[KeyRing]:
        return _kept(self._rotate_and_rewrap(op.name))

    async def _rotate_and_rewrap(self, name: str) -> KeyRing:
        ring = await self.keys.rotate(await self.keys.read_ring(name))
        return await self.keys.rewrap(ring)

    def _forget(self, op: seal_ops.ForgetDataKey, caller: Caller) -> Pending[KeyRing]:
        return _kept(self._destroy(op.name, op.number))

    async def _destroy(self, name: str, number: int) -> KeyRing:
        return await self.keys.destroy(await self.keys.read_ring(name), number)

    # What needs clear text, or another key

    def _upload(self, op: Any, caller: Caller) -> None:
        if self._is_sealed(op.queue):
            raise LonghallError(Code.SEALED, f"Queue '{op.queue}' is sealed: it takes no messages in parts.")

    def _start_move(self, op: ops.StartMove, caller: Caller) -> Pending[MoveTask] | None:
        return _kept(self._move(op, caller)) if op.target else None

    async def _move(self, op: ops.StartMove, caller: Caller) -> MoveTask:
        """A sealed message can go back to the queue that sealed it, and to no other one."""
        sources = await self._router.dispatch(ops.ListDeadLetterSources(op.queue), caller)
        for name in (op.queue, *sources):
            view = await self._find(name)
            if view is not None and view.settings.sealed and name != op.target:
                raise LonghallError(
                    Code.SEALED,
                    f"'{op.queue}' has messages that are sealed for '{name}': they can move back there, not to "
                    f"'{op.target}'.",
                )
        return await self._router.dispatch(op, caller)

    def _create(self, op: ops.CreateQueue, caller: Caller) -> Pending[QueueView] | None:
        usual = self._key_of_tenant(caller.tenant)
        if not usual or op.settings.sealed or op.topic or self._router.view(op.queue) is not None:
            self._check_settings(op, caller)
            return None
        self.keys.master_of(usual)  # Without its key the queue is not created at all, also where a key may come later.
        settings = op.settings
        # AMQP takes messages of any size unless the queue is sealed; what other doors ask for is theirs to change.
        whole_bytes_max = 0 if settings.amqp is not None else settings.whole_bytes_max
        sealed = msgspec.structs.replace(settings, sealed=usual, whole_bytes_max=whole_bytes_max)
        return self._router.dispatch(msgspec.structs.replace(op, settings=sealed), caller)

    def _seal_tenant(self, op: directory_ops.SealTenant, caller: Caller) -> None:
        if op.sealed:
            self.keys.master_of(op.sealed)

    def _check_settings(self, op: ops.CreateQueue | ops.ConfigureQueue, caller: Caller) -> None:
        sealed = op.settings.sealed
        if op.key_later:
            return  # Until the key exists, every message is refused.
        view = self._router.view(op.queue)
        if sealed and (view is None or view.settings.sealed != sealed):
            self.keys.master_of(sealed)

    def _is_sealed(self, queue: str) -> bool:
        """True if the queue is sealed now, as far as this process knows."""
        view = self._router.view(queue)
        return view is not None and bool(view.settings.sealed)

    def _configure(self, op: ops.ConfigureQueue, caller: Caller) -> Pending[None]:
        self._check_settings(op, caller)
        return _kept(self._configure_and_forget(op, caller))

    async def _configure_and_forget(self, op: ops.ConfigureQueue, caller: Caller) -> None:
        await self._router.dispatch(op, caller)
        self.keys.forget(op.queue)  # Another master key holds for the next message.

    async def _find(self, queue: str) -> QueueView | None:
        try:
            return self._router.view(queue) or await self._router.dispatch(ops.DescribeQueue(queue))
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise
            return None


def _has_seal(deliveries: list[Delivery]) -> bool:
    for delivery in deliveries:
        if delivery.seal:
            return True
    return False


def _kept(work: Coroutine[Any, Any, R]) -> Pending[R]:
    """An operation that goes on if its caller goes away: something may be done already."""
    pending = started(work)
    pending.keep()
    return pending
