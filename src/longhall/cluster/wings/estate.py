"""All wings of a hall, as one of its nodes knows them: where they are, who leads them, how their leaders are asked.

Every node hears of them and asks them. The one that leads the hall looks after them besides: it makes the wings that a
placement needs, lets them follow hosts that come and go, and sees to it that each has what was placed there, no less
and no more. Nothing is taken away from a wing before it is certain that this node leads: what one that was deposed does
not know may just have been made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, final

import msgspec

from longhall.broker.configuration import PLACEMENT, WINGS, wings_of
from longhall.broker.hall import Hall
from longhall.broker.leadership import NOBODY, Host
from longhall.broker.placement import WING_STEP, Kept
from longhall.broker.waiting import committed
from longhall.cluster.seat import Seat
from longhall.cluster.wings import calls
from longhall.cluster.wings.calls import Verb
from longhall.cluster.wings.guest import Guest
from longhall.cluster.wings.placing import (
    NAMED,
    SHARE,
    home_of,
    hosts_for,
    least_used,
    next_hosts,
    reserved_hosts,
    settings_in_lane,
    wing_of_host,
)
from longhall.coordination.ports import Conflict, CoordinationError, Coordinator, Ids, Watch, Wing
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

WINGS_MAX: Final = 127  # In all its life: the numbers of their partitions fit into 31 bits.
UP_S_MAX: Final = 30.0  # For wings that are made to come up.
TEND_S: Final = 2.0
LOOK_S: Final = 60.0  # How often a leader compares what wings have with what they should have, unasked.
PAUSE_S: Final = 0.2

R = TypeVar("R")

_log = logging.getLogger("longhall.wings")


@final
class Estate:
    """Fulfils `broker.placement.Wings`."""

    def __init__(
        self,
        hall: Hall,
        seat: Seat,
        coordinator: Coordinator,
        incarnation: int,
        factor: int,
        confirm: Callable[[], Awaitable[None]],
    ) -> None:
        self.records: Mapping[str, Wing] = {}
        self.on_wings: Callable[[list[Wing]], None] = _nobody_starts  # The wings that are to have a process here.
        self._hall = hall
        self._seat = seat
        self._coordinator = coordinator
        self._incarnation = incarnation
        self._factor = factor
        self._confirm = confirm
        self._guests: dict[int, Guest] = {}
        self._watch: Watch | None = None
        self._tending: asyncio.Task[None] | None = None
        self._looked_s = -LOOK_S
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Hear of wings, and look after them while this node leads."""
        self._watch = self._coordinator.watch_wings(self._wings_changed)
        self._tending = self._loop.create_task(self._tend_always(), name="tend wings")

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._tending is not None:
            self._tending.cancel()
        for guest in self._guests.values():
            await guest.close()
        self._guests.clear()

    def _wings_changed(self, records: Mapping[str, Wing]) -> None:
        self.records = records
        for wing in records.values():
            if wing.number not in self._guests:
                self._guests[wing.number] = Guest(
                    self._hall.world,
                    self._seat.node,
                    self._incarnation,
                    self._coordinator.beside(wing.name),
                    f"the wing {wing.name}",
                )
        self.on_wings([wing for wing in records.values() if self._seat.node in wing.hosts])

    # What is known

    @property
    def is_empty(self) -> bool:
        """Whether there are no wings at all."""
        return not self._guests

    def is_placed(self, topic: str) -> bool:
        return bool(self._guests) and bool(self._lanes(topic))

    def kept(self, topic: str, partition: int) -> Kept:
        lanes = self._lanes(topic)
        number = lanes[partition % len(lanes)]
        guest = self._guests.get(number)
        if guest is None:
            return Kept(NOBODY, 0, [], [])
        base, state = number * WING_STEP, guest.state
        return Kept(
            base + state.leader if guest.is_led else NOBODY,
            state.epoch,
            [base + node for node in state.replicas],
            [base + node for node in state.in_sync],
        )

    def brokers(self) -> list[Host]:
        return [
            msgspec.structs.replace(host, node=number * WING_STEP + host.node)
            for number, guest in sorted(self._guests.items())
            for host in guest.members()
        ]

    def guest(self, number: int) -> Guest | None:
        """How a wing is asked, if it is known here."""
        return self._guests.get(number)

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        """These wings in the order in which this node should ask them: what is led here, what belongs here, what is
        led at all, and the rest.
        """
        return sorted(numbers, key=self._distance)

    def _distance(self, number: int) -> tuple[bool, bool, bool, int]:
        guest = self._guests.get(number)
        here = self._seat.node
        led = guest is not None and guest.is_led
        led_here = guest is not None and led and guest.state.leader == here
        home = any(wing.number == number and wing.hosts[:1] == (here,) for wing in self.records.values())
        # Of those that are as far away as each other, hosts begin with different ones.
        return (not led_here, not led, not home, (number - here) % (1 << 20))

    def _lanes(self, topic: str) -> list[int]:
        entry = self._hall.catalogue.topics.get(topic)
        return wings_of(entry.configuration.get(WINGS, "")) if entry is not None else []

    # Asking

    async def call(self, number: int, verb: Verb[R], *arguments: Any, waits: bool = False) -> R:
        """Have the leader of a wing do something; it waits a while for one. LonghallError as the verb raises it."""
        answer = await self._known(number).carry(calls.DESK, "", calls.encode_call(verb, *arguments), waits)
        return calls.decode_result(verb, answer)

    async def call_now(self, number: int, verb: Verb[R], *arguments: Any) -> R:
        """The same; NOT_LEADER at once, with nothing done, where nobody leads now."""
        answer = await self._known(number).carry_now(calls.DESK, "", calls.encode_call(verb, *arguments))
        return calls.decode_result(verb, answer)

    def _known(self, number: int) -> Guest:
        guest = self._guests.get(number)
        if guest is None:
            raise LonghallError(Code.NOT_LEADER, f"the wing {number} is not known here yet")
        return guest

    # Placing

    async def choose(self, placement: str, name: str) -> list[int]:
        if placement.startswith(NAMED):
            wing = self.records.get(placement.removeprefix(NAMED))
            if wing is None:
                raise LonghallError(
                    Code.INVALID_CONFIGURATION,
                    f"There is no wing '{placement.removeprefix(NAMED)}': `longhall cluster wings` lists them.",
                )
            chosen = [wing]
        else:
            chosen = await self._host_wings()
            if placement == SHARE:
                chosen = [least_used(chosen, self._used())]
        await asyncio.gather(*(self._come_up(wing) for wing in chosen))
        return [wing.number for wing in chosen]

    async def _host_wings(self) -> list[Wing]:
        """The wings of all hosts that may keep something, made if they were not."""
        usable = self._usable()
        if not usable:
            raise LonghallError(Code.NOT_READY, "No host can keep a wing at the moment.")
        wanted = [wing_of_host(host) for host in sorted(usable)]
        for host in sorted(usable):
            if wing_of_host(host) not in self.records:
                await self.make(wing_of_host(host), hosts_for(host, usable, self._factor))
        records = await self._coordinator.wings()
        return [records[name] for name in wanted if name in records]

    async def make(self, name: str, hosts: tuple[int, ...], *, reserved: bool = False) -> None:
        """A wing that was not there; nothing if somebody was quicker."""
        (number,) = await self._coordinator.take_ids(Ids.WINGS, 1, first_min=1)
        if number > WINGS_MAX:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"A cluster can have had {WINGS_MAX} wings, and no more.")
        try:
            await self._coordinator.change_wing(None, Wing(name=name, number=number, hosts=hosts, reserved=reserved))
            _log.info("a wing is made", extra={"wing": name, "hosts": hosts})
        except Conflict:
            _log.debug("the wing is there already", extra={"wing": name})

    async def _come_up(self, wing: Wing) -> None:
        until_s = self._loop.time() + UP_S_MAX
        guest = self._guests.get(wing.number)
        while (
            guest is None and self._loop.time() < until_s
        ):  # The record has just been written: it is about to be heard.
            await asyncio.sleep(PAUSE_S)
            guest = self._guests.get(wing.number)
        copies_min = min(self._seat.in_sync_min, len(wing.hosts))
        if guest is None or not await guest.safe(copies_min, max(0.0, until_s - self._loop.time())):
            raise LonghallError(Code.NOT_READY, f"The wing '{wing.name}' does not come up; try again.")

    def _usable(self) -> frozenset[int]:
        alive = frozenset(host.node for host in self._seat.members())
        return alive - self._seat.drained - reserved_hosts(self.records.values())

    def _used(self) -> dict[int, int]:
        used: dict[int, int] = {}
        for topic in self._hall.catalogue.topics.values():
            for number in wings_of(topic.configuration.get(WINGS, "")):
                used[number] = used.get(number, 0) + 1
        return used

    async def furnish(self, name: str) -> None:
        topic = self._hall.catalogue.topics.get(name)
        if topic is None:
            return
        lanes = wings_of(topic.configuration.get(WINGS, ""))
        entry = self._hall.catalogue.queues.by_name.get(name)
        plain = {key: value for key, value in topic.configuration.items() if key not in (PLACEMENT, WINGS)}
        await asyncio.gather(
            *(
                self._furnish_one(
                    number,
                    calls.Furniture(
                        name=name,
                        topic_id=topic.topic_id,
                        partitions=len(topic.partitions),
                        configuration=plain,
                        queue=settings_in_lane(entry.settings, lane) if entry is not None else None,
                    ),
                )
                for lane, number in enumerate(lanes)
            )
        )

    async def _furnish_one(self, number: int, furniture: calls.Furniture) -> None:
        try:
            await self.call(number, calls.FURNISH, furniture)
        except LonghallError as error:
            if error.code is not Code.TOPIC_EXISTS:
                raise
            await self._make_way(number, furniture)
            await self.call(number, calls.FURNISH, furniture)

    async def _make_way(self, number: int, furniture: calls.Furniture) -> None:
        """Something of the same name was left there when it was deleted here."""
        inventory = await self.call(number, calls.INVENTORY)
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        await self._confirm()
        known = self._hall.catalogue.topics.get(furniture.name)
        left = dict(inventory).get(furniture.name)
        if left is not None and known is not None and known.topic_id == furniture.topic_id != left:
            await self.call(number, calls.CLEAR, furniture.name, left)

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        for number in wings:
            try:
                await self.call_now(number, calls.CLEAR, name, topic_id)
            except LonghallError as error:
                self._looked_s = -LOOK_S  # It goes with the next look.
                _log.info("a wing is cleared later", extra={"wing": number, "reason": str(error)})

    # Looking after them

    @property
    def leads(self) -> bool:
        """Whether this node leads the hall."""
        return self._seat.leads(CATALOGUE_SHARD)

    async def _tend_always(self) -> None:
        while True:
            await asyncio.sleep(TEND_S)
            if not self.leads:
                self._looked_s = -LOOK_S  # Whoever leads next looks at once.
                continue
            try:
                await self._tend()
            except (CoordinationError, LonghallError, OSError, TimeoutError) as error:
                _log.info("wings are looked after again in a moment", extra={"reason": str(error)})

    async def _tend(self) -> None:
        if not self.records:
            return
        usable = self._usable()
        if any(home_of(wing) for wing in self.records.values()):
            for host in sorted(usable):
                if wing_of_host(host) not in self.records:  # A host that came later has a wing like all others.
                    await self.make(wing_of_host(host), hosts_for(host, usable, self._factor))
        for wing in list(self.records.values()):
            await self._settle(wing, usable)
        if self._loop.time() - self._looked_s >= LOOK_S:
            for wing in list(self.records.values()):
                await self._compare(wing)
            self._looked_s = self._loop.time()

    async def _settle(self, wing: Wing, usable: frozenset[int]) -> None:
        """One step towards where the wing should be: processes first, copies behind them."""
        guest = self._guests.get(wing.number)
        if guest is None or not guest.is_led:
            return
        alive = frozenset(host.node for host in self._seat.members())
        hosts = wing.hosts
        if home_of(wing):
            # Whoever is away for a moment comes back: only those that are drained, or reserved for others, leave.
            gone = self._seat.drained | reserved_hosts(self.records.values())
            staying = usable | {host for host in wing.hosts if host not in gone and host not in alive}
            hosts = next_hosts(wing, staying, guest.state.replicas, self._factor)
        if hosts != wing.hosts and hosts:
            await self._coordinator.change_wing(wing, msgspec.structs.replace(wing, hosts=hosts))
            _log.info("hosts of a wing", extra={"wing": wing.name, "hosts": hosts, "were": wing.hosts})
        await guest.drain(frozenset(host for host in hosts if host in self._seat.drained and not wing.reserved))

    async def _compare(self, wing: Wing) -> None:
        """It gets what it should have and has not; what it should not have goes."""
        found = await self.call(wing.number, calls.INVENTORY)
        placed = {
            name: topic.topic_id
            for name, topic in self._hall.catalogue.topics.items()
            if wing.number in wings_of(topic.configuration.get(WINGS, ""))
        }
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])  # What was deleted may be undeleted until then.
        await self._confirm()
        if not self.leads:
            return
        for name, topic_id in found:
            if placed.get(name) != topic_id:
                _log.info("a wing has what was deleted, and is cleared of it", extra={"wing": wing.name, "topic": name})
                await self.call(wing.number, calls.CLEAR, name, topic_id)
        has = dict(found)
        for name, topic_id in placed.items():
            if has.get(name) != topic_id:
                await self.furnish(name)


def _nobody_starts(wings: list[Wing]) -> None:
    """Until assembly says otherwise."""
