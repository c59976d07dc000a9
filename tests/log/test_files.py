"""The bounded table of open files, and the durability of names."""

from __future__ import annotations

import pytest

from longhall.log.files import OpenFiles
from simulation.world import Host, Simulation


def new_host(seed: int = 1) -> Host:
    return Simulation(seed).host("node")


def test_open_files_are_bounded_and_all_are_usable() -> None:
    files = OpenFiles(new_host().boot().disk, 3)
    for number in range(10):
        files.make("d", f"d/{number}").write_at(0, [b"%d" % number])
        assert len(files) <= 3
    for number in range(10):
        assert files.get(f"d/{number}").read_at(0, 9) == b"%d" % number
        assert len(files) <= 3
    assert files.get("d/9") is files.get("d/9")
    files.close()
    assert len(files) == 0
    with pytest.raises(FileNotFoundError):
        files.get("d/none")


def test_the_least_recently_used_file_is_closed() -> None:
    files = OpenFiles(new_host().boot().disk, 2)
    first, second = files.make("d", "d/1"), files.make("d", "d/2")
    assert files.get("d/1") is first
    files.make("d", "d/3")
    assert files.get("d/1") is first
    assert files.get("d/2") is not second


def test_a_forgotten_file_is_opened_again() -> None:
    host = new_host()
    files = OpenFiles(host.boot().disk, 3)
    old = files.make("d", "d/1")
    files.disk.rename("d/1", "d/old")
    files.forget("d/1")
    assert files.make("d", "d/1") is not old
    files.forget("d/none")


@pytest.mark.parametrize("seed", range(20))
def test_a_synced_name_survives_a_crash(seed: int) -> None:
    host = new_host(seed)
    files = OpenFiles(host.boot().disk, 3)
    file = files.make("p/d", "p/d/1")
    files.disk.sync_directory("")
    file.write_at(0, [b"x"])
    files.disk.sync_now(file)
    files.sync_names("p/d")
    host.cut_power()
    assert host.boot().disk.exists("p/d/1")


@pytest.mark.parametrize("seed", range(20))
def test_names_from_before_a_restart_are_synced_again(seed: int) -> None:
    """A node killed before it synced its names leaves them in memory; the next start must sync them."""
    host = new_host(seed)
    disk = host.boot().disk
    disk.make_directory("p")
    disk.sync_directory("")
    OpenFiles(disk, 3).make("p/d", "p/d/1").write_at(0, [b"x"])
    host.kill()
    files = OpenFiles(host.boot().disk, 3)
    file = files.make("p/d", "p/d/1")
    files.disk.sync_now(file)
    files.sync_names("p/d")
    host.cut_power()
    assert host.boot().disk.exists("p/d/1")


def test_a_name_created_during_a_sync_is_not_durable() -> None:
    files = OpenFiles(new_host().boot().disk, 3)
    files.make("p/d", "p/d/1")
    taken = files.unsynced_names()
    assert set(taken) == {"p", "p/d"}
    files.make("p/d", "p/d/2")
    files.names_synced(taken)
    assert set(files.unsynced_names()) == {"p/d"}
    files.names_synced(files.unsynced_names())
    assert files.unsynced_names() == {}
    files.make("p/d", "p/d/2")
    assert files.unsynced_names() == {}
