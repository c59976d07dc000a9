"""All wings of a hall, as one of its nodes knows them: where they are, who leads them, how their leaders are asked.

Every node hears of them and asks them; `reconciler` looks after them besides, at the node that leads the hall.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.leadership import NOBODY, Host
from longhall.broker.pending import Pending, failed
from longhall.broker.placement import WING_STEP, PartitionLocation
from longhall.cluster.membership.coordinator_session import CoordinatorSession
from longhall.cluster.placement.group_client import GroupClient
from longhall.cluster.placement.topic_presence import TopicPresence
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.leader_client import OnLate
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Caller, Operation
from longhall.coordination.ports import Coordinator, ReplicationGroup, Watch
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

R = TypeVar("R")


class GroupDirectory:
    """See the module. The first half of `broker.placement.Wings`."""

    def __init__(
        self, hall: Hall, session: CoordinatorSession, coordinator: Coordinator, incarnation: int, secrets: Secrets
    ) -> None:
        self.records: Mapping[str, ReplicationGroup] = {}
        self.on_wings: Callable[[list[ReplicationGroup]], None] = (
            _nobody_starts  # The wings that are to have a process here.
        )
        self.on_known: Callable[[list[ReplicationGroup]], None] = (
            _nobody_remembers  # All wings that were ever heard of.
        )
        self._hall = hall
        self._seat = session
        self._coordinator = coordinator
        self._incarnation = incarnation
        self._secrets = secrets
        self._guests: dict[int, GroupClient] = {}
        self._lives = TopicPresence()
        self._watch: Watch | None = None
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Hear of wings from now on."""
        self._watch = self._coordinator.watch_wings(self._wings_changed)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for guest in self._guests.values():
            await guest.close()
        self._guests.clear()

    def _wings_changed(self, found: Mapping[str, ReplicationGroup]) -> None:
        # A wing that is removed keeps its record. One whose record is gone was lost with the coordinator's data: it is
        # still there, and its record is restored together with that of the hall.
        records = self.records = {**self.records, **found}
        self.on_known(list(records.values()))
        for wing in records.values():
            if wing.number not in self._guests:
                self._guests[wing.number] = GroupClient(
                    self._hall.world,
                    self._seat.node,
                    self._incarnation,
                    self._coordinator.beside(wing.name),
                    f"the wing {wing.name}",
                    self._secrets,
                )
        self._changed.set()
        self.on_wings([wing for wing in records.values() if self._seat.node in wing.hosts])

    # What is known

    @property
    def leads(self) -> bool:
        """Whether this node leads the hall."""
        return self._seat.leads(CATALOGUE_SHARD)

    def is_placed(self, topic: str) -> bool:
        return bool(self._lanes(topic))

    def kept(self, topic: str, partition: int) -> PartitionLocation:
        lanes = self._lanes(topic)
        number = lanes[partition % len(lanes)]
        guest = self._guests.get(number)
        if guest is None:
            return PartitionLocation(NOBODY, 0, [], [])
        base, state = number * WING_STEP, guest.state
        there = self._lives.is_there(number, self._hall.catalogue.topics[topic], self._hall.time.now_ms())
        return PartitionLocation(
            base + state.leader if guest.is_led and there else NOBODY,
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

    def placed_in(self, number: int) -> list[str]:
        """The topics that are placed in a wing, by name."""
        topics = self._hall.catalogue.topics
        return sorted(name for name, topic in topics.items() if number in topic.options.wings)

    def guest(self, number: int) -> GroupClient | None:
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
        return entry.options.wings if entry is not None else []

    # Asking

    def call(
        self,
        number: int,
        operation: Operation[R],
        caller: Caller = NOBODY_IN_PARTICULAR,
        *,
        now: bool = False,
        incarnation: bytes = b"",
        on_late: OnLate | None = None,
    ) -> Pending[R]:
        """Have the leader of a group carry out an operation; it waits a while for one. With `now` it is refused with
        NOT_LEADER, and certainly not done, where there is none.
        """
        guest = self._guests.get(number)
        if guest is None:
            code = Code.NOT_LEADER if now else Code.NOT_READY
            return failed(LonghallError(code, f"the group {number} is not known here yet; try again"))
        return guest.call(operation, caller, now=now, incarnation=incarnation, on_late=on_late)


def _nobody_remembers(wings: list[ReplicationGroup]) -> None:
    """Likewise."""


def _nobody_starts(wings: list[ReplicationGroup]) -> None:
    """Until assembly says otherwise."""
