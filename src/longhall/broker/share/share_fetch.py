"""A fetch of a share member: messages of the partitions of its session, waiting for some if there are none.

    take       levels of priority first, then every partition is asked in turn until there are records enough
    wait       nothing, or less than the smallest reply wanted, and time left: wait until something is committed, given
               back, or a lease ends
    release    all leases are committed before the member sees a message

The member is not in the list of receivers that take turns: a member that waits for one partition is woken for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from longhall.broker.hall import Hall
from longhall.broker.queues.delivery.lease_timer import arm_lease_timer
from longhall.broker.queues.delivery.receive_any import wait_for_any
from longhall.broker.share.acquisition import Acquired, Wanted, acquire
from longhall.broker.share.cursors import follow_settings, group_of, lock_ms_of
from longhall.broker.share.level_acquisition import acquire_copies, has_copies
from longhall.broker.share.target import ShareTarget
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.topics.share_settings import ShareSettings


async def fetch_shared(
    hall: Hall,
    targets: Sequence[ShareTarget],
    wanted: Wanted,
    settings: ShareSettings,
    wait_ms: int,
    bytes_min: int,
) -> None:
    """Acquire messages of these partitions; the results are in the targets, and committed."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + wait_ms / 1000
    for target in targets:
        follow_settings(target.queue, settings)
    while True:
        left_s = ends_s - loop.time()
        enough = bytes_min <= 1 or left_s <= 0 or _has_bytes(hall, targets, bytes_min)
        if enough and await _take(hall, targets, wanted, settings):
            break
        left_s = ends_s - loop.time()
        if left_s <= 0 or not targets:
            break
        queues = list({target.queue.number: target.queue for target in targets}.values())
        for queue in queues:
            arm_lease_timer(hall, queue)
        await wait_for_any(hall, queues, left_s)
    for shard in {target.queue.shard.number: target.queue.shard for target in targets}.values():
        await committed(hall, shard)


async def _take(hall: Hall, targets: Sequence[ShareTarget], wanted: Wanted, settings: ShareSettings) -> bool:
    """Ask every partition once; True if the fetch has a result."""
    left = Wanted(wanted.records_max, wanted.bytes_max, wanted.batch_size, wanted.is_strict, wanted.consumer)
    found = False
    for queue in {target.queue.number: target.queue for target in targets if target.queue.levels}.values():
        own = [target for target in targets if target.queue is queue]
        try:
            await acquire_copies(hall, queue, own, left, lock_ms_of(queue, settings))
        except LonghallError as error:
            for target in own:
                target.code, target.message = error.code, str(error)
            found = True
    for target in targets:
        if target.code is not None:
            continue
        if target.acquired.records:  # Copies of a level; the batches of the partition come with the next fetch.
            found = True
            continue
        if left.records_max <= 0 or left.bytes_max <= 0:
            break
        try:
            target.acquired = await _acquire(hall, target, left, settings)
        except LonghallError as error:
            target.code, target.message = error.code, str(error)
            found = True
            continue
        found = found or target.acquired.records > 0
        left.records_max -= target.acquired.records
        left.bytes_max -= target.acquired.size_bytes
    return found


async def _acquire(hall: Hall, target: ShareTarget, wanted: Wanted, settings: ShareSettings) -> Acquired:
    queue, holding = target.queue, target.holding
    if queue.removed or target.partition.deleted:
        raise LonghallError(Code.UNKNOWN_TOPIC_ID, "The topic was deleted.")
    holding.forget_lapsed(queue, hall.time.now_ms())
    if group_of(queue) and holding.lane in queue.queue.state.lanes:
        room = settings.locks_max - queue.queue.cursor(holding.lane).outstanding
        if room <= 0 and not queue.queue.available_again:
            return Acquired()
        count = min(room, wanted.records_max) if room > 0 else wanted.records_max
        strict, consumer = wanted.is_strict, wanted.consumer
        wanted = Wanted(count, wanted.bytes_max, wanted.batch_size, strict, consumer, room > 0, max(room, 0))
    return await acquire(hall, queue, target.partition, wanted, lock_ms_of(queue, settings), holding)


def _has_bytes(hall: Hall, targets: Sequence[ShareTarget], bytes_min: int) -> bool:
    """True if so many bytes can be acquired, or if that cannot be known without reading from the disk."""
    found = 0
    for target in targets:
        queue, partition = target.queue, target.partition
        lane = target.holding.lane
        if queue.removed or partition.deleted or lane not in queue.queue.state.lanes:
            return True
        queue.queue.tick(hall.time.now_ms())
        if has_copies(queue):
            return True
        limit = partition.high_watermark if queue.reads_uncommitted else partition.last_stable_offset
        first = queue.queue.first_waiting(lane, limit)
        if first < 0:
            continue
        read = partition.log.read(max(first, partition.log.start_offset), bytes_min, limit)
        if read.cold is not None or read.code is not None:
            return True
        found += read.size_bytes
    return found >= bytes_min
