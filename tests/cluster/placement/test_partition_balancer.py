"""Balance of partitions over groups: a host that joins takes its share, and that of one that leaves goes to others."""

from __future__ import annotations

from longhall.broker.topic_administration import create_topic
from longhall.cluster.placement.partition_balancer import PartitionBalancer
from longhall.coordination.ports import ReplicationGroup
from tests.cluster.placement.test_partition_mover import MAIN, TOPIC, House, live


class Hosts:
    """Two hosts, each with its wing; some of them are usable."""

    def __init__(self) -> None:
        self.records = {
            f"host-{number}": ReplicationGroup(name=f"host-{number}", number=number, hosts=(number,))
            for number in (1, 2)
        }
        self.leads = self.may_spread = True
        self.usable = frozenset({1})

    def hosts_usable(self) -> frozenset[int]:
        return self.usable

    def leader(self, number: int) -> int:
        return number


def _counts(house: House) -> list[int]:
    return [sum(not one.elsewhere for one in house.hall(group).routes.get(TOPIC, ())) for group in (MAIN, 1, 2)]


def test_a_host_that_joins_takes_its_share_and_one_that_is_drained_gives_it_back() -> None:
    async def play(house: House) -> None:
        await house.inside(MAIN, lambda hall: create_topic(hall, "stays", 4, {}))
        hosts = Hosts()
        balancer = PartitionBalancer(house.hall(MAIN), hosts, house.mover, automatic=False)
        for number in range(4):
            await house.send(MAIN, 0, number=number)
            await house.move(1, number=number)
        assert await balancer.balance(dry_run=True) == []
        hosts.usable = frozenset({1, 2})
        plan = await balancer.balance(dry_run=True)
        assert [(move.source, move.target) for move in plan] == [("host-1", "host-2")] * 2
        assert _counts(house) == [0, 4, 0], "a dry run moves nothing"
        moved = await house.inside(MAIN, lambda hall: balancer.balance(dry_run=False))
        assert moved == plan
        await house.ended()
        assert _counts(house) == [0, 2, 2]
        assert await balancer.balance(dry_run=True) == []
        hosts.usable = frozenset({2})
        assert len(await house.inside(MAIN, lambda hall: balancer.balance(dry_run=False))) == 2
        await house.ended()
        assert _counts(house) == [0, 0, 4]
        for number in range(4):
            assert await house.send(2, 1, number=number) == 1
        assert all(not one.elsewhere for one in house.hall(MAIN).routes["stays"]), "the hall stays out of it"

    live(play, partitions=4)
