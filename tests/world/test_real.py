"""Properties of the real world alone: its processes, its lock, its sockets."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from longhall.errors import Code, LonghallError
from longhall.world.real import RealWorld, real_world, write_lane
from longhall.world.real.file import RealFile
from longhall.world.real.janitor import RealJanitor
from longhall.world.real.write_lane import wait_for_writes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealWorld]:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    world = real_world(str(tmp_path / "data"), jobs="tests.world.jobs")
    yield world
    world.close()


async def synced(world: RealWorld, file: RealFile) -> OSError | None:
    answer: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    world.disk.sync([file], answer.set_result)
    return await answer


def opened(world: RealWorld, path: str) -> RealFile:
    file = world.disk.open(path, create=True)
    assert isinstance(file, RealFile)
    return file


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_syncs_work_on_both_kinds_of_loop_and_on_successive_loops(world: RealWorld, runner: object) -> None:
    file = opened(world, "a")
    for _ in range(2):
        file.write_at(0, [b"x"])
        assert runner(synced(world, file)) is None  # type: ignore[operator]


def test_the_syncer_closes_files_that_the_node_closes(world: RealWorld) -> None:
    async def scenario() -> None:
        files = [opened(world, f"{number}") for number in range(10)]
        for file in files:
            assert await synced(world, file) is None
        held = len(os.listdir(f"/proc/{world.disk.syncer_pid}/fd"))
        for file in files[1:]:
            file.close()
        assert await synced(world, files[0]) is None  # Handled after the closings, so they are done.
        assert await synced(world, files[0]) is None
        assert len(os.listdir(f"/proc/{world.disk.syncer_pid}/fd")) == held - 9

    asyncio.run(scenario())


def test_the_syncer_is_small_and_ignores_signals_of_the_parent(world: RealWorld) -> None:
    async def scenario() -> int:
        file = opened(world, "a")
        assert await synced(world, file) is None
        pid = world.disk.syncer_pid
        assert pid is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        assert await synced(world, file) is None
        return pid

    status = Path(f"/proc/{asyncio.run(scenario())}/status").read_text()
    assert int(status.split("RssAnon:")[1].split()[0]) < 8192


def test_the_death_of_the_syncer_fails_every_later_sync(world: RealWorld) -> None:
    async def scenario() -> None:
        file = opened(world, "a")
        assert await synced(world, file) is None
        pid = world.disk.syncer_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        waiting = [asyncio.ensure_future(synced(world, file)) for _ in range(3)]
        await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        for answer in await asyncio.gather(*waiting):
            assert answer is not None
            assert answer.errno == errno.EIO
        assert await synced(world, file) is not None
        file.close()

    asyncio.run(scenario())


def test_a_stopped_syncer_blocks_no_loop_and_preserves_order(world: RealWorld) -> None:
    async def scenario() -> None:
        file = opened(world, "a")
        assert await synced(world, file) is None
        pid = world.disk.syncer_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        answers: list[int] = []
        for number in range(30_000):  # Far more than the socket buffer holds.
            world.disk.sync([file], lambda error, number=number: answers.append(number))  # type: ignore[misc]
        late = opened(world, "late")
        last = asyncio.ensure_future(synced(world, late))
        await asyncio.sleep(0)
        late.close()
        assert answers == []
        os.kill(pid, signal.SIGCONT)
        assert await last is None
        assert answers == list(range(30_000))

    asyncio.run(scenario())


def test_a_failed_sync_is_reported_and_never_retried(world: RealWorld) -> None:
    async def scenario() -> None:
        read_end, write_end = os.pipe()  # A pipe cannot be synced: EINVAL stands for EIO here.
        os.close(read_end)
        broken = RealFile("broken", write_end, world.disk.forget)
        good = opened(world, "good")
        for _ in range(2):
            answer = await synced(world, broken)
            assert answer is not None
            assert answer.errno == errno.EINVAL
        assert await synced(world, good) is None
        broken.close()

    asyncio.run(scenario())


def test_the_directory_belongs_to_one_process(world: RealWorld) -> None:
    program = "import sys; from longhall.world.real import real_world; real_world(sys.argv[1])"
    run = subprocess.run([sys.executable, "-c", program, world.disk.root], capture_output=True, text=True)
    assert run.returncode != 0
    assert f"in use by process {os.getpid()}" in run.stderr
    world.close()
    run = subprocess.run([sys.executable, "-c", program, world.disk.root], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_jobs_run_with_low_priority_and_report_their_failures(world: RealWorld) -> None:
    async def scenario() -> None:
        opened(world, "a").close()
        answers = await asyncio.gather(*(world.janitor.run("count", {"argument": number}) for number in range(3)))
        assert [answer["argument"] for answer in answers] == [0, 1, 2]
        assert answers[0]["files"] == ["a", "lock"]
        assert answers[0]["niceness"] == min(os.nice(0) + 10, 19)
        with pytest.raises(FileNotFoundError):
            await world.janitor.run("miss", {})
        with pytest.raises(LonghallError) as refused:
            await world.janitor.run("refuse", {})
        assert refused.value.code is Code.STORAGE_DAMAGED
        with pytest.raises(RuntimeError, match="raised by the test job"):
            await world.janitor.run("stumble", {})

    asyncio.run(scenario())


def test_a_janitor_that_died_is_replaced(world: RealWorld) -> None:
    async def scenario() -> None:
        first, second = await asyncio.gather(
            world.janitor.run("die", {}), world.janitor.run("count", {"argument": 1}), return_exceptions=True
        )
        assert isinstance(first, OSError)
        assert isinstance(second, dict)

    asyncio.run(scenario())


def test_a_janitor_without_jobs_ends_and_starts_again(world: RealWorld) -> None:
    async def scenario() -> None:
        janitor = RealJanitor(world.disk.root, "tests.world.jobs", idle_s=0.2)
        try:
            assert (await janitor.run("count", {"argument": 1}))["argument"] == 1
            assert janitor.pid is not None
            for _ in range(600):
                if janitor.pid is None:
                    break
                await asyncio.sleep(0.05)
            assert janitor.pid is None
            assert (await janitor.run("count", {"argument": 2}))["argument"] == 2
        finally:
            janitor.close()

    asyncio.run(scenario())


def test_a_cold_read_keeps_its_file_open(world: RealWorld) -> None:
    async def scenario() -> None:
        file = opened(world, "a")
        file.write_at(0, [b"x" * 100_000])
        reading = asyncio.ensure_future(world.janitor.read(file, 0, 100_000))
        await asyncio.sleep(0)
        file.close()
        assert await reading == b"x" * 100_000
        await asyncio.sleep(0)
        assert file.descriptor == -1

    asyncio.run(scenario())


def test_only_sequential_readers_get_read_ahead(world: RealWorld) -> None:
    file = world.disk.open("f", create=True)
    assert isinstance(file, RealFile)
    assert not file.reads_on(0, 100, 1000)
    assert file.reads_on(90, 100, 1000)  # The last batch of the earlier read was incomplete.
    assert file.reads_on(1190, 100, 1000)  # The bytes read ahead were found in memory meanwhile.
    assert not file.reads_on(50_000, 100, 1000)
    for reader in range(1, 5):  # As many others as are tracked: the first is forgotten.
        assert not file.reads_on(reader * 100_000, 100, 1000)
        assert file.reads_on(reader * 100_000 + 100, 100, 1000)
    assert not file.reads_on(50_100, 100, 1000)
    file.close()


def test_a_read_without_waiting_does_not_wait_for_cold_bytes(world: RealWorld) -> None:
    file = opened(world, "a")
    file.write_at(0, [b"x" * 100_000])
    world.disk.sync_now(file)
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    assert file.read_at_nowait(0, 100_000) in (
        None,
        b"x" * 100_000,
    )  # The kernel may keep the pages: the call is only advice.
    assert file.read_at(0, 200_000) == b"x" * 100_000
    assert file.read_at_nowait(0, 200_000) == b"x" * 100_000


@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_a_file_in_memory_is_never_cold(size: int) -> None:
    """tmpfs refuses reads without waiting."""
    path = f"/dev/shm/longhall-test-{os.getpid()}"
    file = RealFile(path, os.open(path, os.O_RDWR | os.O_CREAT), lambda _: None)
    os.unlink(path)
    file.write_at(0, [b"x" * size])
    assert file.read_at_nowait(0, size) == b"x" * size
    os.close(file.descriptor)


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_small_replies_are_sent_at_once(world: RealWorld, runner: object) -> None:
    async def scenario() -> None:
        accepted: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                if not accepted.done():
                    accepted.set_result(transport)

        listener, port = await world.network.listen(Accepting, "127.0.0.1", 0)
        await world.network.connect(asyncio.Protocol, "127.0.0.1", port)
        stream = (await accepted).get_extra_info("socket")
        assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        listener.close()

    runner(scenario())  # type: ignore[operator]


def test_the_death_of_the_writer_is_reported_and_the_node_writes_itself(world: RealWorld) -> None:
    async def play() -> None:
        file = world.disk.open("a", create=True)
        told: list[OSError | None] = []
        assert world.disk.write_behind(file, 0, [b"x" * 5_000], told.append)
        world.disk.finish_writes()
        pid = world.disk.writer_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        assert world.disk.write_behind(file, 5_000, [b"y" * 5_000], told.append)
        os.kill(pid, signal.SIGKILL)
        world.disk.finish_writes()
        assert told[0] is None
        assert isinstance(told[1], OSError)
        assert not world.disk.write_behind(file, 5_000, [b"y"], told.append)
        assert file.write_at(5_000, [b"z"]) == 1

    asyncio.run(play())


def test_a_new_node_waits_for_the_writer_of_a_killed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "data")
    world = real_world(root)

    async def play() -> None:
        file = world.disk.open("a", create=True)
        assert world.disk.write_behind(file, 0, [b"x" * 5_000], lambda error: None)
        world.disk.finish_writes()

    asyncio.run(play())
    pid = world.disk.writer_pid
    assert pid is not None
    monkeypatch.setattr(write_lane, "LOCK_SECONDS_MAX", 0.05)
    with pytest.raises(OSError, match="an earlier node still writes"):
        wait_for_writes(root)
    world.close()
    wait_for_writes(root)
    again = real_world(root)
    again.close()
