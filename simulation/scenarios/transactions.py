"""Transactional writers that also commit offsets, with and without rising epochs."""

from __future__ import annotations

import asyncio
import random
from typing import final

from longhall.client.groups import Committed, Membership
from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.client.transactions import Identity
from longhall.errors import LonghallError
from longhall.records.batch import build_batch
from simulation.checkers.sends import Outcome, Place, Send, Transaction
from simulation.checkers.topic_state import TransactionalOffsetOracle
from simulation.scenarios.produce_outcomes import produce_once
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.writers import records_of, values_for

TRIES_MAX = 20


@final
class TransactionalWriter:
    """One transactional id. Transaction N writes to some partitions and commits offset N for a group of its own."""

    def __init__(self, context: RunContext, name: str, places: list[Place], *, rising: bool) -> None:
        self.offsets = TransactionalOffsetOracle(f"group-of-{name}")
        self._context = context
        self._name = name
        self._places = places
        self._rising = rising
        self._chance: random.Random = context.stream(name)
        self._sequences: dict[Place, int] = {}
        self._who = Identity(-1, -1)
        self._number = 0
        self._sends = 0

    async def run(self, pause_s: float) -> None:
        hall = await self._context.connect(self._name)
        fenced = True
        while not self._context.closing:
            await asyncio.sleep(self._chance.expovariate(1 / pause_s))
            if fenced:
                try:
                    await self._identify(hall)
                except LonghallError:
                    continue
            fenced = not await self._transact(hall)
        await self.finish(hall)

    async def finish(self, hall: Hall) -> None:
        """End any open transaction, by initialising the same transactional id again."""
        while True:
            try:
                await self._identify(hall)
                return
            except LonghallError:
                await asyncio.sleep(0.5)

    async def found(self, hall: Hall) -> None:
        """Read the group's offset and report it to the oracle."""
        place = self._places[0]
        found = await hall.groups.offsets(self.offsets.group, [place], stable=True)
        self.offsets.found(found[place].offset if place in found else -1)

    async def _identify(self, hall: Hall) -> None:
        self._who = await hall.transactions.identify(self._name, timeout_ms=30_000)
        self._sequences.clear()

    async def _transact(self, hall: Hall) -> bool:
        """Run one transaction; False if it did not end as planned, and the producer must be initialised again."""
        number = self._number
        self._number += 1
        transaction = self._context.log.beginning(f"{self._name} transaction {number}")
        places = self._chance.sample(self._places, self._chance.randint(1, min(3, len(self._places))))
        whole = await self._fill(hall, transaction, number, places)
        if self._chance.random() < 0.05:
            # Abandon the transaction: its timeout or the next producer must abort it.
            transaction.outcome = Outcome.UNKNOWN
            return False
        commit = whole and self._chance.random() < 0.75
        transaction.commit = commit
        try:
            self._who = await hall.transactions.end(self._name, self._who, commit=commit, rising=self._rising)
        except (Refused, Unreachable):
            transaction.outcome = Outcome.UNKNOWN
            self.offsets.ended(number, Outcome.UNKNOWN, commit)
            return False
        transaction.outcome = Outcome.ACKNOWLEDGED
        self.offsets.ended(number, Outcome.ACKNOWLEDGED, commit)
        if self._rising:
            self._sequences.clear()
        return whole

    async def _fill(self, hall: Hall, transaction: Transaction, number: int, places: list[Place]) -> bool:
        try:
            if not self._rising:
                await hall.transactions.add_partitions(self._name, self._who, [(p.topic, p.partition) for p in places])
            for place in places:
                if not await self._write(hall, transaction, place):
                    return False
            if not self._rising:
                await hall.transactions.add_offsets(self._name, self._who, self.offsets.group)
            await hall.transactions.commit_offsets(
                self._name,
                self._who,
                self.offsets.group,
                {self._places[0]: Committed(number)},
                Membership(),
                rising=self._rising,
            )
        except (Refused, Unreachable):
            return False
        return True

    async def _write(self, hall: Hall, transaction: Transaction, place: Place) -> bool:
        send: Send = self._context.log.sending(
            place,
            self._name,
            self._sends,
            values_for(self._context, self._chance, self._name, self._sends),
            transaction,
        )
        self._sends += 1
        batch = build_batch(
            records_of(self._context, send),
            producer_id=self._who.producer_id,
            producer_epoch=self._who.epoch,
            base_sequence=self._sequences.get(place, 0),
            transactional=True,
        )
        self._sequences[place] = self._sequences.get(place, 0) + len(send.values)
        for _ in range(TRIES_MAX):
            failure = await produce_once(
                hall,
                self._context.log,
                send,
                batch,
                transactional_id=self._name,
                joins_by_writing=self._rising,
            )
            if failure is None:
                return True
            if isinstance(failure, Refused) and not failure.retriable:
                return False
            send.outcome = Outcome.UNKNOWN
            await asyncio.sleep(self._chance.uniform(0.05, 0.5))
        return False
