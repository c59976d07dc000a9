"""Queues in a hall on a simulated host: used, killed, and used again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from longhall.broker.queues.service import QueueService
from longhall.errors import Code
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import QueueSettings
from tests.broker import desk as host
from tests.broker.desk import Life

KEEP = QueueSettings(settled="keep")

Play = Callable[["Queues"], Coroutine[Any, Any, Any]]


class Queues:
    """The desk during one life of the hall, in fewer words."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.desk = QueueService(life.hall)

    async def send(self, name: str, *bodies: str, **fields: Any) -> list[str]:
        """Their ids."""
        attributes = {key: ("String", text.encode()) for key, text in fields.pop("attributes", {}).items()}
        accepted = await self.desk.send(
            name, [Outgoing(body=body.encode(), attributes=attributes, **fields) for body in bodies]
        )
        assert [one.code for one in accepted] == [None] * len(bodies), accepted
        return [one.message_id for one in accepted]

    async def receive(self, name: str, count: int = 10, lease_ms: int = 30_000, filter: str = "") -> list[Delivery]:
        return await self.desk.receive(name, count, 0, lease_ms, "", filter)

    async def bodies(self, name: str, count: int = 10, **options: Any) -> list[str]:
        """Received and not settled."""
        return [one.body.decode() for one in await self.receive(name, count, **options)]

    async def drain(self, name: str, filter: str = "") -> list[str]:
        """Everything, received and settled."""
        found: list[str] = []
        while deliveries := await self.receive(name, filter=filter):
            assert await self.desk.settle(name, [one.receipt for one in deliveries]) == [None] * len(deliveries)
            found.extend(one.body.decode() for one in deliveries)
        return found

    async def refused(self, asked: Awaitable[Any]) -> Code:
        """The code with which something is refused."""
        from longhall.errors import LonghallError

        try:
            await asked
        except LonghallError as error:
            return error.code
        raise AssertionError("it was not refused")


class Rig:
    """One host; each `live` is a start of the hall, ended by a kill unless told otherwise."""

    def __init__(self, seed: int = 1, cold: float = 0.0) -> None:
        self.host = host.Desk(seed)
        self.host.host.faults.cold_read_chance = cold
        self.lives: list[Queues] = []

    def live(self, play: Play, *, end: str = "kill") -> Any:
        async def inside(life: Life) -> Any:
            queues = Queues(life)
            self.lives.append(queues)
            queues.desk.start()
            result = await play(queues)
            await queues.desk.stop()
            return result

        result = self.host.live(inside, end=end)
        self.lives[-1].desk.stager._stopped = True  # The dead do nothing, also when they are swept up.
        return result
