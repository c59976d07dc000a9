"""A halted node: the coordinator has lost the record of its cluster, or has one that contradicts its log.

It opens no door, does not follow and does not lead, so its copy stays unchanged. It is registered with the
coordinator, reports its copy to others that ask, and rebuilds the record together with them as soon as that can be
proven (`cluster/membership/record_proof.py`). `/readyz` and `/cluster/recovery` say why it waits and for whom;
an operator may decide with `longhall cluster recover`.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Final, cast, final

import msgspec

from longhall.broker.feature_gates import NEWEST, OLDEST
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.broker.recovery import Identity
from longhall.broker.replica_recovery import recover_replica
from longhall.cluster.membership.copy_report import HALTED, CopyReport, noted_replicas
from longhall.cluster.membership.join import SHARDS
from longhall.cluster.membership.member_file import MemberFile
from longhall.cluster.membership.receipt_secret import on_record
from longhall.cluster.membership.record_recovery import RecordRecovery
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import Peers
from longhall.console.api.recovery import recovery_routes
from longhall.console.api.service import Api
from longhall.console.http import HttpServer, Response, plain
from longhall.coordination.ports import Conflict, CoordinationError, Coordinator, MemberDescription, ShardState
from longhall.errors import LonghallError
from longhall.front.admission import Budget
from longhall.front.authenticator import DoorAuthentication
from longhall.names import CATALOGUE_SHARD
from longhall.node.addresses import Address
from longhall.node.join_state import RecordDoubted
from longhall.node.recovery_view import NodeRecovery
from longhall.service.router import Router
from longhall.world.ports import Network, World

LOOK_S: Final = 0.5
BODIES_BYTES: Final = 1024 * 1024

_log = logging.getLogger("longhall.node")


def copy_report(
    world: World, options: HallOptions, identity: Identity, member_file: MemberFile, reason: str
) -> CopyReport:
    """The state of the copy in the data directory of a member. Blocks on the disk."""
    hall = Hall(world, msgspec.structs.replace(options, shards=identity.shards))
    known = CopyReport(
        node=member_file.node,
        role=HALTED,
        reason=reason,
        level=identity.format,
        rebuilt=member_file.rebuilt,
        revision=member_file.revision,
        drains=member_file.drains,
        wings=member_file.wings,
    )
    try:
        recover_replica(hall)
    except LonghallError as error:
        return msgspec.structs.replace(known, intact=False, reason=f"{reason}; {error}")
    finally:
        hall.abandon()
    replica = hall.replica
    assert replica is not None
    return msgspec.structs.replace(
        known,
        intact=replica.index > 0,
        epoch=replica.epoch,
        epoch_known=replica.epoch,
        index=replica.index,
        committed=replica.committed,
        epochs=replica.epochs.snapshot(),
        nonces=dict(replica.nonces),
        replicas=sorted(noted_replicas(replica)),
    )


@final
class RecordWait:
    """One wait of a halted node for a record that it can accept. The node restarts when the wait is over."""

    def __init__(
        self,
        world: World,
        coordinator: Coordinator,
        identity: Identity,
        member_file: MemberFile,
        report: CopyReport,
        doubt: RecordDoubted,
        secrets: Secrets | None = None,
    ) -> None:
        self._world = world
        self._coordinator = coordinator
        self._identity = identity
        self._card = member_file
        self._report = report
        self._doubt = doubt
        self._peers = Peers(world, identity.hall_id, member_file.node, member_file.life, secrets=secrets)
        self._peers.level, self._peers.level_max = identity.format, NEWEST
        more = {SHARDS: identity.shards, **on_record(identity.secret, identity.format)}
        self.recovery = RecordRecovery(coordinator, self._peers, identity.hall_id, self, more)
        self._console: HttpServer | None = None

    async def run(
        self,
        peers_at: Address,
        http: Address,
        rack: str,
        logins: DoorAuthentication,
        closed: str,
        network: Network | None = None,
    ) -> None:
        """Wait for a record that this node can accept. CoordinationError if the coordinator does not answer."""
        _log.error("this node is halted: %s", self._doubt)
        api = Api(
            cast(Router, None), recovery_routes(NodeRecovery(self.recovery)), Budget(BODIES_BYTES), logins, closed
        )
        console = HttpServer({"/healthz": _well, "/readyz": self._unready}, service=api)
        try:
            port = await console.start(network or self._world.network, http.host, http.port)
            peers_port = await self._peers.open(peers_at.host, peers_at.port)
            addresses = {"peer": str(Address(peers_at.host, peers_port)), "http": str(Address(http.host, port))}
            described = MemberDescription(
                node_id=self._card.node,
                directory=self._card.directory,
                addresses=addresses,
                rack=rack,
                feature_level_min=OLDEST,
                feature_level_max=NEWEST,
                halted=str(self._doubt),
            )
            await self._look(described)
        finally:
            console.close()
            await self._peers.close()

    async def _look(self, described: MemberDescription) -> None:
        registered = False
        while True:
            try:
                if not registered or self._card.node not in await self._coordinator.members():
                    await self._coordinator.register(described)
                    registered = True
                if await self._is_settled():
                    return
            except Conflict as error:
                _log.info("another node changed the record; it is read again", extra={"reason": str(error)})
            except CoordinationError as error:
                _log.info("the coordinator did not answer", extra={"reason": str(error)})
            except LonghallError as error:
                _log.error("the record cannot be rebuilt: %s", error)
            await asyncio.sleep(LOOK_S)

    async def _is_settled(self) -> bool:
        members = await self._coordinator.members()
        known = {number: one.addresses.get("peer", "") for number, one in members.items() if number != self._card.node}
        self._peers.addresses = addresses_of(known)
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is not None and self.believes(state):
            return True
        if state is None or self._is_old(state):
            rebuilt = await self.recovery.attempt(state)
            return rebuilt is not None and self.believes(rebuilt)
        return False

    def report(self) -> CopyReport:
        return self._report

    def promise(self, epoch: int) -> CopyReport:
        return self._report  # A halted node accepts entries from no leader, so the promise holds.

    def doubts(self, state: ShardState) -> bool:
        return self._is_old(state)

    def believes(self, state: ShardState) -> bool:
        """True if this node can accept the record."""
        if self._is_old(state):
            return False
        return state.epoch > self._doubt.epoch or state.unclean_epoch > self._report.epoch

    def _is_old(self, state: ShardState) -> bool:
        return state.revision < self._card.revision or state.epoch < self._report.epoch

    async def _unready(self) -> Response:
        return plain(HTTPStatus.SERVICE_UNAVAILABLE, str(self._doubt))


async def _well() -> Response:
    return plain(HTTPStatus.OK, "ok")
