"""Routing: what another node has to answer is carried there over the links between nodes, and the answer back.

Nothing is carried twice: whatever may have reached the leader is answered with what came back, or with TIMED_OUT. Only
what was never looked at waits for the next leader. Everything is bounded: how many requests and how many bytes are on
their way, how long each may take, how long one waits while nobody leads; what is large goes in pieces. A leader that
cannot be reached is left alone for a moment (the breaker), so that clients hear at once instead of one after another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, final

import msgspec

from longhall.broker.leadership import NOBODY, Leadership
from longhall.cluster.rpc.peers import Audience, Peers, Reply
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

CARRY: Final = "carry"
PART: Final = "carry-part"  # What comes before the last piece of a large request,
MORE: Final = "carry-more"  # and what follows the first piece of a large answer.
CANCEL: Final = "carry-cancel"
PIECE_BYTES: Final = 4 * 1024 * 1024
CARRIED_MAX: Final = 512  # Requests on their way from this node.
CARRIED_BYTES_MAX: Final = 64 * 1024 * 1024
ANSWER_S_MAX: Final = 35.0
LEADERLESS_S_MAX: Final = 8.0  # While nobody leads, a request waits so long for somebody who does.
LOOK_S: Final = 0.02
BREAK_S: Final = 0.25  # After a leader could not be reached.
CANCEL_S_MAX: Final = 2.0
CHANGED_S: Final = 0.25  # How often whoever waits for an answer looks whether its leader still leads.

Answer = Callable[[str, str, bytes], Coroutine[Any, Any, bytes]]  # Door, client and request, at this node.
# Begins with a request: tells its answer sooner or later, or has still to be waited for.
Begin = Callable[[bytes, Reply], Coroutine[Any, Any, bytes] | None]

_log = logging.getLogger("longhall.routing")


class Carried(msgspec.Struct, array_like=True):
    """What goes over the link."""

    number: int
    door: str = ""
    peer: str = ""
    piece: bytes = b""
    position: int = 0  # Of the answer, where more of it is wanted.
    waits: bool = False  # Nothing is lost when it is cancelled.


class Answered(msgspec.Struct, array_like=True):
    """What comes back."""

    size: int  # Of the whole answer.
    piece: bytes


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Carried)
_answer_decoder = msgspec.msgpack.Decoder(Answered)


@final
class Router:
    """Fulfils `front.carrying.Carrier`, and answers what others carry here."""

    def __init__(
        self,
        leadership: Leadership,
        peers: Peers,
        answer: Answer,
        *,
        confirm: Callable[[], Coroutine[Any, Any, None]] | None = None,
        carried_max: int | None = None,
        changed_s: float | None = CHANGED_S,
    ) -> None:
        """Without `changed_s` nobody looks whether the leader still leads, and without `confirm` nobody asks: where its
        death always breaks the link.
        """
        self._leadership = leadership
        self._peers = peers
        self._answer = answer
        self._confirm = confirm
        self._at_once: dict[str, Begin] = {}
        self._carried_max = carried_max or CARRIED_MAX
        self._changed_s = changed_s
        self._loop = asyncio.get_running_loop()
        self._numbers = int(self._loop.time() * 1_000_000)  # None that an earlier life of this node may have given.
        self._count = 0
        self._bytes = 0
        self._broken_until_s = 0.0
        self._broken_leader = NOBODY
        self._working: dict[tuple[int, int], asyncio.Task[Any]] = {}
        self._waiting: set[tuple[int, int]] = set()  # Of them, what nobody misses when it is cancelled.
        self._telling: set[asyncio.Task[None]] = set()
        self._held: dict[tuple[int, int], list[bytes]] = {}  # Requests, then answers, of which a part is here.
        self._held_bytes = 0
        peers.serve(CARRY, self._serve, Audience.GUESTS)
        peers.serve(PART, self._hold, Audience.GUESTS)
        peers.serve(MORE, self._tell_more, Audience.GUESTS)
        peers.serve(CANCEL, self._cancel, Audience.GUESTS)
        peers.on_asker_lost = self._give_up

    def answer_at_once(self, door: str, begin: Begin) -> None:
        """Answer what is carried to this door without a task for each, where that can be."""
        self._at_once[door] = begin
        self._peers.serve_at_once(CARRY, self._serve_at_once)

    # On the way there

    def elsewhere(self) -> bool:
        """Whether another node answers now."""
        return not self._leadership.leads(CATALOGUE_SHARD)

    async def confirm(self) -> None:
        """See `front.carrying.Carrier`."""
        if self._confirm is not None:
            await self._confirm()

    async def carry(self, door: str, peer: str, request: bytes, waits: bool = False) -> bytes:
        """See `front.carrying.Carrier`."""
        self._admit(request)
        try:
            until_s = self._loop.time() + LEADERLESS_S_MAX
            while True:
                leader = await self._find_leader(until_s)
                if leader == self._leadership.node:
                    return await self._answer(door, peer, request)
                try:
                    return await self._ask(leader, Carried(0, door, peer, request, waits=waits))
                except ConnectionRefusedError:
                    self._break(leader)  # Nothing was sent: whoever leads next may have it.
                except LonghallError as error:
                    if error.code is not Code.NOT_LEADER:
                        raise
                    self._break(leader)  # It was not looked at there.
        finally:
            self._count -= 1
            self._bytes -= len(request)

    async def carry_now(self, door: str, peer: str, request: bytes) -> bytes:
        """The same without waiting for a leader. NOT_LEADER: it was not looked at by anybody."""
        self._admit(request)
        try:
            leader = self._leadership.leader_node(CATALOGUE_SHARD)
            if not self._is_ready(leader):
                raise _nobody()
            try:
                return await self._ask(leader, Carried(0, door, peer, request))
            except ConnectionRefusedError:
                self._break(leader)
                raise _nobody() from None
        finally:
            self._count -= 1
            self._bytes -= len(request)

    def _admit(self, request: bytes) -> None:
        if self._count >= self._carried_max or self._bytes + len(request) > CARRIED_BYTES_MAX:
            raise LonghallError(Code.OVERLOADED, "too much is on its way to the leader; try again in a moment")
        self._count += 1
        self._bytes += len(request)

    def _is_ready(self, leader: int) -> bool:
        """Whether this one leads as far as is known, and can be asked. One that the breaker keeps away cannot."""
        here = leader == self._leadership.node
        ready = self._leadership.leads(CATALOGUE_SHARD) if here else leader in self._peers.addresses
        broken = leader == self._broken_leader and self._loop.time() < self._broken_until_s
        return leader != NOBODY and ready and not broken

    async def _find_leader(self, until_s: float) -> int:
        """Whoever leads, as soon as somebody does."""
        while True:
            leader = self._leadership.leader_node(CATALOGUE_SHARD)
            if self._is_ready(leader):
                return leader
            if self._loop.time() > until_s:
                raise LonghallError(Code.NOT_READY, "no node leads the hall at the moment; try again")
            await asyncio.sleep(LOOK_S)

    async def _ask(self, leader: int, asked: Carried) -> bytes:
        self._numbers += 1
        asked.number = number = self._numbers
        try:
            if self._changed_s is None:
                return await self._exchange(leader, asked)
            return await self._ask_watchfully(leader, asked, self._changed_s)
        except TimeoutError:
            raise LonghallError(Code.TIMED_OUT, "the leader did not answer; it may have done what was asked") from None
        except ConnectionRefusedError:
            raise
        except OSError:
            self._break(leader)
            raise _lost() from None
        except asyncio.CancelledError:
            task = self._loop.create_task(self._tell_cancelled(leader, number))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
            raise

    async def _ask_watchfully(self, leader: int, asked: Carried, changed_s: float) -> bytes:
        """A leader may be asleep, and whoever asks must not sleep with it."""
        asking = self._loop.create_task(self._exchange(leader, asked))
        try:
            while not asking.done():
                await asyncio.wait((asking,), timeout=changed_s)
                if not asking.done() and self._leadership.leader_node(CATALOGUE_SHARD) != leader:
                    raise _lost()
            return asking.result()
        finally:
            asking.cancel()

    async def _exchange(self, leader: int, asked: Carried) -> bytes:
        number, request = asked.number, asked.piece
        last = max(len(request) - 1, 0) // PIECE_BYTES * PIECE_BYTES
        for at in range(0, last, PIECE_BYTES):
            part = _encode(Carried(number, piece=request[at : at + PIECE_BYTES]))
            await self._peers.request(leader, PART, part, ANSWER_S_MAX)
        if last:
            asked = Carried(number, asked.door, asked.peer, request[last:], waits=asked.waits)
        found = await self._peers.request(leader, CARRY, _encode(asked), ANSWER_S_MAX)
        answer = _answer_decoder.decode(found)
        pieces, size = [answer.piece], len(answer.piece)
        while size < answer.size:
            more = _encode(Carried(number, position=size))
            pieces.append(await self._peers.request(leader, MORE, more, ANSWER_S_MAX))
            size += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _break(self, leader: int) -> None:
        self._broken_leader = leader
        self._broken_until_s = self._loop.time() + BREAK_S

    async def _tell_cancelled(self, leader: int, number: int) -> None:
        try:
            await self._peers.request(leader, CANCEL, _encode(Carried(number)), CANCEL_S_MAX)
        except (OSError, TimeoutError, LonghallError):
            pass  # Then the link is lost, and with it what the other side was doing for us.

    # Here

    async def _serve(self, node: int, body: bytes) -> bytes:
        carried = _decode(body)
        key = (node, carried.number)
        request = b"".join([*self._let_go(key), carried.piece])
        if not self._leadership.leads(CATALOGUE_SHARD):
            raise LonghallError(Code.NOT_LEADER, "another node leads the hall by now; try again")
        work = asyncio.current_task()
        assert work is not None
        self._working[key] = work
        if carried.waits:
            self._waiting.add(key)
        try:
            answer = await self._answer(carried.door, carried.peer, request)
        except asyncio.CancelledError:
            raise LonghallError(Code.NOT_READY, "nobody waits any more") from None
        finally:
            self._working.pop(key, None)
            self._waiting.discard(key)
        return self._packed(key, answer)

    def _packed(self, key: tuple[int, int], answer: bytes) -> bytes:
        if len(answer) > PIECE_BYTES:
            self._keep(key, [answer])
        return _encode(Answered(len(answer), answer[:PIECE_BYTES]))

    def _serve_at_once(self, node: int, body: bytes, reply: Reply) -> bool:
        carried = _decode(body)
        begin = self._at_once.get(carried.door)
        key = (node, carried.number)
        if begin is None or key in self._held or not self._leadership.leads(CATALOGUE_SHARD):
            return False
        left = begin(carried.piece, lambda answer: reply(self._packed(key, answer)))
        if left is not None:
            work = self._loop.create_task(left)
            self._working[key] = work
            if carried.waits:
                self._waiting.add(key)
            work.add_done_callback(lambda done: self._finished(key, done, reply))
        return True

    def _finished(self, key: tuple[int, int], work: asyncio.Task[bytes], reply: Reply) -> None:
        self._working.pop(key, None)
        self._waiting.discard(key)
        if work.cancelled():
            return  # Nobody waits any more.
        error = work.exception()
        if error is None:
            reply(self._packed(key, work.result()))
        else:
            _log.error("a request of another worker failed", exc_info=error)

    async def _hold(self, node: int, body: bytes) -> bytes:
        carried = _decode(body)
        key = (node, carried.number)
        if self._held_bytes + len(carried.piece) > CARRIED_BYTES_MAX:
            self._let_go(key)
            raise LonghallError(Code.OVERLOADED, "too much is on its way to the leader; try again in a moment")
        self._keep(key, [carried.piece])
        return b""

    async def _tell_more(self, node: int, body: bytes) -> bytes:
        asked = _decode(body)
        key = (node, asked.number)
        found = self._held.get(key)
        if found is None or asked.position >= len(found[0]):
            raise LonghallError(Code.NOT_READY, "the answer is not kept any more")
        piece = found[0][asked.position : asked.position + PIECE_BYTES]
        if asked.position + len(piece) == len(found[0]):
            self._let_go(key)
        return piece

    def _keep(self, key: tuple[int, int], pieces: list[bytes]) -> None:
        """Until the rest comes or is asked for, but not for ever."""
        if key not in self._held:
            self._loop.call_later(ANSWER_S_MAX, self._let_go, key)
        self._held.setdefault(key, []).extend(pieces)
        self._held_bytes += sum(map(len, pieces))

    def _let_go(self, key: tuple[int, int]) -> list[bytes]:
        pieces = self._held.pop(key, [])
        self._held_bytes -= sum(map(len, pieces))
        return pieces

    async def _cancel(self, node: int, body: bytes) -> bytes:
        key = (node, _decode(body).number)
        self._let_go(key)
        work = self._working.get(key)
        if work is not None:
            work.cancel()
        return b""

    def _give_up(self, node: int) -> None:
        """A node that asked is gone: what waits for it would take messages for nobody."""
        for key in [key for key in self._waiting if key[0] == node]:
            self._working[key].cancel()


def _lost() -> LonghallError:
    return LonghallError(Code.NOT_READY, "the leader was lost; it may have done what was asked")


def _nobody() -> LonghallError:
    return LonghallError(Code.NOT_LEADER, "nobody can be asked at the moment; nothing was done")


def _decode(body: bytes) -> Carried:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.INVALID_REQUEST, f"what was carried cannot be read: {error}") from None


def addresses_of(members: Mapping[int, str]) -> dict[int, tuple[str, int]]:
    """Where nodes listen for each other."""
    found: dict[int, tuple[str, int]] = {}
    for node, address in members.items():
        host, _, port = address.rpartition(":")
        if host:
            found[node] = (host.strip("[]"), int(port))
    return found
