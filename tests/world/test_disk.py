"""Properties of every disk, real or simulated."""

from __future__ import annotations

import asyncio
import errno
import random
from functools import partial

import pytest

from longhall.world.ports import File, World
from tests.world.conftest import Bench


async def synced(world: World, files: list[File], *, background: bool = False) -> OSError | None:
    answer: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    world.disk.sync(files, answer.set_result, background=background)
    assert not answer.done()  # Never before the call has returned.
    return await answer


def test_a_file_reads_what_was_written(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    assert file.write_at(0, [b"hello ", bytearray(b"long "), memoryview(b"hall")]) == 15
    assert file.read_at(0, 100) == b"hello long hall"
    assert file.read_at(6, 4) == b"long"
    assert file.read_at(15, 10) == b""
    assert file.read_at(100, 10) == b""
    assert file.size() == 15
    file.close()


def test_more_buffers_than_one_system_call_takes(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    buffers = [number.to_bytes(2, "big") for number in range(3000)]
    assert file.write_at(5, buffers) == 6000
    assert file.read_at(0, 10_000) == bytes(5) + b"".join(buffers)


def test_bytes_dropped_from_memory_are_still_readable(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    file.write_at(0, [b"longhall" * 10_000])
    bench.world.disk.sync_now(file)
    file.leave_memory(0, 80_000)
    file.leave_memory(79_999, 1_000_000)
    assert file.read_at(0, 100_000) == b"longhall" * 10_000


def test_bytes_written_behind_are_in_the_file_when_done_is_called(bench: Bench) -> None:
    """Writes of any position and size, between ordinary writes, have the same result as those."""
    chance = random.Random(3)

    async def play() -> None:
        file = bench.world.disk.open("a", create=True)
        expected = b""
        for number in range(60):
            sizes = [chance.choice((1, 511, 4_096, 5_000, 70_000)) for _ in range(chance.randint(1, 3))]
            parts = [chance.randbytes(size) for size in sizes]
            if number % 3:
                done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
                assert bench.world.disk.write_behind(file, len(expected), parts, done.set_result)
                assert not done.done()
                assert await done is None
            else:
                file.write_at(len(expected), parts)
            expected += b"".join(parts)
            assert file.size() == len(expected)
            assert file.read_at(0, len(expected) + 1) == expected
        assert await synced(bench.world, [file]) is None

    bench.run(play())


def test_writes_behind_end_in_order_and_can_be_awaited(bench: Bench) -> None:
    async def play() -> None:
        disk = bench.world.disk
        files = [disk.open(f"{number}", create=True) for number in range(3)]
        done: list[int] = []
        for number, file in enumerate(files):
            assert disk.write_behind(file, 0, [bytes(9_000)], partial(_note, done, number))
            file.close()  # The write continues.
        disk.finish_writes()
        assert done == [0, 1, 2]
        assert [disk.open(f"{number}").size() for number in range(3)] == [9_000] * 3
        disk.finish_writes()

    bench.run(play())


def _note(done: list[int], number: int, error: OSError | None) -> None:
    assert error is None
    done.append(number)


def test_a_full_writer_refuses_and_later_accepts_again(bench: Bench) -> None:
    async def play() -> None:
        disk = bench.world.disk
        file = disk.open("a", create=True)
        begun = 0
        done: list[OSError | None] = []
        while disk.write_behind(file, begun << 20, [b"x" * (1 << 20)], done.append):
            begun += 1
            assert begun < 100
        assert begun
        disk.finish_writes()
        assert done == [None] * begun
        assert file.size() == begun << 20
        assert disk.write_behind(file, 0, [b"y"], done.append)
        disk.finish_writes()
        assert file.read_at(0, 2) == b"yx"

    bench.run(play())


@pytest.mark.parametrize("count", [1, 3, 200])
def test_names_in_many_directories_are_synced_together(bench: Bench, count: int) -> None:
    disk = bench.world.disk
    paths = [f"d/{number}" for number in range(count)]
    for path in paths:
        disk.make_directory(path)
        disk.open(f"{path}/file", create=True).close()
    disk.sync_directories([*paths, "d/gone", "d", ""])
    assert all(disk.exists(f"{path}/file") for path in paths)


def test_writing_nothing_changes_nothing(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    assert file.write_at(100, []) == 0
    assert file.write_at(100, [b""]) == 0
    assert file.size() == 0


def test_a_gap_reads_as_zeros(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    file.write_at(4, [b"x"])
    assert file.read_at(0, 9) == b"\0\0\0\0x"


def test_reading_without_waiting_gives_all_or_none(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    data = bytes(range(256)) * 10_000
    file.write_at(0, [data])
    for position, size in ((0, 1), (100, 5000), (0, len(data)), (len(data) - 5, 50), (len(data), 10)):
        found = file.read_at_nowait(position, size)
        assert found is None or found == data[position : position + size]


def test_truncation_cuts_and_extends(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    file.write_at(0, [b"abcdef"])
    file.truncate(3)
    assert file.size() == 3
    file.truncate(5)
    assert file.read_at(0, 9) == b"abc\0\0"


def test_allocation_keeps_the_size(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    file.write_at(0, [b"abc"])
    file.allocate(0, 1 << 20)
    assert file.size() == 3
    assert file.read_at(0, 10) == b"abc"


def test_files_must_exist_or_be_created(bench: Bench) -> None:
    disk = bench.world.disk
    with pytest.raises(FileNotFoundError):
        disk.open("missing")
    with pytest.raises(FileNotFoundError):
        disk.open("no/such/directory", create=True)
    disk.open("there", create=True).close()
    again = disk.open("there")
    assert again.path == "there"
    assert disk.exists("there")
    assert not disk.exists("missing")


def test_directories(bench: Bench) -> None:
    disk = bench.world.disk
    disk.make_directory("a/b/c")
    disk.make_directory("a/b")
    for name in ("2", "10", "1"):
        disk.open(f"a/b/{name}", create=True).close()
    assert disk.list("a/b") == ["1", "10", "2", "c"]
    assert disk.list("nowhere") == []
    assert "a" in disk.list("")
    disk.sync_directory("a/b")
    disk.sync_directory("")
    disk.remove("a/b/1")
    assert disk.list("a/b") == ["10", "2", "c"]
    disk.remove("a")
    assert not disk.exists("a/b/c")
    with pytest.raises(FileNotFoundError):
        disk.remove("a")


def test_rename_replaces(bench: Bench) -> None:
    disk = bench.world.disk
    disk.make_directory("d")
    old = disk.open("d/target", create=True)
    old.write_at(0, [b"old"])
    disk.open("d/source", create=True).write_at(0, [b"new"])
    disk.rename("d/source", "d/target")
    assert disk.list("d") == ["target"]
    assert disk.open("d/target").read_at(0, 10) == b"new"
    assert old.read_at(0, 10) == b"old"  # An open file is not affected.
    with pytest.raises(FileNotFoundError):
        disk.rename("d/source", "d/elsewhere")


def test_a_removed_file_can_still_be_read(bench: Bench) -> None:
    disk = bench.world.disk
    file = disk.open("a", create=True)
    file.write_at(0, [b"still here"])
    disk.remove("a")
    assert file.read_at(0, 100) == b"still here"


def test_a_closed_file_refuses(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError) as caught:
        file.write_at(0, [b"x"])
    assert caught.value.errno == errno.EBADF


def test_syncs_complete_in_order_within_their_lane(bench: Bench) -> None:
    async def scenario() -> None:
        disk = bench.world.disk
        files = [disk.open(f"{number}", create=True) for number in range(5)]
        answers: list[tuple[int, OSError | None]] = []
        last = asyncio.get_running_loop().create_future()
        for number in range(40):
            file = files[number % 5]
            file.write_at(0, [b"x" * number])
            disk.sync([file, files[0]], lambda error, number=number: answers.append((number, error)))  # type: ignore[misc]
        disk.sync(files, last.set_result)
        assert await last is None
        assert answers == [(number, None) for number in range(40)]
        assert await synced(bench.world, files, background=True) is None
        assert await synced(bench.world, []) is None

    bench.run(scenario())


def test_many_files_in_one_sync(bench: Bench) -> None:
    async def scenario() -> None:
        files = [bench.world.disk.open(f"{number}", create=True) for number in range(600)]
        assert await synced(bench.world, files) is None
        assert await synced(bench.world, files, background=True) is None
        for file in files:
            file.close()
        again = bench.world.disk.open("7")
        assert await synced(bench.world, [again]) is None

    bench.run(scenario())


def test_a_file_may_be_closed_during_its_sync(bench: Bench) -> None:
    async def scenario() -> None:
        disk = bench.world.disk
        for number in range(20):
            file = disk.open(f"{number}", create=True)
            file.write_at(0, [b"x"])
            answer: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
            disk.sync([file], answer.set_result)
            file.close()
            assert await answer is None

    bench.run(scenario())


def test_blocking_sync(bench: Bench) -> None:
    file = bench.world.disk.open("a", create=True)
    file.write_at(0, [b"x"])
    bench.world.disk.sync_now(file)
    assert bench.world.disk.free_bytes() > 0


def test_the_janitor_reads_cold_bytes(bench: Bench) -> None:
    async def scenario() -> None:
        file = bench.world.disk.open("a", create=True)
        file.write_at(0, [b"0123456789"])
        parts = await asyncio.gather(*(bench.world.janitor.read(file, at, 3) for at in range(12)))
        assert parts == [b"0123456789"[at : at + 3] for at in range(12)]

    bench.run(scenario())


def test_a_cold_read_survives_the_closing_of_its_file(bench: Bench) -> None:
    async def scenario() -> None:
        file = bench.world.disk.open("a", create=True)
        file.write_at(0, [b"0123456789"])
        reading = asyncio.ensure_future(bench.world.janitor.read(file, 2, 3))
        await asyncio.sleep(0)
        file.close()
        assert await reading == b"234"

    bench.run(scenario())
