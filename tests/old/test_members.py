"""The directory of a cluster node from the first release with clusters, at feature level 1, unchanged.

`level-1-member-killed` was the only node of its cluster, and was killed. It has the contents that
`tests/old/test_directories.py` describes, in two shards. This version opens it, writes the same formats, and raises its
level on request. Never create it again.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from longhall.broker.queues.upkeep.measurement import depth_of
from longhall.broker.recovery import read_identity
from longhall.cluster.membership.member_file import read_member_file
from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.embedded import EmbeddedStore, EmbeddedTree
from longhall.coordination.ports import Coordinator
from longhall.errors import Code, LonghallError
from longhall.node.assembly import Node
from longhall.node.join_state import RecordDoubted, take_place
from longhall.node.record_wait import RecordWait, copy_report
from longhall.node.room_settings import options_of
from longhall.node.settings import Settings
from longhall.world.real.disk import RealDisk
from longhall.world.real.world import RealWorld, real_world
from simulation.replicas.hall_contents import contents_of

HERE = Path(__file__).parent


@asynccontextmanager
async def running(home: Path, level_max: int) -> AsyncIterator[Node]:
    """The directory's node as leader, with a new coordinator: that of the old cluster is lost."""
    settings = Settings(
        data=str(home / "data"),
        kafka="127.0.0.1:0",
        sqs="127.0.0.1:0",
        amqp="127.0.0.1:0",
        stomp="127.0.0.1:0",
        stomp_websocket="127.0.0.1:0",
        management="127.0.0.1:0",
        prometheus="127.0.0.1:0",
        http="127.0.0.1:0",
        coordinator="zk://nowhere:1",
        in_sync_min=1,
        feature_level_max=level_max,
    )
    tree = RealDisk(str(home / "tree"))
    coordinator = TreeCoordinator(EmbeddedTree(EmbeddedStore(tree)))
    await coordinator.start()
    world = real_world(settings.data)
    try:
        await _recover(world, coordinator, settings)
        place = await take_place(world, coordinator, options_of(settings), 1, level_max=level_max)
        node = Node(world, settings, place)
        await node.start(_fail)
        assert node.cluster_node is not None
        await node.cluster_node.settled()
        yield node
        await node.stop()
    finally:
        await coordinator.close()
        world.close()
        tree.close()


async def _recover(world: RealWorld, coordinator: Coordinator, settings: Settings) -> None:
    """Recover as `longhall cluster recover --unclean 1 --apply` does: logs of that level do not note their replicas."""
    card, identity = read_member_file(world.disk, world.entropy), read_identity(world.disk)
    assert identity is not None
    if identity.member and await coordinator.shard(0) is None:
        doubt = RecordDoubted("the coordinator is another one")
        report = copy_report(world, options_of(settings), identity, card, str(doubt))
        assert await RecordWait(world, coordinator, identity, card, report, doubt).recovery.attempt(None) is None
        await RecordWait(world, coordinator, identity, card, report, doubt).recovery.force(1)


def _fail(error: OSError) -> None:
    raise error


def _messages(node: Node) -> dict[tuple[str, int], list[str]]:
    return {place: [value for value in found.values() if value] for place, found in contents_of(node.hall).items()}


@pytest.mark.timeout(120)
async def test_an_old_member_directory_is_read_continued_and_raised(tmp_path: Path) -> None:
    shutil.unpack_archive(HERE / "level-1-member-killed.tar.gz", tmp_path)
    async with running(tmp_path, 2) as node:
        assert node.hall.feature_level == 1
        found = _messages(node)
        assert found["letters", 0] == ["a", "b", "c"]
        assert found["ledger", 0][:1] == ["paid"]
        offsets = node.hall.groups_of("readers").fetch_offsets("readers", None, False)
        assert [(one.topic, one.partition, one.offset) for one in offsets] == [("letters", 0, 2)]
        queue = node.hall.running_queue("jobs")
        assert queue is not None
        assert depth_of(node.hall, queue).available == 1
    async with running(tmp_path, 1) as node:  # A restart at the old level, since nothing was raised.
        assert _messages(node)["letters", 0] == ["a", "b", "c"]
    async with running(tmp_path, 2) as node:
        assert node.cluster_node is not None
        assert (await node.cluster_node.session.upgrade(2)).level == 2
        assert node.hall.feature_level == 2
    disk = RealDisk(str(tmp_path / "data"))
    identity = read_identity(disk)
    disk.close()
    assert identity is not None
    assert identity.format == 2
    with pytest.raises(LonghallError, match="feature level 2") as refused:
        async with running(tmp_path, 1):
            pass
    assert refused.value.code is Code.UNSUPPORTED_VERSION
    async with running(tmp_path, 2) as node:
        assert _messages(node)["letters", 0] == ["a", "b", "c"]
