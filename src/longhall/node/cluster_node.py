"""The part of a node that belongs to a cluster: created with the doors, closed with them.

It connects the rooms of the cluster to the node: peer connections, the replica, the coordinator session, and the
router. When the state in memory must be discarded, `fallen` has the reason, and `node.lifecycle` starts the node again
from its data directory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, final

from longhall.broker.checkpoint import checkpoint
from longhall.broker.feature_gates import OLDEST, RECEIPT_SECRET_LEVEL
from longhall.broker.hall import Hall
from longhall.broker.leadership import NOBODY
from longhall.broker.placement import WING_STEP
from longhall.broker.recovery import write_identity
from longhall.broker.replay import Recovered
from longhall.broker.replica_recovery import RecoveredReplica, convert_to_replica, recover_replica
from longhall.broker.transaction_appends import append_in_transaction
from longhall.broker.transaction_verification import TransactionVerification
from longhall.cluster.membership.coordinator_session import CoordinatorSession
from longhall.cluster.membership.copy_report import CopyReport
from longhall.cluster.membership.election import UNCLEAN
from longhall.cluster.membership.hosts import Hosts
from longhall.cluster.membership.join import SHARDS, adopt_epoch
from longhall.cluster.membership.member_file import write_member_file
from longhall.cluster.membership.metadata import is_stale
from longhall.cluster.membership.receipt_secret import SECRET, on_record, serve_secret, withdraw_secret
from longhall.cluster.membership.record_recovery import RecordRecovery
from longhall.cluster.placement.cluster_map import ClusterMap
from longhall.cluster.placement.group_administration import GroupAdministration
from longhall.cluster.placement.group_balancer import GroupBalancer
from longhall.cluster.placement.group_client import GroupClient
from longhall.cluster.placement.group_lags import serve_lags
from longhall.cluster.placement.group_measures import sizes_of, traffic_of
from longhall.cluster.placement.group_moves import serve_moves
from longhall.cluster.placement.group_parts import GroupParts
from longhall.cluster.placement.group_reconciler import GroupReconciler
from longhall.cluster.placement.group_topics import GroupTopics
from longhall.cluster.placement.group_transactions import CoordinatorSide, GroupSide
from longhall.cluster.placement.part_operations import ChangeParts, MeasureParts
from longhall.cluster.placement.partition_balancer import PartitionBalancer
from longhall.cluster.placement.partition_mover import PartitionMover
from longhall.cluster.placement.placed_resizer import PlacedResizer
from longhall.cluster.placement.share_positions import PlacedSharePositions, serve_share_positions
from longhall.cluster.placement.topic_operations import (
    ApplyTopic,
    ListPlacedQueues,
    ListTopics,
    MeasureTopics,
    MeasureTraffic,
    NoteArchived,
    NoteDeletedQueue,
    RemovePlacedQueue,
    RemoveTopic,
)
from longhall.cluster.placement.transaction_operations import (
    AppendInTransaction,
    SettleInTransaction,
    VerifyPartition,
    WriteMarkers,
)
from longhall.cluster.replication.full_sync import IncompleteSource, LogHistory, full_sync_beside, replaced_copies
from longhall.cluster.replication.group_replica import GroupReplica
from longhall.cluster.replication.leadership_check import LeadershipCheck
from longhall.cluster.replication.repair_policy import Diverged, Failure, Remedy
from longhall.cluster.replication.replica_report import report_of
from longhall.cluster.replication.roles import Role
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.console.metrics import Block
from longhall.coordination.ports import FRONT, CoordinationError, ReplicationGroup, ShardState, Watch
from longhall.coordination.ports import MemberDescription as Described
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.node.addresses import Address, parse_address
from longhall.node.join_state import JoinState, RecordDoubted, as_member
from longhall.node.memory_shares import member_options
from longhall.node.remote_metrics import METRICS, METRICS_S_MAX, gathered
from longhall.node.room_settings import group_role
from longhall.service.outbox_calls import OutboxCalls
from longhall.service.placed_queue import placed_queue
from longhall.service.placed_queues import PlacedQueues
from longhall.service.queue_administration import QueueAdministration
from longhall.service.queue_ends import GroupQueueEnds, HallQueueEnds
from longhall.service.topic_placements import TopicPlacements

if TYPE_CHECKING:
    from longhall.node.assembly import Node

LOOK_S: Final = 0.02
TURN_S: Final = 0.5  # Between two attempts of a full sync while its source serves another node.

_log = logging.getLogger("longhall.cluster_node")


@final
class ClusterNode:
    """One node of a cluster: its peers, its coordinator session and, after `recover`, its replica.

    Invariant: `fallen` is set at most once. The node is dropped then, and a new object takes its place.
    """

    def __init__(self, node: Node, place: JoinState) -> None:
        self.place = place
        self.peers_at = Address("", 0)
        self.fallen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.damaged = False  # The copy in the data directory must not be used.
        self.refetch_from = 0  # The source of the full sync before the next start; 0 if none is needed.
        self.doubt: RecordDoubted | None = None  # Why the node is halted until there is another record.
        self.hall_id = node.hall.hall_id
        self.in_sync_min = node.settings.in_sync_min
        self._node = node
        hall, world = node.hall, node.world
        self.peers = Peers(world, hall.hall_id, place.node, place.member_file.life, secrets=place.secrets)
        self.peers.is_member = self._is_member
        serve_secret(self.peers, place.identity.secret)
        self.peers.level, self.peers.level_max = place.level, place.level_max
        hall.feature_level = place.level
        self.session = CoordinatorSession(
            place.coordinator,
            place.node,
            place.state,
            world.network,
            self,
            factor=node.settings.replication_factor,
            in_sync_min=node.settings.in_sync_min,
            raises_level=node.settings.feature_level_automatic,
            campaigns=node.settings.role != FRONT,
        )
        self.hosts = Hosts(self.session, place.coordinator)
        more = {SHARDS: place.identity.shards, **on_record(place.identity.secret, place.level)}
        self.recovery = RecordRecovery(place.coordinator, self.peers, hall.hall_id, self, more)
        self.member: GroupReplica | None = None
        self._rejoined: RecoveredReplica | None = None
        self._divergent = False  # This node leads, and its state differs from the majority's.
        self._fetching: asyncio.Task[None] | None = None
        self._withdrawing: asyncio.Task[None] | None = None
        self._fetched_all = False  # A full sync is complete; the next start replaces the damaged copy with it.
        self._watch: Watch | None = None
        hall.leadership = self.session
        confirming = LeadershipCheck(self.session, self.peers, self._epoch, self._electable)
        node.service.join(self.session, self.peers, confirm=confirming.confirm)
        node.name(place.node, node.settings.rack)
        self.group_directory: GroupReconciler | None = None  # The wings of the main hall,
        self.wings: GroupAdministration | None = None  # and the operations of operators on them;
        self.map: ClusterMap | None = None  # where every partition is;
        self.balancer: GroupBalancer | None = None
        self.mover: PartitionMover | None = None
        self.resizer: PlacedResizer | None = None
        self.main: GroupClient | None = None  # in a wing, the client of the main hall.
        if place.wing is None:
            self._serve_hall(node, confirming)
        else:
            self._serve_group(node, place.wing)

    def _serve_hall(self, node: Node, confirming: LeadershipCheck) -> None:
        """As a node of the main hall: know the wings, and place what they have."""
        hall, place = node.hall, self.place
        self.group_directory = GroupReconciler(
            hall,
            self.session,
            place.root,
            place.member_file.life,
            place.secrets,
            confirming.confirm,
            default_placement=node.settings.default_placement,
        )
        hall.wings = self.group_directory
        self.group_directory.on_known = self._remember_wings
        self.wings = GroupAdministration(self.group_directory, self.hosts, place.root, self.session)
        self.map = ClusterMap(hall, self.session, self.group_directory)
        automatic = node.settings.balance_automatic
        rate = node.settings.copy_bytes_a_second
        self.mover = PartitionMover(hall, self.group_directory, confirming.confirm, rate)
        TopicPlacements(hall, self.group_directory, self.mover).register(node.broker)
        partitions = PartitionBalancer(hall, self.group_directory, self.mover, automatic=automatic)
        self.balancer = GroupBalancer(hall, self.group_directory, partitions, automatic=automatic)
        assert node.service.sessions is not None
        placed = PlacedQueues(self.group_directory, partial(placed_queue, hall), node.service.sessions)
        node.service.place(placed)
        self.resizer = PlacedResizer(hall, self.group_directory, node.queues.resizer)
        node.queues.consumers.join(HallQueueEnds(node.service))
        node.queues.outbox.connect(OutboxCalls(node.service.dispatch))
        node.kafka_door.share_groups.connect(PlacedSharePositions(hall, self.group_directory))
        QueueAdministration(hall, node.queues, self.group_directory, placed).register(node.broker)
        coordinator = CoordinatorSide(hall, node.kafka_door.transactor, confirming.confirm)
        node.broker.also(VerifyPartition, lambda op, caller: coordinator.verify(op))
        node.registry.others = self._others_metrics

    def _serve_group(self, node: Node, wing: ReplicationGroup) -> None:
        """As a process of a wing: carry out what the leader of the main hall asks for."""
        hall, place = node.hall, self.place
        number = wing.number * WING_STEP + place.node
        self.main = GroupClient(
            node.world, number, place.member_file.life, place.root, "the hall", place.secrets, begins=False
        )
        self._wings_changed({wing.name: wing})
        self._store_topics(GroupTopics(hall, node.queues))
        transactions = GroupSide(hall, self.main)
        hall.transaction_verifier = TransactionVerification(hall, transactions)
        node.broker.also(WriteMarkers, lambda op, caller: transactions.write(op))
        node.broker.also(SettleInTransaction, lambda op, caller: transactions.settle(op))
        node.broker.also(AppendInTransaction, lambda op, caller: append_in_transaction(hall, op.batch))
        node.be_group(number, self.main)
        node.queues.consumers.join(GroupQueueEnds(self.main.call))
        node.queues.outbox.connect(OutboxCalls(self.main.call))
        self.peers.serve(METRICS, self._tell_metrics, Audience.GUESTS)

    async def recover(self) -> Recovered:
        """Recover the hall from the data directory, as a replica."""
        hall = self._node.hall
        place = self.place
        if place.identity.member:
            self._rejoined = recover_replica(hall)
            self._check_record(hall)
        else:
            self._rejoined = convert_to_replica(hall)
            assert hall.replica is not None
            state = await adopt_epoch(place.coordinator, place.node, hall.replica.epoch)
            self.session.take_state(state)
            await checkpoint(hall)
            write_identity(self._node.world.disk, as_member(place.identity))
        return self._rejoined.report

    def _check_record(self, hall: Hall) -> None:
        """Raises RecordDoubted if the record is older than the log: the coordinator was restored from a backup."""
        assert hall.replica is not None
        if hall.replica.epoch > self.place.state.epoch:
            raise RecordDoubted(
                f"the log here has entries of epoch {hall.replica.epoch}, and the coordinator's record has epoch "
                f"{self.place.state.epoch}"
            )

    async def join(self) -> None:
        """Register with the coordinator and join replication. The doors are open."""
        node, settings = self._node, self._node.settings
        assert self._rejoined is not None
        options = member_options(settings)
        member = self.member = GroupReplica(
            node.hall, self._rejoined, self.place.node, self.peers, self.session.registrar, self, options
        )
        wanted = parse_address(settings.peers)
        self.peers_at = Address(wanted.host, await self.peers.open(wanted.host, wanted.port))
        door = node.kafka_door
        described = Described(
            node_id=self.place.node,
            directory=self.place.member_file.directory,
            addresses={
                **node.door_addresses(),
                "kafka": str(Address(door.host, door.port)),
                "peer": str(self.peers_at),
            },
            rack=settings.rack,
            feature_level_min=OLDEST if self.place.level_max > OLDEST else 0,  # The first version did not publish it.
            feature_level_max=self.place.level_max if self.place.level_max > OLDEST else 0,
            unfit=self.condition(),
            role=group_role(settings),
        )
        await self.session.start(member, self.peers, described, self.recovery)
        if self.balancer is not None:
            self.balancer.start()
        if self.mover is not None:
            self.mover.start()
        if self.resizer is not None:
            self.resizer.start()
        if self.place.wing is not None:
            self._watch = self.place.root.watch_wings(self._wings_changed)

    async def settled(self) -> None:
        """Wait until a leader is known that serves clients."""
        while True:
            known = self.place.wing is not None or self._node.authentication.authenticator.directory.known
            if self.session.has_leader and not self.damaged and known:
                self._node.status.state = None
                return
            await asyncio.sleep(LOOK_S)

    async def hand_over(self) -> bool:
        """Transfer the leadership before this node stops. True if another node leads."""
        try:
            return await self.session.transfer_leadership()
        except LonghallError:  # Already logged. The others elect a leader when the session ends.
            return False

    async def retire(self) -> None:
        """Stop following and withdraw before this node stops. A node that still leads does nothing here."""
        if self.member is not None and not self.session.serving:
            await self.member.stop()
            await self.withdraw()

    async def withdraw(self) -> None:
        """Withdraw from the record, so that the others do not wait for this node."""
        try:
            await self.session.withdraw()
        except CoordinationError as error:
            _log.info("this node could not withdraw from the record before its stop", extra={"reason": str(error)})

    async def leave(self, *, cleanly: bool) -> None:
        """Stop the session, replication and all connections. `cleanly` records a clean stop in the data directory."""
        for task in (self._fetching, self._withdrawing):
            if task is not None:
                task.cancel()
        self.session.stop()
        if self._watch is not None:
            self._watch.cancel()
        self._node.service.close()
        if self.balancer is not None:
            self.balancer.close()
        if self.mover is not None:
            self.mover.close()
        if self.resizer is not None:
            self.resizer.close()
        for others in (self.group_directory, self.main):
            if others is not None:
                await others.close()
        if self.member is not None:
            await self.member.stop()
        await self.peers.close()
        if cleanly:
            await self._node.hall.commits.durable()
            self.place.leave_cleanly(self._node.world)

    # Callbacks

    async def lead(self) -> None:
        """The replica leads: serve clients."""
        self._node.lead()

    def _wings_changed(self, wings: Mapping[str, ReplicationGroup]) -> None:
        """Apply the record of this node's wing: its hosts and its preferred leader may have changed."""
        wing = wings.get(self.place.wing.name) if self.place.wing is not None else None
        if wing is not None and wing.hosts:
            self.session.set_placement(wing.hosts[0], len(wing.wanted or wing.hosts))

    async def _others_metrics(self) -> dict[str, list[Block]]:
        """The metrics of the wing processes on this host."""
        asked: dict[str, Awaitable[bytes]] = {}
        for wing in self.group_directory.records.values() if self.group_directory is not None else ():
            client = self.group_directory.client(wing.number) if self.group_directory is not None else None
            if client is not None and self.place.node in wing.hosts:
                asked[wing.name] = client.ask(self.place.node, METRICS, METRICS_S_MAX)
        return await gathered(asked)

    async def _tell_metrics(self, node: int, body: bytes) -> bytes:
        return await self._node.registry.render()

    def _epoch(self) -> int:
        """The newest epoch that this node knows."""
        led = self.session.epoch(CATALOGUE_SHARD)
        return led if self.member is None else max(led, self.member.epoch)

    def _electable(self) -> frozenset[int]:
        """The nodes that may be in the in-sync set of the record, as far as this node knows."""
        leading = self.member.leading if self.member is not None else None
        if leading is None:
            return frozenset(self.session.in_sync(CATALOGUE_SHARD))
        return leading.in_sync | (leading.asked or frozenset())

    def condition(self) -> str:
        """Why this node should not lead; empty if it may."""
        repairs = self.place.repairs
        if repairs.reason and self._is_in_sync():
            _log.info("this replica is repaired and in sync", extra={"reason": repairs.reason})
            repairs.healed()
        if repairs.reason:
            return repairs.reason
        if self.member is not None and self.member.repair.is_unfit:
            return "damaged"
        if self.place.unclean and self.member is not None and self.member.role_of(CATALOGUE_SHARD) is not Role.LEADER:
            if not self.member.is_following:
                return UNCLEAN
            self.place.unclean = False  # Its log matches the leader's.
        return "full" if self._node.hall.storage_full else ""

    def _is_in_sync(self) -> bool:
        fit = self.member is not None and self.member.role_of(CATALOGUE_SHARD) is not Role.ABSENT
        return fit and not self._node.hall.failed and self.place.node in self.session.in_sync(CATALOGUE_SHARD)

    def check_leadership(self) -> None:
        """While this node may have lost its leadership, no client waits here for a commit that can hardly come."""
        if self.session.leads(CATALOGUE_SHARD) and self.session.leader_node(CATALOGUE_SHARD) == NOBODY:
            self._node.let_go()

    def restart(self, reason: str) -> None:
        """Discard the replica with its hall; the node recovers both from the data directory."""
        if not self.fallen.done():
            leader = self.session.state.leader
            others = set(self.session.in_sync(CATALOGUE_SHARD)) - {self.session.node}
            if (
                self.member is not None
                and (self.member.repair.is_unfit or self._divergent)
                and not self._fetched_all
                and leader != self.session.node
                and (leader or others)
            ):
                self.damaged = True
                self.refetch_from = leader  # NOBODY during an election: the next start looks again.
            _log.warning("the hall restarts from the data directory", extra={"reason": reason})
            self.fallen.set_result(reason)

    def raise_level(self, level: int) -> None:
        """Raise the feature level: it is stored in the data directory before any entry is written in its formats."""
        if level > self.place.level_max:
            self.restart(
                f"the cluster is at feature level {level}, and this version knows up to {self.place.level_max}"
            )
            return
        try:
            if level > self.place.level:
                self.place.raise_level(self._node.world, level)
        except OSError as error:
            raise LonghallError(Code.STORAGE_FULL, f"the new feature level cannot be stored: {error}") from None
        self.peers.level = self.place.level
        if self.member is not None:
            self.member.raise_level(self.place.level)
        if self.place.level >= RECEIPT_SECRET_LEVEL and self.session.serving and SECRET in self.session.state.more:
            self._withdraw_receipt_secret()

    def _withdraw_receipt_secret(self) -> None:
        """Remove the receipt secret from the record. The session repeats the call, so a failure is retried."""
        if self._withdrawing is None or self._withdrawing.done():
            work = withdraw_secret(self.place.coordinator)
            self._withdrawing = asyncio.get_running_loop().create_task(_quietly(work), name="withdraw secret")

    def _is_member(self, node: int) -> bool:
        """True if the record or the coordinator's list of live nodes has this number, or the node is drained."""
        state = self.session.state
        return node in {*state.replicas, *state.in_sync, *self.session.living, *self.session.drained}

    def doubts(self, state: ShardState) -> bool:
        """True if the record is older than what this node has seen."""
        return is_stale(state, self.session.state)

    def promise(self, epoch: int) -> CopyReport:
        """Take nothing from leaders before this epoch: the record is about to be rebuilt."""
        if self.member is None:
            raise LonghallError(Code.NOT_READY, "this node is not in service")
        self.member.vote(epoch)
        return self.report()

    def report(self) -> CopyReport:
        """The state of this node's copy, for other nodes."""
        member, member_file = self.member, self.place.member_file
        known = CopyReport(
            node=self.place.node,
            level=self.place.level,
            rebuilt=member_file.rebuilt,
            revision=member_file.revision,
            drains=member_file.drains,
            wings=member_file.wings,
            intact=False,
        )
        return known if member is None else report_of(member, known)

    def record_changed(self, state: ShardState) -> None:
        """Store the newest record seen, so that an older record of a restored coordinator is rejected later."""
        member_file = self.place.member_file
        if state.revision > member_file.revision:
            member_file.revision, member_file.rebuilt, member_file.drains = (
                state.revision,
                state.rebuilt,
                sorted(self.session.drained),
            )
            self._write_card()
        if self.place.node in state.in_sync and self.member is not None:
            self._remove_leavings()

    def _remember_wings(self, wings: list[ReplicationGroup]) -> None:
        if wings != self.place.member_file.wings:
            self.place.member_file.wings = wings
            self._write_card()

    def _write_card(self) -> None:
        try:
            write_member_file(self._node.world.disk, self.place.member_file)
        except OSError as error:
            _log.warning("the newest record could not be stored", extra={"reason": str(error)})

    def _remove_leavings(self) -> None:
        """Remove the copy that a full sync replaced: this replica is in sync."""
        hall = self._node.hall
        paths = replaced_copies(self._node.world.disk)
        if paths and paths[-1] not in hall.removals:
            _log.info("the copy that a full sync replaced is removed")
            hall.removals += paths
            if hall.removal_wanted is not None:
                hall.removal_wanted.set()

    def refuse_leader(self, leader: int, reason: str) -> None:
        """Halt: the leader lacks entries that are committed here. If an operator gave them up, run a full sync."""
        member, state = self.member, self.session.state
        assert member is not None
        if state.unclean_epoch > member.replica.epoch:
            self.refetch(leader, f"{reason}; an operator gave them up", given_up=True)
            return
        self.doubt = RecordDoubted(
            f"node {leader} leads epoch {state.epoch} and lacks entries that were committed here, up to "
            f"{member.replica.committed}: `longhall cluster recover` shows all copies; to give this copy up, move "
            "the data directory away and start again",
            epoch=state.epoch,
        )
        self.restart(reason)

    def repair(self, leader: int, failure: Failure) -> None:
        """The replica is out of service: rebuild it from the disk, or from the leader."""
        remedy = self.place.repairs.failed(failure)
        if isinstance(failure, Diverged) and leader == self.place.node:
            self._divergent = True
            return  # It is unfit: after the next election it syncs from the new leader.
        self._node.status.state = f"this replica is being repaired: {failure}"
        if remedy is Remedy.RESTART:
            self.restart(f"the state is rebuilt from the disk: {failure}")
        else:
            self._give_up_copy(leader, str(failure))

    def _give_up_copy(self, leader: int, reason: str) -> None:
        """Discard the copy in the data directory: the node serves again after a full sync."""
        self.damaged = True
        if leader in (NOBODY, self.place.node):
            self.restart(reason)  # The next start syncs from the next leader.
        else:
            self.refetch(leader, reason)

    def refetch(self, leader: int, reason: str, *, given_up: bool = False) -> None:
        """A full sync from the leader replaces the copy here. `given_up`: an operator gave it up."""
        if self._fetching is None and self.member is not None:
            _log.info("a full sync begins", extra={"from": leader, "reason": reason})
            replica = self.member.replica
            history = LogHistory(
                epochs=replica.epochs.snapshot(),
                index=replica.index,
                committed=replica.committed,
                nonces=dict(replica.nonces),
                given_up=given_up,
            )
            background = self._node.hall.background
            self._fetching = background.start("full sync", partial(self._fetch, leader, history), fatal=True)

    async def _fetch(self, node: int, history: LogHistory) -> None:
        """Run a full sync into a directory beside the copy, with the doors open. The next start replaces the copy."""
        rate = self._node.settings.copy_bytes_a_second
        try:
            await self.session.withdraw()  # This node must not be elected meanwhile.
            while True:
                if await self._fetched(node, rate, history):
                    self._fetched_all = True
                    break
                await asyncio.sleep(TURN_S)
        except IncompleteSource as error:
            self.refuse_leader(node, str(error))
            return
        except (OSError, TimeoutError, LonghallError, CoordinationError) as error:
            _log.warning("the full sync failed and will be retried", extra={"reason": str(error)})
        else:
            self.damaged = False
        self.restart(f"a full sync from node {node}")

    async def _fetched(self, node: int, bytes_a_second: int, history: LogHistory) -> bool:
        """Run one full sync. False if the source serves another node at the moment."""
        try:
            await full_sync_beside(self._node.world, self.peers, node, bytes_a_second, history)
        except LonghallError as error:
            if error.code is Code.OVERLOADED:
                return False
            raise
        return True

    def _store_topics(self, topics: GroupTopics) -> None:
        """Store the topics that are placed in this group."""
        broker = self._node.broker
        broker.also(ApplyTopic, lambda op, caller: topics.apply(op.spec))
        broker.also(RemoveTopic, lambda op, caller: topics.remove(op.name, op.topic_id))
        broker.also(ListTopics, lambda op, caller: topics.list())
        broker.also(RemovePlacedQueue, lambda op, caller: topics.remove_queue(op.name, op.queue_id))
        broker.also(ListPlacedQueues, lambda op, caller: topics.list_queues())
        broker.also(NoteDeletedQueue, lambda op, caller: topics.note_deleted(op.name))
        broker.also(NoteArchived, lambda op, caller: topics.note_archived(op.name, op.topic_id, op.rows))
        broker.also(MeasureTopics, lambda op, caller: sizes_of(self._node.hall, op.names))
        serve_lags(self._node.hall, broker)
        serve_moves(self._node.hall, broker)
        serve_share_positions(self._node.hall, broker)
        parts = GroupParts(self._node.hall, self._node.queues.resizer)
        broker.also(MeasureParts, lambda op, caller: parts.measure(op))
        broker.also(ChangeParts, lambda op, caller: parts.change(op))
        broker.also(MeasureTraffic, lambda op, caller: traffic_of(self._node.hall))
        self._node.service.store(topics)


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except CoordinationError as error:
        _log.debug("the coordinator did not answer", extra={"reason": str(error)})
