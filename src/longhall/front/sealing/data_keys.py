"""The data keys that this process uses: rings from the catalogue, and keys in clear from the key providers.

    ring     asked of the catalogue's leader again after RING_S, so that a rotation or a destroyed key is noticed soon
    key      in clear for at most the reuse period of its topic; then its provider is asked again, and may refuse

Requests for the same ring or key share one call. A process that has no master keys, and a key that no provider gives,
refuse: nothing falls back to clear text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, TypeVar, final

from longhall.broker.seal_keys import KeyRing, WrappedKey
from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code, LonghallError
from longhall.front.keys.master_keys import MasterKeys
from longhall.front.keys.provider import KeyContext, unknown_key
from longhall.front.sealing.cipher import DataCipher
from longhall.queues.settings import MANAGED_KEY
from longhall.service.seal_operations import AddDataKey, DestroyDataKey, ReadKeyRing, RewrapDataKey
from longhall.world.ports import Clock

RING_S: Final = 1.0
RINGS_MAX: Final = 10_000
KEYS_MAX: Final = 10_000
SERVICE_KEY: Final = "alias/aws/sqs"  # As AWS calls the key that it has for SQS: the managed one, unless it is listed.
ADD_TRIES_MAX: Final = 4  # Another front end may add the next key first.

R = TypeVar("R")


class CallCatalogue(Protocol):
    """Carries out an operation at the leader of the catalogue."""

    def __call__(self, operation: Operation[R], /) -> Awaitable[R]: ...


@final
class DataKeys:
    """The data keys of one process. `masters` is None on a node without master keys."""

    def __init__(self, masters: MasterKeys | None, call: CallCatalogue, clock: Clock) -> None:
        self.masters = masters
        self._call = call
        self._clock = clock
        self._rings: dict[str | bytes, tuple[KeyRing, float]] = {}  # By name and by topic id; with the time of reading.
        self._ciphers: dict[tuple[bytes, int], tuple[DataCipher, float]] = {}  # With the end of their use.
        self._under_way: dict[Any, asyncio.Task[Any]] = {}

    # What is known without waiting

    def sealing(self, name: str) -> DataCipher | None:
        """The cipher with which messages for this topic or queue are sealed now; None if it has to be fetched."""
        ring = self._known_ring(name)
        key = self._sealing_key(ring) if ring is not None else None
        return self.opening(ring.topic_id, key.number) if ring is not None and key is not None else None

    def oldest(self, name: str) -> DataCipher | None:
        """The cipher of the oldest data key; None if it has to be fetched."""
        ring = self._known_ring(name)
        return self.opening(ring.topic_id, ring.keys[0].number) if ring is not None and ring.keys else None

    def opening(self, topic_id: bytes, number: int) -> DataCipher | None:
        """The cipher of a data key; None if it has to be fetched."""
        found = self._ciphers.get((topic_id, number))
        if found is None or found[1] <= self.now_s():
            return None
        ring = self._known_ring(topic_id)
        return found[0] if ring is not None and ring.find(number) is not None else None

    def topic_id_now(self, name: str) -> bytes | None:
        """The topic id of a topic or queue; None if it has to be asked for."""
        ring = self._known_ring(name)
        return ring.topic_id if ring is not None else None

    def forget(self, name: str) -> None:
        """Ask for the ring of a topic or queue again when it is needed: its settings have changed."""
        found = self._rings.pop(name, None)
        if found is not None:
            self._rings.pop(found[0].topic_id, None)

    # What may have to be waited for

    async def topic_id_of(self, name: str) -> bytes:
        """The topic id of a topic or queue."""
        return (await self._ring(name, ReadKeyRing(name))).topic_id

    async def fetch_sealing(self, name: str) -> DataCipher:
        """The cipher for what is sent now; makes the first data key under the master key of a topic or queue."""
        ring = await self._ring(name, ReadKeyRing(name))
        if self._sealing_key(ring) is None:
            ring = await self._shared(("rotate", ring.topic_id), partial(self.rotate, ring))
        return await self._cipher(ring, ring.keys[-1])

    async def fetch_opening(self, topic_id: bytes, number: int) -> DataCipher:
        """The cipher of a data key. KEY_UNKNOWN if it was destroyed."""
        try:
            ring = await self._ring(topic_id, ReadKeyRing("", topic_id))
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_TOPIC:
                raise
            raise LonghallError(Code.KEY_UNKNOWN, "the data key went with its queue, which was deleted") from None
        key = ring.find(number)
        if key is None:
            raise LonghallError(Code.KEY_UNKNOWN, f"data key {number} of '{ring.topic}' was destroyed")
        return await self._cipher(ring, key)

    async def fetch_oldest(self, name: str) -> DataCipher:
        """The cipher of the oldest data key: digests under it stay the same through rotations."""
        ring = await self._ring(name, ReadKeyRing(name))
        if not ring.keys:
            ring = await self._shared(("rotate", ring.topic_id), partial(self.rotate, ring))
        return await self._cipher(ring, ring.keys[0])

    async def read_ring(self, name: str) -> KeyRing:
        """The ring of a topic or queue as the catalogue has it now."""
        return self._note(await self._call(ReadKeyRing(name)))

    async def rotate(self, ring: KeyRing) -> KeyRing:
        """Make the next data key; what is sent from now on is sealed under it. The new ring has at least one more."""
        if not ring.master:
            raise LonghallError(Code.INVALID_REQUEST, f"'{ring.topic}' is not sealed.")
        before = ring.next_number
        for _ in range(ADD_TRIES_MAX):
            masters, master = self._masters(), self.master_of(ring.master)
            number = ring.next_number
            data_key = await masters.generate(master, context_of(ring.topic_id, number))
            key = WrappedKey(number, master, data_key.wrapped, self._clock.wall_ms())
            ring = self._note(await self._call(AddDataKey(ring.topic_id, key)))
            if ring.find(number) == key:
                self._keep(ring, DataCipher(ring.topic_id, number, data_key.clear))
            if ring.next_number > before:
                return ring
        raise LonghallError(Code.KEY_UNAVAILABLE, "other nodes add data keys at the same time; try again")

    async def rewrap(self, ring: KeyRing) -> KeyRing:
        """Wrap the data keys before the last one anew, under the present version of their master keys."""
        masters = self._masters()
        for key in ring.keys[:-1]:
            context = context_of(ring.topic_id, key.number)
            wrapped = await masters.rewrap(key.master, key.wrapped, context)
            changed = WrappedKey(key.number, key.master, wrapped, key.created_ms)
            ring = self._note(await self._call(RewrapDataKey(ring.topic_id, changed)))
        return ring

    async def destroy(self, ring: KeyRing, number: int) -> KeyRing:
        """Destroy a data key that does not seal any more."""
        self._ciphers.pop((ring.topic_id, number), None)
        return self._note(await self._call(DestroyDataKey(ring.topic_id, number)))

    def master_of(self, name: str) -> str:
        """The master key that a setting names. KEY_UNKNOWN if this node does not have it."""
        masters = self._masters()
        is_managed = name == MANAGED_KEY or (name == SERVICE_KEY and name not in masters)
        found = masters.managed if is_managed else name
        if not found:
            raise LonghallError(Code.KEY_UNKNOWN, "this node has no managed master key: see `managed` of its keys file")
        if found not in masters:
            raise unknown_key(found)
        return found

    # Inside

    def _masters(self) -> MasterKeys:
        if self.masters is None:
            raise LonghallError(Code.KEY_UNKNOWN, "this node has no master keys: start it with --keys")
        return self.masters

    def _sealing_key(self, ring: KeyRing) -> WrappedKey | None:
        """The data key that seals: the last one, if it is wrapped under the master key that the topic has now."""
        if not ring.keys or not ring.master or ring.keys[-1].master != self.master_of(ring.master):
            return None
        return ring.keys[-1]

    def _known_ring(self, by: str | bytes) -> KeyRing | None:
        found = self._rings.get(by)
        return found[0] if found is not None and self.now_s() - found[1] < RING_S else None

    async def _ring(self, by: str | bytes, operation: ReadKeyRing) -> KeyRing:
        ring = self._known_ring(by)
        if ring is None:
            ring = await self._shared(("ring", by), lambda: self._read(operation))
        return ring

    async def _read(self, operation: ReadKeyRing) -> KeyRing:
        return self._note(await self._call(operation), operation.name)

    def _note(self, ring: KeyRing, name: str = "") -> KeyRing:
        if len(self._rings) >= RINGS_MAX:
            self._rings.clear()
        known = (ring, self.now_s())
        self._rings[ring.topic_id] = self._rings[name or ring.topic] = known
        return ring

    async def _cipher(self, ring: KeyRing, key: WrappedKey) -> DataCipher:
        found = self.opening(ring.topic_id, key.number)
        if found is None:
            found = await self._shared((ring.topic_id, key.number), lambda: self._unwrap(ring, key))
        return found

    async def _unwrap(self, ring: KeyRing, key: WrappedKey) -> DataCipher:
        clear = await self._masters().unwrap(key.master, key.wrapped, context_of(ring.topic_id, key.number))
        return self._keep(ring, DataCipher(ring.topic_id, key.number, clear))

    def _keep(self, ring: KeyRing, cipher: DataCipher) -> DataCipher:
        if len(self._ciphers) >= KEYS_MAX:
            self._ciphers.clear()
        self._ciphers[ring.topic_id, cipher.number] = (cipher, self.now_s() + ring.reuse_ms / 1000)
        return cipher

    async def _shared(self, by: Any, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """One call for all who ask for the same at the same time. It goes on if one of them goes away."""
        task: asyncio.Task[R] | None = self._under_way.get(by)
        if task is None:
            task = self._under_way[by] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda done: self._done(by, done))
        return await asyncio.shield(task)

    def _done(self, by: Any, task: asyncio.Task[Any]) -> None:
        del self._under_way[by]
        if not task.cancelled():
            task.exception()  # Those who wait have it; it is not lost if all of them went away.

    def now_s(self) -> float:
        """The clock of what is remembered here."""
        return self._clock.monotonic_ms() / 1000


def context_of(topic_id: bytes, number: int) -> KeyContext:
    """What a wrapped data key is bound to."""
    return {"longhall-topic": topic_id.hex(), "longhall-key": str(number)}
