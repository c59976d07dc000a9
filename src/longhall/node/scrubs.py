"""The background scrub of all nodes of a cluster, for the HTTP API.

The node that gets the request asks every live node of its cluster, and each of them asks the wings on its host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, final

import msgspec

from longhall.broker.recovery import Identity, write_identity
from longhall.broker.scrub import IdentityFile
from longhall.cluster.membership.member_file import MEMBER_FILE, MemberFile, write_member_file
from longhall.cluster.rpc.peers import Peers
from longhall.errors import LonghallError
from longhall.log.layout import IDENTITY
from longhall.node.join_state import JoinState, as_member
from longhall.service.administration import ScrubStatus
from longhall.world.ports import World

if TYPE_CHECKING:
    from longhall.node.assembly import Node

LOOK: Final = "scrub-look"
BEGIN: Final = "scrub-begin"
ANSWER_S: Final = 5.0
DAMAGED_SHOWN_MAX: Final = 20

IDENTITY_FIELDS: Final = ("hall_id", "shards", "secret")
MEMBER_FIELDS: Final = ("node", "directory", "life")


@final
class NodeScrubs:
    """Fulfils `service.administration.ScrubNodes` and `console.scrub_families.ScrubCounts`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def serve(self, peers: Peers) -> None:
        """Answer scrub requests of other nodes."""
        peers.serve(LOOK, partial(self._answer, False))
        peers.serve(BEGIN, partial(self._answer, True))

    # For metrics

    @property
    def bytes_read(self) -> int:
        return self._node.scrubber.report.bytes_read

    @property
    def damage(self) -> Mapping[str, int]:
        return self._node.scrubber.report.damage

    @property
    def repairs(self) -> Mapping[str, int]:
        return self._node.scrubber.report.repairs

    @property
    def damaged_now(self) -> int:
        return len(self._node.scrubber.report.damaged)

    @property
    def ratio(self) -> float:
        return self._node.scrubber.report.ratio

    @property
    def completed_ms(self) -> int:
        return self._node.scrubber.report.progress.completed_ms

    @property
    def failures(self) -> int:
        return self._node.scrubber.report.failures

    # For operators

    async def look(self, *, begin: bool) -> list[ScrubStatus]:
        found = await self._here(begin)
        cluster_node = self._node.cluster_node
        if cluster_node is not None:
            others = [number for number in sorted(cluster_node.session.living) if number != cluster_node.place.node]
            verb = BEGIN if begin else LOOK
            asked = [_told(number, "", cluster_node.peers.request(number, verb, b"", ANSWER_S)) for number in others]
            for views in await asyncio.gather(*asked):
                found += views
        return sorted(found, key=lambda view: (view.node, view.wing))

    async def _answer(self, begin: bool, node: int, body: bytes) -> bytes:
        return msgspec.msgpack.encode(await self._here(begin))

    async def _here(self, begin: bool) -> list[ScrubStatus]:
        """The scrub of this process, and of the wings on this host."""
        found = [self._view()]
        if begin:
            self._node.scrubber.begin_now()
        cluster_node = self._node.cluster_node
        group_directory = cluster_node.group_directory if cluster_node is not None else None
        if cluster_node is not None and group_directory is not None:
            number, verb = cluster_node.place.node, BEGIN if begin else LOOK
            for wing in group_directory.records.values():
                client = group_directory.client(wing.number)
                if client is not None and number in wing.hosts:
                    found += await _told(number, wing.name, client.ask(number, verb, ANSWER_S))
        return found

    def _view(self) -> ScrubStatus:
        report, place = self._node.scrubber.report, self._node.cluster_node and self._node.cluster_node.place
        return ScrubStatus(
            node=place.node if place else self._node.kafka_door.node_id,
            wing=place.wing.name if place and place.wing is not None else "",
            passes=report.passes,
            ratio=report.ratio,
            bytes_done=report.bytes_done,
            bytes_total=report.bytes_total,
            damage=sum(report.damage.values()),
            repaired=sum(report.repairs.values()),
            damaged_now=[one.path for one in report.damaged][:DAMAGED_SHOWN_MAX],
            damaged_count=len(report.damaged),
            completed_ms=report.progress.completed_ms,
            interval_ms=self._node.settings.scrub_interval_ms,
        )


async def _told(node: int, wing: str, answer: Awaitable[bytes]) -> list[ScrubStatus]:
    try:
        return msgspec.msgpack.decode(await answer, type=list[ScrubStatus])
    except (OSError, TimeoutError, LonghallError, msgspec.DecodeError) as error:
        return [ScrubStatus(node=node, wing=wing, reason=str(error) or "it does not answer")]


def papers_of(world: World, identity: Identity, place: JoinState | None) -> list[IdentityFile]:
    """The identity files of the data directory. The scrub compares them with memory, and can write them again."""
    if place is None:
        return [
            IdentityFile(
                IDENTITY, partial(_agrees, identity, IDENTITY_FIELDS), partial(write_identity, world.disk, identity)
            ),
        ]
    return [
        IdentityFile(
            IDENTITY, partial(_agrees, place.identity, IDENTITY_FIELDS), lambda: _rewrite_identity(world, place)
        ),
        IdentityFile(
            MEMBER_FILE,
            partial(_agrees, place.member_file, MEMBER_FIELDS),
            lambda: write_member_file(world.disk, place.member_file),
        ),
    ]


def _rewrite_identity(world: World, place: JoinState) -> None:
    write_identity(world.disk, as_member(place.identity))


def _agrees(known: Identity | MemberFile, fields: tuple[str, ...], data: bytes) -> bool:
    """True if a file on the disk can be decoded and has the same values in these fields as the node has in memory."""
    try:
        found = msgspec.json.decode(data, type=type(known))
    except msgspec.DecodeError:
        return False
    return all(getattr(found, field) == getattr(known, field) for field in fields)
