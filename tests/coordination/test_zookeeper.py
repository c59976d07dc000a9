"""A real ZooKeeper that is stopped, paused and killed, and nodes that are suspended past the end of their session."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from longhall.coordination import zookeeper as module
from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.ensemble import Ensemble, EnsembleError, PartMissing
from longhall.coordination.ports import (
    CoordinationError,
    Expired,
    Ids,
    MemberDescription,
    OutcomeUnknown,
    Session,
    ShardState,
)
from longhall.coordination.zookeeper import zookeeper_coordinator
from tests.coordination.sides import eventually, until
from tests.house.repository import ROOT

ME = MemberDescription(node_id=1, directory="d")


@pytest.fixture(scope="module")
def trio(zookeeper: Ensemble) -> Iterator[Ensemble]:
    """Three servers, for tests that break and restart them."""
    with tempfile.TemporaryDirectory(prefix="longhall-ensemble-") as directory:
        ensemble = Ensemble(Path(directory), servers=3, durable=False)
        ensemble.start()
        try:
            yield ensemble
        finally:
            ensemble.stop()


async def persistently(coordinator: TreeCoordinator, state: ShardState) -> ShardState:
    """Change a shard: after an unknown outcome read back, and only then try again."""
    async with asyncio.timeout(60):
        while True:
            try:
                before = await coordinator.shard(state.shard)
                if before is not None and msgspec.structs.replace(before, version=state.version) == state:
                    return before
                return await coordinator.change_shard(before, state)
            except (OutcomeUnknown, Expired):
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_suspended_node_expires_and_returns_with_a_new_generation(url: str) -> None:
    observer = zookeeper_coordinator(url)
    await observer.start()
    sleeper = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.coordination.sleeper",
        url,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert sleeper.stdout is not None
        members = await until(observer.members, lambda found: set(found) == {5})
        before = members[5].generation
        sleeper.send_signal(signal.SIGSTOP)
        await until(observer.members, lambda found: found == {})
        sleeper.send_signal(signal.SIGCONT)
        heard: list[str] = []
        async with asyncio.timeout(60):
            while not heard or not (heard[-1].startswith("registered") and int(heard[-1].split()[1]) > before):
                heard.append((await sleeper.stdout.readline()).decode().strip())
        # It learns of the end of its session before it has a new one, with a new generation.
        assert "expired" in heard
        members = await until(observer.members, lambda found: set(found) == {5})
        assert members[5].generation >= int(heard[-1].split()[1])
    finally:
        sleeper.kill()
        await sleeper.wait()
        await observer.close()


@pytest.mark.slow
async def test_the_session_survives_the_death_of_the_leader(trio: Ensemble) -> None:
    coordinator = zookeeper_coordinator(f"{trio.url}/killed", session_timeout_ms=20_000)
    await coordinator.start()
    heard: list[Session] = []
    coordinator.on_session(heard.append)
    seen: list[dict[int, ShardState]] = []
    coordinator.watch_shards(lambda shards: seen.append(dict(shards)))
    mine = await coordinator.register(ME)
    leader = trio.leader()
    leader.kill()
    # A commit during the election is either done or not, and reading back shows which.
    state = ShardState(shard=1, leader=1, epoch=1)
    done = await persistently(coordinator, state)
    assert done.version == 0
    leader.start()
    await asyncio.to_thread(trio.wait_serving, leader)
    await eventually(lambda: bool(seen) and seen[-1] == {1: done})
    assert await until(coordinator.members, lambda found: bool(found)) == {1: mine}
    assert Session.EXPIRED not in heard
    await coordinator.close()


@pytest.mark.slow
async def test_silent_servers_are_disconnected(trio: Ensemble) -> None:
    """Paused servers keep connections open; overdue answers close them, and work continues after the pause."""
    coordinator = zookeeper_coordinator(f"{trio.url}/silent", session_timeout_ms=2000)
    await coordinator.start()
    heard: list[Session] = []
    coordinator.on_session(heard.append)
    before = await coordinator.change_shard(None, ShardState(shard=1, epoch=1))
    for server in trio.servers:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(OutcomeUnknown):
            await coordinator.change_shard(before, msgspec.structs.replace(before, leader=1, epoch=2))
        await eventually(lambda: Session.SUSPENDED in heard)
        with pytest.raises(OutcomeUnknown):
            await coordinator.shard(1)
    finally:
        for server in trio.servers:
            os.kill(server.pid, signal.SIGCONT)
    after = await persistently(coordinator, ShardState(shard=1, leader=1, epoch=2))
    assert after.version == 1
    await coordinator.close()


async def test_numbers_stay_unique_while_connections_break(zookeeper: Ensemble, url: str) -> None:
    nodes = [zookeeper_coordinator(url, session_timeout_ms=20_000) for _ in range(2)]
    for node in nodes:
        await node.start()
    taken: list[int] = []

    async def take(node: TreeCoordinator) -> None:
        while len(taken) < 40:
            try:
                taken.extend(await node.take_ids(Ids.PRODUCERS, 1))
            except OutcomeUnknown:
                await asyncio.sleep(0.01)

    async def disturb() -> None:
        for _ in range(6):
            await asyncio.sleep(0.05)
            for node in nodes:
                node._tree._disconnect()

    async with asyncio.timeout(60):
        await asyncio.gather(*map(take, nodes), disturb())
    assert len(set(taken)) == len(taken)
    for node in nodes:
        await node.close()


async def test_protected_values_need_the_password(zookeeper: Ensemble, url: str) -> None:
    protected = url.replace("zk://", "zk://hall:secret@") + "/protected"
    mine = zookeeper_coordinator(protected)
    await mine.start()
    await mine.change_shard(None, ShardState(shard=1, epoch=1))
    stranger = zookeeper_coordinator(f"{url}/protected")
    with pytest.raises(CoordinationError, match="denies access"):
        await stranger.start()
    friend = zookeeper_coordinator(protected)
    await friend.start()
    assert set(await friend.shards()) == {1}
    await friend.close()
    await mine.close()


async def test_two_halls_share_a_zookeeper(url: str) -> None:
    halls = [zookeeper_coordinator(f"{url}/{name}") for name in ("one", "two")]
    for hall in halls:
        await hall.start()
        assert (await hall.register(ME)).node_id == 1
        assert (await hall.campaign(1)).epoch == 1
    assert await halls[0].cluster_id("one") == "one"
    assert await halls[1].cluster_id("two") == "two"
    for hall in halls:
        await hall.close()


async def test_a_missing_zookeeper_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_S", 0.3)
    coordinator = zookeeper_coordinator("zk://127.0.0.1:1/hall")
    with pytest.raises(OutcomeUnknown, match=r"ZooKeeper at zk://127\.0\.0\.1:1/hall did not answer"):
        await coordinator.start()
    assert coordinator.session is Session.CLOSED


@pytest.mark.slow
def test_values_survive_a_restart_of_zookeeper(zookeeper: Ensemble, tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)

    async def write() -> None:
        coordinator = zookeeper_coordinator(ensemble.url)
        await coordinator.start()
        await coordinator.cluster_id("hall")
        await coordinator.close()

    async def read() -> None:
        coordinator = zookeeper_coordinator(ensemble.url)
        await coordinator.start()
        assert await coordinator.cluster_id("other") == "hall"
        await coordinator.close()

    try:
        ensemble.start()
        assert ensemble.servers[0].pid
        asyncio.run(write())
        ensemble.stop()
        assert not ensemble.servers[0].pid
        ensemble.start()
        asyncio.run(read())
    finally:
        ensemble.stop()


@pytest.mark.slow
async def test_a_client_reconnects_to_a_zookeeper_that_has_lost_its_data(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Servers permanently refuse a client that has seen a later transaction than they have."""
    ensemble = Ensemble(tmp_path)
    await asyncio.to_thread(ensemble.start)
    coordinator = zookeeper_coordinator(ensemble.url, session_timeout_ms=2000)
    try:
        await coordinator.start()
        await coordinator.cluster_id("hall")
        for _ in range(20):
            await coordinator.next_epoch()
        server = ensemble.servers[0]
        server.kill()
        for kept in [os.path.join(place, name) for place, names, _ in os.walk(tmp_path) for name in names]:
            if kept.endswith("version-2"):
                shutil.rmtree(kept)
        server.start()
        await asyncio.to_thread(ensemble.wait_serving, server)
        async with asyncio.timeout(30):
            while coordinator.session is not Session.CONNECTED:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await coordinator.cluster_id("another") == "another"
        await coordinator.close()
    finally:
        await asyncio.to_thread(ensemble.stop)


LEAVER = """
import os, signal, sys
from pathlib import Path
from longhall.coordination.ensemble import Ensemble

ensemble = Ensemble(Path(sys.argv[1]), durable=False)
ensemble.start()
print(ensemble.servers[0].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
async def test_a_server_ends_with_its_parent_process(zookeeper: Ensemble, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", LEAVER, str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, command, env=environment, stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)

    def gone() -> bool:
        """True if the process has ended; a zombie process has no command line."""
        try:
            return not Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True

    await eventually(gone)


def test_missing_java_or_pyspark_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(PartMissing, match=r"JAVA_HOME is .* which has no bin/java; on Debian: apt-get install"):
        Ensemble(tmp_path).start()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PartMissing, match="there is none on the path"):
        Ensemble(tmp_path).start()


def test_a_failed_start_reports_the_reason(
    zookeeper: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhall.coordination.ensemble.STARTS_MAX", 1)
    (tmp_path / "zookeeper-1").mkdir()
    (tmp_path / "zookeeper-1" / "data").mkdir()
    (tmp_path / "zookeeper-1" / "data" / "version-2").write_text("not a directory")
    with pytest.raises(EnsembleError, match="ZooKeeper did not start; its log ends with: "):
        Ensemble(tmp_path).start()
