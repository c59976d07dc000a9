"""Large messages for readers of a topic and for share groups: whole, within the bound of a reply."""

from __future__ import annotations

from longhall.broker.fetch import PartitionFetch
from longhall.broker.large_fetch import JOINED_BYTES_MAX, has_large, join_large
from longhall.broker.share.acquisition import Wanted, acquire
from longhall.broker.share.holdings import Holding
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import read_records
from tests.broker.desk import stored_batches
from tests.broker.queues.rig import Queues, Rig

SETTINGS = QueueSettings(message_bytes_max=4096, whole_bytes_max=32 << 20, settled="keep")
LARGE = [bytes([number]) * (7 << 20) for number in range(3)]


async def stored(queues: Queues) -> PartitionFetch:
    """A queue with a small and three large messages, as a fetch reads its partition."""
    await queues.desk.create("q", SETTINGS)
    for body in (b"small", *LARGE):
        (accepted,) = await queues.desk.send("q", [Outgoing(body=body, key=b"k")])
        assert accepted.code is None, accepted.message
    partition = queues.life.partition("q")
    fetched = PartitionFetch(partition, 0, 1 << 30, -1)
    fetched.buffers = [batch for _, batch in stored_batches(partition)]
    return fetched


def values(batches: list[bytes]) -> list[bytes | None]:
    return [record.value for batch in batches for record in read_records(batch, 0)]


def test_a_fetch_joins_up_to_the_bound_and_leaves_the_rest_for_the_next() -> None:
    async def play(queues: Queues) -> None:
        fetched = await stored(queues)
        hall = queues.life.hall
        rest = fetched.buffers[3:]
        assert has_large(hall, [fetched])
        await join_large(hall, [fetched])
        assert values([bytes(one) for one in fetched.buffers]) == [b"small", *LARGE[:2]]
        assert fetched.size_bytes < JOINED_BYTES_MAX
        fetched.buffers = rest
        await join_large(hall, [fetched])
        (record,) = read_records(bytes(fetched.buffers[0]), 0)
        assert (record.offset, record.key, record.value) == (3, b"k", LARGE[2])
        assert dict(record.headers).keys().isdisjoint({"longhall.whole", "longhall.whole-bytes"})

    Rig().live(play)


def test_a_share_member_gets_whole_messages_and_the_rest_stays_for_others() -> None:
    async def play(queues: Queues) -> None:
        partition = (await stored(queues)).partition
        assert partition is not None
        hall, queue = queues.life.hall, queues.life.hall.running_queue("q")
        assert queue is not None
        holding = Holding(queue.number, partition.log.partition)
        wanted = Wanted(100, 50 << 20, 100, False, "member")
        acquired = await acquire(hall, queue, partition, wanted, 30_000, holding)
        assert values(acquired.batches) == [b"small", *LARGE[:2]]
        assert (acquired.records, acquired.ranges) == (3, [(0, 2, 1)])
        (last,) = await queues.receive("q")
        assert (last.body, last.attempts) == (LARGE[2], 1)

    Rig().live(play)
