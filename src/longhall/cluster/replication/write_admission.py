"""Write admission: whether a replica takes messages, as `Hall.refusal` tells the rest of the broker.

it does not lead, or the first entry of its epoch is not committed     NOT_LEADER
it is transferring its leadership                                      NOT_LEADER
fewer than `in_sync_min` replicas are in sync                          NOT_ENOUGH_REPLICAS
otherwise                                                              messages are taken

A topic with `min.insync.replicas` of its own, and one that is acknowledged by one host, decides the third case itself:
`broker/send.py` reads `Hall.in_sync_count`.
"""

from __future__ import annotations

import asyncio
from typing import final

from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.shards.commit_tracker import CommitTracker


@final
class WriteAdmission:
    """The write admission of one replica. `is_serving` is True from the commit of its epoch's first entry on."""

    def __init__(self, hall: Hall, in_sync_min: int) -> None:
        self.is_serving = False
        self.is_transferring = False
        self._hall = hall
        self._in_sync_min = in_sync_min
        self._epoch_committed: asyncio.Future[None] | None = None
        hall.refusal = Code.NOT_LEADER

    def begin_epoch(self) -> asyncio.Future[None]:
        """An epoch begins; returns what is done when its first entries are committed."""
        self._epoch_committed = asyncio.get_running_loop().create_future()
        return self._epoch_committed

    def commit_epoch(self) -> None:
        """Everything of the epoch so far is committed."""
        if self._epoch_committed is not None and not self._epoch_committed.done():
            self._epoch_committed.set_result(None)

    def update(self, leading: CommitTracker | None) -> None:
        """Decide again whether messages are taken. `leading` is None at a replica that does not lead."""
        self._hall.is_short = leading is not None and len(leading.in_sync) < self._in_sync_min
        self._hall.in_sync_count = len(leading.in_sync) if leading is not None else 1
        if not self.is_serving or leading is None or self.is_transferring:
            self._hall.refusal = Code.NOT_LEADER
        else:
            self._hall.refusal = Code.NOT_ENOUGH_REPLICAS if self._hall.is_short else None

    def stop(self) -> None:
        """The replica leads no more."""
        self.is_serving = False
        self._hall.refusal = Code.NOT_LEADER

    def abandon_epoch(self) -> None:
        """The epoch ended before its first entries were committed."""
        if self._epoch_committed is not None and not self._epoch_committed.done():
            self._epoch_committed.set_exception(LonghallError(Code.NOT_LEADER, "another leader was chosen"))
