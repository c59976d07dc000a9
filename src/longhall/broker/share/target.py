"""One partition of a fetch of a share member: what is asked for, then the result."""

from __future__ import annotations

from typing import final

from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.share.acquisition import Acquired
from longhall.broker.share.holdings import Holding
from longhall.errors import Code


@final
class ShareTarget:
    """One partition of a fetch: the request, then the result."""

    def __init__(self, partition: Partition, queue: RunningQueue, holding: Holding) -> None:
        self.partition = partition
        self.queue = queue
        self.holding = holding
        self.acquired = Acquired()
        self.code: Code | None = None
        self.message = ""
