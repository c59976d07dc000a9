"""Sealed topics at the Kafka door: batches are sealed before the broker gets them, and opened for consumers.

The process that has the connection of a Kafka client is the one that leads the partition, since the protocol has
clients ask the leader. Sealing is still a step before the broker: it never gets a batch of a sealed topic in clear.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from longhall.broker.configuration import AS_PRODUCED, SEALED
from longhall.broker.fetch import PartitionFetch
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.front.sealing.batches import BatchSealer
from longhall.queues.envelope import SEAL
from longhall.queues.settings import QueueSettings
from longhall.records.compression import NONE

_SEAL_HEADER: Final = SEAL.encode()

Errors = dict[str, LonghallError]  # By topic: why its key is not to be had.


@final
class KafkaSealing:
    """Seals what is produced and opens what is fetched, by topic."""

    def __init__(self, hall: Hall, batches: BatchSealer, key_of_tenant: Callable[[str], str]) -> None:
        self._hall = hall
        self._key_of_tenant = key_of_tenant
        self._batches = batches

    def check_key(self, name: str | None) -> None:
        """INVALID_CONFIGURATION if this node does not have the master key that a configuration names."""
        try:
            if name:
                self._batches.keys.master_of(name)
        except LonghallError as error:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"{SEALED}: {error}") from None

    def new_configuration(self, given: Mapping[str, str], tenant: str) -> Mapping[str, str]:
        """The configuration of a topic that a user of this tenant creates: sealed as the tenant wants it, unless it has
        `longhall.sealed` itself. INVALID_CONFIGURATION if the key is not here.
        """
        usual = self._key_of_tenant(tenant)
        if usual and SEALED not in given:
            given = {**given, SEALED: usual}
        self.check_key(given.get(SEALED))
        return given

    # Produce

    def is_sealed(self, name: str, partition: int) -> bool:
        """True if batches for this partition have to be sealed, and this process leads it."""
        found = self._hall.partition(name, partition)
        return found is not None and found.options.is_sealed and not found.elsewhere

    def has_key(self, name: str) -> bool:
        """True if batches of a sealed topic can be sealed without waiting."""
        try:
            if self._batches.keys.sealing(name) is None:
                return False
        except LonghallError:
            return False  # `fetch_keys` says why.
        settings = self._queue_settings(name)
        return settings is None or not _is_digested(settings) or self._batches.keys.oldest(name) is not None

    async def fetch_keys(self, names: Sequence[str]) -> Errors:
        """Fetch the keys of sealed topics; the errors of those that are not to be had."""
        errors: Errors = {}
        for name, outcome in zip(names, await asyncio.gather(*map(self._fetch, names)), strict=True):
            if outcome is not None:
                errors[name] = outcome
        return errors

    async def _fetch(self, name: str) -> LonghallError | None:
        try:
            await self._batches.keys.fetch_sealing(name)
            await self._batches.keys.fetch_oldest(name)
        except LonghallError as error:
            return error
        return None

    def seal(self, name: str, partition: int, frame: bytes, at: int, size_bytes: int) -> bytes:
        """The stored form of a batch in a frame. LonghallError if it is no batch, or its key is not at hand."""
        keys = self._batches.keys
        cipher = keys.sealing(name)
        if cipher is None:
            raise LonghallError(Code.KEY_UNAVAILABLE, "the key was given up in this moment; try again")
        settings = self._queue_settings(name)
        if settings is None:
            return self._batches.seal_batch(cipher, partition, frame, at, size_bytes)
        digests = keys.oldest(name) if _is_digested(settings) else None
        return self._batches.seal_records(cipher, digests, frame, at, size_bytes)

    # Fetch

    def has_seals(self, wanted: Sequence[PartitionFetch]) -> bool:
        """True if something that was fetched may be sealed."""
        for one in wanted:
            if _may_have_seals(one):
                return True
        return False

    async def open(self, names: Sequence[str], wanted: Sequence[PartitionFetch]) -> None:
        """Open what was fetched, in place. A partition whose first batch does not open has the error."""
        for name, one in zip(names, wanted, strict=True):
            partition = one.partition
            if partition is None or not _may_have_seals(one):
                continue
            try:
                opened = await self._batches.open_all(name, partition.number, b"".join(one.buffers))
            except LonghallError as error:
                one.buffers = []
                one.size_bytes = 0
                one.code = error.code
            else:
                one.buffers = list(opened)
                one.size_bytes = sum(map(len, opened))

    def _queue_settings(self, name: str) -> QueueSettings | None:
        """The settings of the queue that owns this topic; None for any other topic."""
        entry = self._hall.catalogue.queues.by_name.get(name)
        return entry.settings if entry is not None and entry.owns_topic else None


def _may_have_seals(one: PartitionFetch) -> bool:
    """True if something of a partition may be sealed. A queue that never was sealed may have dead letters of one that
    is: those have the header of their seal, which is looked for as bytes, since few queues have any.
    """
    partition = one.partition
    if not one.buffers or partition is None:
        return False
    if partition.options.has_seals or not partition.has_rules:
        return partition.options.has_seals
    is_compressed = partition.options.compression not in (AS_PRODUCED, NONE)
    return is_compressed or any(_SEAL_HEADER in bytes(buffer) for buffer in one.buffers)


def _is_digested(settings: QueueSettings) -> bool:
    return settings.deduplication == "content"
