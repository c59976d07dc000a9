"""Which targets of outboxes do not exist: what the leader of a wing knows of queues that it does not store.

A wing does not have the catalogue: a dead-letter queue that it does not know is in another group, or was deleted. Dead
letters for a queue of another group leave their queue; without a dead-letter queue they have to stay, and are delivered
again. So `Outboxes.missing` has the dead-letter queues that do not exist:

    the hall has deleted the queue, and told the group          at once
    the group could not be told                                 the hall is asked every few seconds
    a queue of this name exists again                           the same

A dead letter that leaves before that waits in its outbox until a queue of this name exists.
"""

from __future__ import annotations

import asyncio
import bisect
from typing import Final, Protocol, final

from longhall.broker.background import cancel
from longhall.broker.feature_gates import may_use_outbox
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.queues.outbox_events import QueueLocation

LOOK_S: Final = 5.0
NAMES_MAX: Final = 100  # Queues that one look asks for; a later look asks for the others.


class QueueLocator(Protocol):
    """The way to the hall; fulfilled by `service.outbox_calls`."""

    async def locate(self, name: str) -> QueueLocation:
        """The current incarnation of a queue. UNKNOWN_QUEUE if it certainly does not exist."""


@final
class TargetWatch:
    """The dead-letter queues that one group does not store. Invariant: a reply of the hall that may be older than a
    deletion does not undo it.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._deletions = 0
        self._asked = ""  # The last name of the look before.
        self._task: asyncio.Task[None] | None = None

    def start(self, locator: QueueLocator) -> None:
        """Look while this node leads. The hall itself knows all queues."""
        if self._hall.options.wing:
            self._task = self._hall.background.start("watch dead-letter queues", lambda: self._look_always(locator))

    async def stop(self) -> None:
        await cancel(self._task)

    def deleted(self, name: str) -> None:
        """The hall has deleted a queue that this group stores, or to which it sends dead letters."""
        self._deletions += 1
        if name in self._letters():
            self._hall.outboxes.missing.add(name)

    async def locate(self, locator: QueueLocator, name: str) -> QueueLocation:
        """Ask the hall for a queue, and remember whether it exists."""
        missing, deletions = self._hall.outboxes.missing, self._deletions
        try:
            location = await locator.locate(name)
        except LonghallError as error:
            if error.code is Code.UNKNOWN_QUEUE:
                missing.add(name)
            raise
        if deletions == self._deletions:
            missing.discard(name)
        return location

    async def look(self, locator: QueueLocator) -> None:
        """Ask for the dead-letter queues of other groups, or for as many of them as one look takes."""
        hall = self._hall
        names = sorted(name for name in self._letters() if hall.running_queue(name) is None)
        hall.outboxes.missing.intersection_update({*names, *hall.outboxes.by_target})
        first = bisect.bisect_right(names, self._asked)
        for name in (names[first:] + names[:first])[:NAMES_MAX]:
            self._asked = name
            try:
                await self.locate(locator, name)
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_QUEUE:
                    return  # The hall does not answer; the next look asks again.

    async def _look_always(self, locator: QueueLocator) -> None:
        while True:
            if may_use_outbox(self._hall):
                await self.look(locator)
            await asyncio.sleep(LOOK_S)

    def _letters(self) -> set[str]:
        """The dead-letter queues of the queues of this group."""
        wanted = (queue.settings.dead_letters for queue in self._hall.queues.values())
        return {letters.queue for letters in wanted if letters is not None}
