"""Virtual time, deadlocks, deaths without unwinding, and the same run for the same seed."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.loop import Deadlock, current_process
from simulation.world import Simulation


def test_a_year_takes_no_time() -> None:
    simulation = Simulation(1)

    async def scenario() -> float:
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time()

    assert simulation.run(scenario()) >= 365 * 86_400


def test_a_deadlock_is_an_error() -> None:
    simulation = Simulation(1)

    async def scenario() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        simulation.run(scenario())


def test_call_soon_is_ordered_and_equal_timers_are_not() -> None:
    def order(seed: int, timers: bool) -> list[int]:
        simulation = Simulation(seed)
        seen: list[int] = []

        async def scenario() -> None:
            loop = asyncio.get_running_loop()
            for number in range(8):
                if timers:
                    loop.call_later(1, seen.append, number)
                else:
                    loop.call_soon(seen.append, number)
            await asyncio.sleep(2)

        simulation.run(scenario())
        return seen

    assert order(1, False) == list(range(8))
    assert order(1, True) == order(1, True)
    assert len({tuple(order(seed, True)) for seed in range(10)}) > 5


def test_a_dead_process_runs_no_code() -> None:
    simulation = Simulation(1)
    host = simulation.host("node")
    world = host.boot()
    job_result: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(10)
            job_result.append("woke")
        finally:
            job_result.append("cleaned up")

    async def victim() -> None:
        assert current_process() is world.process
        asyncio.get_running_loop().call_later(5, job_result.append, "timer")
        await asyncio.gather(child(), asyncio.create_task(child()))

    async def scenario() -> None:
        world.process.start(victim())
        await asyncio.sleep(1)
        host.kill()
        await asyncio.sleep(100)

    simulation.run(scenario())
    assert job_result == []
    simulation.close()


def test_an_ended_run_does_not_affect_the_next_one() -> None:
    first = Simulation(1)

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(1000)
            finally:
                async with asyncio.timeout(1):  # It would attach to any task that runs when this is discarded.
                    await asyncio.sleep(1000)

    async def begin() -> None:
        first.host("node").boot().process.start(stubborn())
        await asyncio.sleep(1)

    first.run(begin())
    first.close()
    second = Simulation(2)

    async def live() -> str:
        gc.collect()
        await asyncio.sleep(10)
        return "undisturbed"

    assert second.run(live()) == "undisturbed"
    second.close()


def test_threads_are_refused() -> None:
    simulation = Simulation(1)

    async def scenario() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(AssertionError):
        simulation.run(scenario())


PROGRAM = """
import asyncio, sys
from simulation.world import Simulation

async def echo(world, log):
    class Server(asyncio.Protocol):
        def connection_made(self, transport): self.transport = transport
        def data_received(self, data):
            log.write_at(log.size(), [data]); world.disk.sync([log], lambda error: self.transport.write(data))
    await world.network.listen(Server, "", 9000)

async def scenario(simulation):
    host, client = simulation.host("server"), simulation.host("client").boot()
    for round in range(5):
        world = host.boot()
        await world.process.start(echo(world, world.disk.open("log", create=True)))
        class Client(asyncio.Protocol):
            def connection_made(self, transport):
                for word in {"a" * 10, "b" * 2000, "c" * 70000}:
                    transport.write(word.encode() if len(sys.argv) > 2 else b"x" * 1000)
        for _ in range(4):
            await client.process.start(client.network.connect(Client, "server", 9000))
        await asyncio.sleep(simulation.fabric.chance.uniform(0, 0.01))
        if round == 2: simulation.fabric.cut("client", "server")
        if round == 3: simulation.fabric.reset("server", 0.5)
        await asyncio.sleep(1)
        if round == 2: simulation.fabric.heal("client", "server")
        host.cut_power() if round % 2 else host.kill()
    return simulation.trace.digest()

simulation = Simulation(int(sys.argv[1]))
print(simulation.run(scenario(simulation)), simulation.trace.events)
"""


def digest(seed: int, *options: str, hash_seed: int = 0) -> str:
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", PROGRAM, str(seed), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_same_seed_gives_the_same_trace() -> None:
    first = digest(1, hash_seed=1)
    assert digest(1, hash_seed=2) == first
    assert digest(2, hash_seed=1) != first


def test_the_trace_catches_the_order_of_a_set() -> None:
    assert len({digest(1, "leak", hash_seed=number) for number in range(1, 6)}) > 1
