"""How far a concourse reaches: what it needs of the wings, whoever keeps them."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from longhall.cluster.wings.calls import Verb

R = TypeVar("R")


class Reach(Protocol):
    """Fulfilled by `reconciler.Steward`."""

    @property
    def leads(self) -> bool:
        """Whether this node leads the hall, and may furnish."""

    def is_placed(self, topic: str) -> bool: ...

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        """These wings in the order in which this node should ask them."""

    async def call(self, number: int, verb: Verb[R], *arguments: Any, waits: bool = False, life: bytes = b"") -> R:
        """Have the leader of a wing do something; it waits a while for one."""

    async def call_now(self, number: int, verb: Verb[R], *arguments: Any, life: bytes = b"") -> R:
        """The same; NOT_LEADER at once, with nothing done, where nobody leads now."""

    async def choose(self, placement: str, name: str) -> list[int]: ...

    async def furnish(self, name: str) -> None: ...

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None: ...
