"""The other workers of a node, as one worker sees them: which ones live, which one leads, and how to reach it.

    worker 1     owns the data directory and leads all shards; its directory is that of a lone node
    the others   have doors and no data: they forward requests to worker 1, or redirect clients to it

There is no election: the lock of the data directory decides, and worker 1 leads as soon as it serves. Requests are
routed as between the nodes of a cluster; the connections use the loopback address, and both sides prove the token that
the parent gave its workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, final

import msgspec

from longhall.broker.leadership import NOBODY, Host
from longhall.cluster.membership.metadata import hosts_of
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import Peers
from longhall.console.http import Response
from longhall.console.metrics import CONTENT_TYPE, Block, Registry, labels
from longhall.coordination.ports import CoordinationError, Coordinator, Session, Watch
from longhall.coordination.ports import MemberDescription as Described
from longhall.coordination.watches import report_failure
from longhall.errors import LonghallError
from longhall.node.addresses import Address
from longhall.node.remote_metrics import METRICS, METRICS_S_MAX, gathered
from longhall.node.worker import LEADER, Orders
from longhall.service.queue_watch import QueueWatchSource, RemoteQueueViews

if TYPE_CHECKING:
    from longhall.node.assembly import Node

HOST: Final = "127.0.0.1"
CALLS_MAX: Final = 4_096  # Calls of one worker to the leader in progress.
MET: Final = "met"
REGISTER_PAUSE_S: Final = 0.2
LOST: Final = "no worker leads; worker 1 is about to be restarted"

ALL_METRICS: Final = "all-metrics"  # The verb for the metrics of all workers.
ALL_METRICS_S_MAX: Final = 10.0

_log = logging.getLogger("longhall.workers")


def has_met(described: Described) -> bool:
    """True if this worker knows all the others."""
    return MET in described.addresses


@final
class Workers:
    """One worker's view of all workers. Fulfils `broker.leadership.Leadership`; worker 1 always leads."""

    def __init__(self, coordinator: Coordinator, orders: Orders) -> None:
        self.node = orders.number
        self.label = labels(("worker", str(orders.number)))
        self._orders = orders
        self._coordinator = coordinator
        self._living: Mapping[int, Described] = {}
        self._heard = asyncio.Event()
        self._node: Node | None = None
        self._described: Described | None = None
        self._joined = False
        self._watches: list[Watch] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._peers: Peers | None = None
        self._views: RemoteQueueViews | None = None

    # Start and stop

    async def meet(self) -> None:
        """Watch the other workers. A worker without data returns when worker 1 is registered."""
        self._watches = [self._coordinator.watch_members(self._members_changed)]
        while not self.leads_here and LEADER not in self._living:
            self._heard.clear()
            await self._heard.wait()

    def attach(self, node: Node) -> Peers:
        """Set the node of this worker, before its doors open; returns the connections to the other workers."""
        self._node = node
        peers = self._peers = Peers(
            node.world,
            node.hall.hall_id,
            self.node,
            1,
            secrets=Secrets([self._orders.token.encode()]),
            requests_max=CALLS_MAX,
        )
        views = None
        if self.leads_here:
            QueueWatchSource(node.hall, node.queues).serve(peers)
        else:
            views = self._views = RemoteQueueViews(peers, LEADER, node.hall.background)
        # On one machine the connection breaks when the leader dies, so leadership need not be confirmed.
        node.service.join(self, peers, views=views, calls_max=CALLS_MAX)
        peers.serve(METRICS, self._tell_metrics)
        if self.leads_here:
            peers.serve(ALL_METRICS, self._tell_all_metrics)
        node.hall.leadership = self
        node.name(self.node, node.settings.rack)
        self._members_changed(self._living)
        return peers

    async def join(self) -> None:
        """Register this worker. Its doors are open."""
        node, peers = self._node, self._peers
        assert node is not None
        assert peers is not None
        port = await peers.open(HOST, 0)
        door = node.kafka_door
        self._described = Described(
            node_id=self.node,
            directory=f"worker {self.node}",
            addresses={
                **node.door_addresses(),
                "kafka": str(Address(door.host, door.port)),
                "listens": str(node.kafka),
                "peer": str(Address(HOST, port)),
            },
            rack=node.settings.rack,
        )
        self._watches.append(self._coordinator.on_session(self._session_changed))
        await self._coordinator.register(self._described)
        self._joined = True
        node.status.state = None
        self._members_changed(self._living)

    async def leave(self) -> None:
        """Cancel the watches, and close all connections."""
        for watch in self._watches:
            watch.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._views is not None:
            self._views.close()
        if self._peers is not None:
            await self._peers.close()

    # Leadership

    @property
    def leads_here(self) -> bool:
        """True if this worker owns the data directory."""
        return self.node == LEADER

    def leads(self, shard: int) -> bool:
        return self.node == LEADER

    def leader_node(self, shard: int) -> int:
        return LEADER if self.node == LEADER or LEADER in self._living else NOBODY

    def epoch(self, shard: int) -> int:
        return 0  # The epoch of the shard applies.

    def replicas(self, shard: int) -> list[int]:
        return [LEADER]

    def in_sync(self, shard: int) -> list[int]:
        return [LEADER]

    def members(self) -> list[Host]:
        return hosts_of(self._living)

    # Callbacks of the coordinator

    def _members_changed(self, members: Mapping[int, Described]) -> None:
        self._living = members
        self._heard.set()
        if self._peers is not None:
            known = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
            known.pop(self.node, None)
            self._peers.addresses = known
        if self._node is not None and not self.leads_here:
            status = self._node.status
            if status.state in (None, LOST):
                status.state = None if LEADER in members else LOST
        described = self._described
        if self._joined and described is not None and len(members) == self._orders.count and not has_met(described):
            # The parent announces the node when every worker can send clients to all others.
            addresses = {**described.addresses, MET: "all"}
            self._described = msgspec.structs.replace(described, addresses=addresses)
            self._register_soon()

    def _session_changed(self, session: Session) -> None:
        if session is Session.CONNECTED:
            self._register_soon()

    def _register_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._register_again())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_failure)

    async def _register_again(self) -> None:
        while self._described is not None:
            try:
                await self._coordinator.register(self._described)
                return
            except CoordinationError as error:
                _log.info("the parent does not know of this worker yet", extra={"reason": str(error)})
                await asyncio.sleep(REGISTER_PAUSE_S)

    # Metrics: every worker shows those of all workers

    async def show_metrics(self, registry: Registry) -> Response:
        """The response to `/metrics`. The leader merges the metrics of all workers, because it has most of them."""
        assert self._peers is not None
        if not self.leads_here and LEADER in self._living:
            try:
                body = await self._peers.request(LEADER, ALL_METRICS, b"", ALL_METRICS_S_MAX)
                return Response(HTTPStatus.OK, body, CONTENT_TYPE)
            except (OSError, TimeoutError, LonghallError) as error:
                _log.info("the leader did not send its metrics", extra={"reason": str(error)})
        return Response(HTTPStatus.OK, await registry.render(), CONTENT_TYPE)

    async def others_metrics(self) -> dict[str, list[Block]]:
        """The metrics of the other workers, for the leader to merge."""
        assert self._peers is not None
        others = sorted(number for number in self._living if number != self.node) if self.leads_here else []
        peers = self._peers
        return await gathered({f"worker {one}": peers.request(one, METRICS, b"", METRICS_S_MAX) for one in others})

    async def _tell_metrics(self, node: int, body: bytes) -> bytes:
        assert self._node is not None
        return await self._node.registry.render()

    async def _tell_all_metrics(self, node: int, body: bytes) -> bytes:
        assert self._node is not None
        return (await self.show_metrics(self._node.registry)).body
