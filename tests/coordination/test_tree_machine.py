"""One state machine over two ZooKeepers: the simulated one behaves like the real one.

Hypothesis lets three clients commit, read, watch, lose connections and sessions; a small oracle computes what each must
see. The same machine runs on the model and on a real server, so that the results of the simulation hold outside of it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from kazoo.client import KazooClient

from longhall.coordination.address import parse_address
from longhall.coordination.ensemble import Ensemble
from longhall.coordination.ports import ABSENT, Conflict, OutcomeUnknown, Session
from longhall.coordination.tree import Check, Create, Delete, Node, Operation, Put, Tree
from longhall.coordination.zookeeper import ZooKeeperTree
from simulation.world import Simulation
from simulation.zookeeper import SimulatedZooKeeper
from simulation.zookeeper_client import SimulatedTree
from tests.coordination.sides import eventually

CLIENTS = 3
PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x"]
PARENTS = ["/", "/a", "/b"]

State = dict[str, tuple[bytes, int, int]]  # Data, version, and the client of its session (ABSENT: none).
Event = tuple[str, str]


class Rig(Protocol):
    """A ZooKeeper, with faults for its clients."""

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None: ...

    def tree(self, who: int) -> Tree: ...

    def cut_off(self, tree: Any) -> None: ...

    async def expire(self, tree: Any) -> None: ...

    def close(self) -> None: ...


class ModelRig:
    """The simulated one, with servers that lag and connections that break at random."""

    def __init__(self) -> None:
        self._simulation = Simulation(5)
        self._ensemble = SimulatedZooKeeper(self._simulation)

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._simulation.run(coroutine)
        assert self._simulation.loop.failures == []

    def tree(self, who: int) -> Tree:
        return self._ensemble.tree(f"host-{who}")

    def cut_off(self, tree: SimulatedTree) -> None:
        self._ensemble.reset(tree.name)

    async def expire(self, tree: SimulatedTree) -> None:
        self._ensemble.expire(tree.name)

    def close(self) -> None:
        self._simulation.close()


class RealRig:
    """A root of a real one."""

    _places = itertools.count(1)

    def __init__(self, ensemble: Ensemble) -> None:
        self._address = parse_address(f"{ensemble.url}/machine/{next(self._places)}")
        self._runner = asyncio.Runner()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._runner.run(coroutine)

    def tree(self, who: int) -> Tree:
        return ZooKeeperTree(self._address, session_timeout_ms=20_000)

    def cut_off(self, tree: ZooKeeperTree) -> None:
        tree._disconnect()

    async def expire(self, tree: ZooKeeperTree) -> None:
        """Another client takes the session over and closes it."""
        before = tree.session_id
        identity = tree._client.client_id
        while tree.session_id in (0, before):
            await asyncio.to_thread(_close_session, self._address.hosts, identity)
            await asyncio.sleep(0.1)

    def close(self) -> None:
        self._runner.close()


def _close_session(hosts: str, identity: tuple[int, bytes] | None) -> None:
    impostor = KazooClient(hosts=hosts, client_id=identity, timeout=20)
    impostor.start()
    impostor.stop()
    impostor.close()


def expected(state: State, operations: list[Operation], who: int) -> tuple[State, list[int], set[Event]] | None:
    """The state, the versions and the events of a commit; None if it must be refused."""
    after, versions, events = dict(state), [], set()
    for operation in operations:
        path = operation.path
        above = path.rpartition("/")[0] or "/"
        below = any(other.startswith(path + "/") for other in after)
        if isinstance(operation, Create):
            if path in after or (above != "/" and (above not in after or after[above][2] != ABSENT)):
                return None
            after[path] = (operation.data, 0, who if operation.ephemeral else ABSENT)
            versions.append(0)
            events |= {("data", path), ("children", above)}
            continue
        if path not in after or after[path][1] != operation.version or (isinstance(operation, Delete) and below):
            return None
        if isinstance(operation, Put):
            after[path] = (operation.data, operation.version + 1, after[path][2])
            versions.append(operation.version + 1)
            events.add(("data", path))
        else:
            versions.append(ABSENT)
        if isinstance(operation, Delete):
            del after[path]
            events |= {("data", path), ("children", path), ("children", above)}
    return after, versions, events


class Watch:
    """A watch: how often it fired, and whether it should have."""

    def __init__(self, who: int, event: Event) -> None:
        self.who = who
        self.event = event
        self.due = False
        self.fired = 0

    def fire(self) -> None:
        self.fired += 1


paths = st.sampled_from(PATHS)
data = st.binary(max_size=3)
versions = st.integers(0, 2)
operations = st.one_of(
    st.builds(Create, paths, data, st.booleans()),
    st.builds(Put, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
commits = st.lists(operations, min_size=1, max_size=3)
clients = st.integers(0, CLIENTS - 1)


class TreeMachine(RuleBasedStateMachine):
    """Three clients of one tree, checked against the oracle after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = self.make_rig()
        self.trees: list[Any] = []
        self.heard: list[list[Session]] = [[] for _ in range(CLIENTS)]
        self.state: State = {}
        self.watches: list[Watch] = []
        self.seen: dict[tuple[int, str], tuple[int, int]] = {}

    def make_rig(self) -> Rig:
        return ModelRig()

    @initialize()
    def begin(self) -> None:
        async def start() -> None:
            for who in range(CLIENTS):
                self.trees.append(self.rig.tree(who))
                await self.trees[who].start(self.heard[who].append)

        self.rig.run(start())

    @rule(who=clients, operations=commits)
    def commit(self, who: int, operations: list[Operation]) -> None:
        self.rig.run(self._commit(who, operations))

    @rule(who=clients, path=paths, watch=st.booleans())
    def get(self, who: int, path: str, watch: bool) -> None:
        self.rig.run(self._get(who, path, watch))

    @rule(who=clients, path=st.sampled_from(PARENTS), watch=st.booleans())
    def children(self, who: int, path: str, watch: bool) -> None:
        self.rig.run(self._children(who, path, watch))

    @rule(who=clients, path=paths)
    def read_without_sync(self, who: int, path: str) -> None:
        async def read() -> None:
            self._must_not_go_back(who, path, await self.trees[who].get(path))

        self.rig.run(read())

    @rule(who=clients, operations=commits)
    def commit_and_lose_the_connection(self, who: int, operations: list[Operation]) -> None:
        self.rig.run(self._commit_and_lose(who, operations))

    @rule(who=clients)
    def lose_the_connection(self, who: int) -> None:
        async def lose() -> None:
            identity = self.trees[who].session_id
            await self._lose_connection(who)
            assert self.trees[who].session_id == identity
            assert Session.EXPIRED not in self.heard[who]

        self.rig.run(lose())

    @rule(who=clients)
    def end_the_session(self, who: int) -> None:
        async def end() -> None:
            await self.trees[who].close()
            assert self.heard[who][-1] is Session.CLOSED
            self.heard[who].clear()
            self.watches = [watch for watch in self.watches if watch.who != who]
            await self.trees[who].start(self.heard[who].append)
            self._session_is_over(who)

        self.rig.run(end())

    @rule(who=clients)
    def let_the_session_expire(self, who: int) -> None:
        async def expire() -> None:
            heard = self.heard[who]
            heard.clear()
            await self.rig.expire(self.trees[who])
            await eventually(lambda: Session.EXPIRED in heard and heard[-1] is Session.CONNECTED)
            assert heard[heard.index(Session.EXPIRED) - 1] is Session.SUSPENDED
            heard.clear()
            self._expect_all_of(who)
            self._session_is_over(who)

        self.rig.run(expire())

    def teardown(self) -> None:
        async def finish() -> None:
            for who, tree in enumerate(self.trees):
                await tree.sync()
                assert await self._everything(tree) == self.state, who
            await eventually(lambda: all(watch.fired or not watch.due for watch in self.watches))
            for watch in self.watches:
                assert watch.fired == (1 if watch.due else 0), watch.event
            for tree in self.trees:
                await tree.close()

        try:
            if self.trees:
                self.rig.run(finish())
        finally:
            self.rig.close()

    async def _commit(self, who: int, operations: list[Operation]) -> None:
        foreseen = expected(self.state, operations, who)
        if foreseen is None:
            with pytest.raises(Conflict):
                await self.trees[who].commit(*operations)
            return
        self.state, versions, events = foreseen
        assert await self.trees[who].commit(*operations) == versions
        self._expect(events)

    async def _commit_and_lose(self, who: int, operations: list[Operation]) -> None:
        foreseen = expected(self.state, operations, who)
        running = asyncio.ensure_future(self.trees[who].commit(*operations))
        await asyncio.sleep(0)
        await self._lose_connection(who)
        known: bool | None = None
        try:
            await running
            known = True
        except Conflict:
            known = False
        except OutcomeUnknown:
            pass
        # Reading back shows the outcome, once the server has caught up.
        await self.trees[who].sync()
        now = await self._everything(self.trees[who])
        done = foreseen is not None and now == foreseen[0] and (now != self.state or known is True)
        assert done or now == self.state
        assert known in (None, done) or (known is True and foreseen is not None and foreseen[0] == self.state)
        assert not (known is False and foreseen is not None)
        if done and foreseen is not None:
            self.state = foreseen[0]
            self._expect(foreseen[2])

    async def _get(self, who: int, path: str, watch: bool) -> None:
        await self.trees[who].sync()
        node = await self.trees[who].get(path, self._watch(who, ("data", path)) if watch else None)
        self._must_not_go_back(who, path, node)
        found = None if node is None else (node.data, node.version, self._owner(node))
        assert found == self.state.get(path)

    async def _children(self, who: int, path: str, watch: bool) -> None:
        await self.trees[who].sync()
        if path != "/" and path not in self.state:
            with pytest.raises(Conflict):
                await self.trees[who].children(path)
            return
        names = await self.trees[who].children(path, self._watch(who, ("children", path)) if watch else None)
        depth = path.rstrip("/").count("/") + 1
        below = path.rstrip("/") + "/"
        assert names == sorted(
            other[len(below) :] for other in self.state if other.startswith(below) and other.count("/") == depth
        )

    async def _everything(self, tree: Tree) -> State:
        found = {path: node for path in PATHS if (node := await tree.get(path)) is not None}
        return {path: (node.data, node.version, self._owner(node)) for path, node in found.items()}

    async def _lose_connection(self, who: int) -> None:
        heard = self.heard[who]
        heard.clear()
        self.rig.cut_off(self.trees[who])
        await eventually(lambda: heard[-2:] == [Session.SUSPENDED, Session.CONNECTED])
        self._expect_all_of(who)

    def _owner(self, node: Node) -> int:
        owners = [who for who, tree in enumerate(self.trees) if node.owner and tree.session_id == node.owner]
        return owners[0] if owners else ABSENT

    def _session_is_over(self, who: int) -> None:
        gone = [path for path, (_, _, owner) in self.state.items() if owner == who]
        for path in gone:
            del self.state[path]
            self._expect({("data", path), ("children", path.rpartition("/")[0] or "/"), ("children", path)})
        self.seen = {key: value for key, value in self.seen.items() if key[0] != who}

    def _watch(self, who: int, event: Event) -> Any:
        watch = Watch(who, event)
        self.watches.append(watch)
        return watch.fire

    def _expect(self, events: set[Event]) -> None:
        for watch in self.watches:
            watch.due = watch.due or watch.event in events

    def _expect_all_of(self, who: int) -> None:
        """A lost connection fires all its watches."""
        for watch in self.watches:
            watch.due = watch.due or watch.who == who

    def _must_not_go_back(self, who: int, path: str, node: Node | None) -> None:
        if node is not None:
            assert (node.created, node.version) >= self.seen.get((who, path), (0, 0))
            self.seen[who, path] = (node.created, node.version)


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def test_the_model_agrees_with_the_oracle() -> None:
    run_state_machine_as_test(TreeMachine, settings=_settings(40, 25))


@pytest.mark.slow
def test_the_real_zookeeper_agrees_with_the_oracle(zookeeper: Ensemble) -> None:
    class RealTreeMachine(TreeMachine):
        """The same rules on a real ZooKeeper."""

        def make_rig(self) -> Rig:
            return RealRig(zookeeper)

    run_state_machine_as_test(RealTreeMachine, settings=_settings(12, 20))
