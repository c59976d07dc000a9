"""When more hosts are wanted, when fewer, and what the command hears of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.node import scaler
from longhall.node.scaler import FEWER_AFTER_MS, MORE_AFTER_MS, Rule, Scaler, ScaleRequest
from longhall.node.settings import Settings
from simulation.world import Simulation

WISH = ScaleRequest(
    want="more", hosts=1, hosts_wanted=2, parts=11, parts_per_host=10, node=1, http="h:1", data="d", coordinator="zk"
)


def test_more_hosts_are_wanted_when_it_lasts() -> None:
    rule = Rule(10, 1, 4)
    assert rule.wanted(0, 1, 10) == 1
    assert rule.wanted(1, 1, 11) == 1
    assert rule.wanted(MORE_AFTER_MS, 1, 11) == 1
    assert rule.wanted(MORE_AFTER_MS + 1, 1, 25) == 3
    assert rule.wanted(MORE_AFTER_MS + 2, 1, 1000) == 4  # As many as there may be.
    assert rule.wanted(MORE_AFTER_MS + 3, 3, 30) == 3
    assert rule.wanted(MORE_AFTER_MS + 4, 3, 31) == 3  # It begins anew.


def test_fewer_hosts_are_wanted_one_at_a_time_and_not_at_the_edge() -> None:
    rule = Rule(10, 2, 9)
    assert rule.wanted(0, 4, 25) == 4
    assert rule.wanted(FEWER_AFTER_MS * 2, 4, 25) == 4  # Three hosts would be filled to more than three quarters.
    assert rule.wanted(FEWER_AFTER_MS * 2, 4, 22) == 4
    assert rule.wanted(FEWER_AFTER_MS * 3 - 1, 4, 22) == 4
    assert rule.wanted(FEWER_AFTER_MS * 3, 4, 22) == 3
    assert rule.wanted(FEWER_AFTER_MS * 9, 2, 0) == 2  # As few as there may be.
    assert Rule(10, 1, 9).wanted(0, 1, 0) == 1


def test_what_flutters_is_nobodys_wish() -> None:
    rule = Rule(10, 1, 9)
    for second in range(0, 600, 2):
        assert rule.wanted(second * 1000, 2, 21 if second % 8 < 4 else 8) == 2


def test_load_wants_hosts_as_parts_do() -> None:
    rule = Rule(10, 1, 9, load_per_host=1000)
    assert rule.wanted(0, 2, 1, 3500.0) == 2
    assert rule.wanted(MORE_AFTER_MS, 2, 1, 3500.0) == 4
    assert rule.wanted(MORE_AFTER_MS, 4, 1, 2400.0) == 4  # Three hosts would be filled to more than three quarters.
    assert rule.wanted(MORE_AFTER_MS + FEWER_AFTER_MS, 4, 1, 2200.0) == 4
    assert rule.wanted(MORE_AFTER_MS + 2 * FEWER_AFTER_MS, 4, 1, 2200.0) == 3
    assert rule.wanted(MORE_AFTER_MS + 2 * FEWER_AFTER_MS, 4, 39, 2200.0) == 4  # Now the parts need them.
    assert Rule(10, 1, 9).wanted(MORE_AFTER_MS, 1, 1, 1e12) == 1


@pytest.mark.parametrize(("load_per_host", "fewer"), [(1000, 4), (0, 3)])
def test_a_new_leader_wants_fewer_hosts_only_when_it_knows_the_load(load_per_host: int, fewer: int) -> None:
    rule = Rule(10, 1, 9, load_per_host)
    rule.wanted(0, 4, 1, 100.0, load_known=False)
    assert rule.wanted(FEWER_AFTER_MS, 4, 1, 100.0, load_known=False) == fewer
    rule.wanted(2 * FEWER_AFTER_MS, 4, 1, 100.0)
    assert rule.wanted(3 * FEWER_AFTER_MS, 4, 1, 100.0) == 3


@pytest.mark.parametrize(("coordinator", "least"), [(None, 1), ("zk://127.0.0.1:1", 3)])
def test_a_cluster_never_wants_fewer_hosts_than_it_has_copies(coordinator: str | None, least: int) -> None:
    async def make() -> Scaler:
        hall = Hall(Simulation(1).host("node").boot(), HallOptions())
        return scaler.scaler_of(hall, Settings(coordinator=coordinator, replication_factor=3))

    rule = asyncio.run(make())._rule
    rule.wanted(0, 4, 0)
    assert rule.wanted(FEWER_AFTER_MS, 4, 0) == 3
    rule.wanted(FEWER_AFTER_MS, 3, 0)
    assert rule.wanted(FEWER_AFTER_MS * 2, 3, 0) == (3 if least == 3 else 2)


async def _ask(command: str) -> Scaler:
    hall = Hall(Simulation(1).host("node").boot(), HallOptions())
    scaler = Scaler(hall, command, Rule(10, 1, 9), 10)
    assert await scaler.ask(WISH) == (scaler.failed == 0)
    return scaler


def test_the_command_reads_the_wish(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    program = f"import pathlib, sys; pathlib.Path({str(heard)!r}).write_text(sys.stdin.read())"
    scaler = asyncio.run(_ask(f'{sys.executable} -c "{program}"'))
    assert (scaler.asked, scaler.failed) == (1, 0)
    assert json.loads(heard.read_text())["want"] == "more"
    assert json.loads(heard.read_text())["hosts_wanted"] == 2


def test_a_command_that_fails_or_hangs_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaler, "PATIENCE_S", 0.2)
    for command in ("/no/such/command", f'{sys.executable} -c "raise SystemExit(3)"', "sleep 60"):
        asking = asyncio.run(_ask(command))
        assert (asking.asked, asking.failed) == (1, 1)
