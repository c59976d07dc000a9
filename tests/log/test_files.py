"""Open files, never more than a bound, and names that are durable when somebody says so."""

from __future__ import annotations

import pytest

from longhall.log.files import OpenFiles
from simulation.world import Host, Simulation


def new_host(seed: int = 1) -> Host:
    return Simulation(seed).host("node")


def test_never_more_than_the_bound_are_open_and_all_can_be_used() -> None:
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


def test_the_least_recently_used_one_goes() -> None:
    files = OpenFiles(new_host().boot().disk, 2)
    first, second = files.make("d", "d/1"), files.make("d", "d/2")
    assert files.get("d/1") is first
    files.make("d", "d/3")
    assert files.get("d/1") is first
    assert files.get("d/2") is not second


def test_a_forgotten_file_is_opened_anew() -> None:
    host = new_host()
    files = OpenFiles(host.boot().disk, 3)
    old = files.make("d", "d/1")
    files.disk.rename("d/1", "d/old")
    files.forget("d/1")
    assert files.make("d", "d/1") is not old
    files.forget("d/none")


@pytest.mark.parametrize("seed", range(20))
def test_a_name_that_was_synced_stays(seed: int) -> None:
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
def test_names_of_an_earlier_life_are_in_doubt(seed: int) -> None:
    """Killed before it could sync them: they are in memory, and the next life must see to it."""
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


def test_a_name_made_while_others_were_synced_is_not_taken_for_synced() -> None:
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
