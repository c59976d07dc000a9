"""Names of queues that were deleted a moment ago: the service does not give them out again for a minute.

Kept in memory alone: after a restart they are free, which hurts nobody.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.doors.sqs.wire.faults import QUEUE_DELETED_RECENTLY, SqsError

APART_S: Final = 60.0
NAMES_MAX: Final = 10_000


@final
class RecentNames:
    """See the module."""

    def __init__(self) -> None:
        self.apart_s = APART_S
        self._deleted_s: dict[str, float] = {}  # The oldest first.

    def deleted(self, name: str) -> None:
        """The queue of this name is gone."""
        self._deleted_s.pop(name, None)
        if len(self._deleted_s) >= NAMES_MAX:
            del self._deleted_s[next(iter(self._deleted_s))]
        self._deleted_s[name] = asyncio.get_running_loop().time()

    def check(self, name: str) -> None:
        """Raises SqsError while the name is not to be had."""
        at_s = self._deleted_s.get(name)
        if at_s is not None and asyncio.get_running_loop().time() - at_s < self.apart_s:
            said = "You must wait 60 seconds after deleting a queue before you can create another with the same name."
            raise SqsError(QUEUE_DELETED_RECENTLY, said)
