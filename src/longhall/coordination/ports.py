"""What nodes agree on, as values and as one protocol; nothing about its storage.

The implementations share their code over a tree of small values (`tree.py`): `embedded` (one machine) and `zookeeper`.
Every change is a compare-and-set: the caller passes the value it read, and a `Conflict` says that another node changed
it first. Reads may be stale, and a session may be over before its owner is notified. Safety comes from versions and
epochs alone, never from a node's belief that it is alive.

| error            | what happened                                            | what the caller does         |
|------------------|----------------------------------------------------------|------------------------------|
| `Conflict`       | nothing: the value had changed                           | read again, decide again     |
| `OutcomeUnknown` | no answer: a write was done, or not, or never sent       | read back, then decide       |
| `Expired`        | nothing: the session is over, and its values are gone    | step down, register again    |
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

NOBODY: Final = 0  # The leader of a shard without a leader. Nodes are numbered from 1.
NODE_ID_MAX: Final = 2**31 - 1
ABSENT: Final = -1  # The version of a value that does not exist.
REBUILT_STEP: Final = 1 << 40  # More changes than a record ever sees between two losses of the coordinator's data.


class CoordinationError(Exception):
    """An operation of the coordinator failed; see the table above."""


class Conflict(CoordinationError):
    """The value is not the one that the caller read. Nothing was changed."""


class OutcomeUnknown(CoordinationError):
    """There is no connection, or it broke before the answer arrived. A write may have been done: read back."""


class Expired(CoordinationError):
    """The session is over. Nothing was changed; a new session begins by itself, with nothing registered."""


class Session(enum.Enum):
    """The state of a coordinator's session. EXPIRED is always reported before the CONNECTED of the next session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # No connection. The session may be over already.
    EXPIRED = "expired"  # The registered values of the session are gone.
    CLOSED = "closed"


class Ids(enum.Enum):
    """Kinds of ids. Each id is given once in the life of a cluster."""

    PRODUCERS = "producers"
    PARTITIONS = "partitions"
    SHARDS = "shards"
    NODES = "nodes"
    WINGS = "wings"


# The roles of nodes that do not do everything.
FRONT: Final = "front"  # Serves its doors, and has no replicas.
METADATA: Final = "metadata"  # May have a replica of the hall, and none of the wings of hosts.
STORAGE: Final = "storage"  # May have replicas of wings, and none of the hall.


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A live node, as it describes itself. `register` gives the generation: greater each time, never reused."""

    node_id: int
    directory: str  # Its data directory: a second host under the same number is refused because of it.
    addresses: dict[str, str] = {}  # By door, `host:port`; `peer` is the address for other nodes.
    rack: str = ""
    feature_level_min: int = 0
    feature_level_max: int = 0
    generation: int = 0
    unfit: str = ""  # Why it should not become leader, in a word or two: its disk is full, or damaged.
    halted: str = ""  # Why it is fenced although it runs: its copy of the log contradicts the record.
    role: str = ""  # FRONT, METADATA or STORAGE; empty for a node that does everything, and in the group of a wing.

    @property
    def may_store_hall(self) -> bool:
        """True if the node may have a replica of the group in which it is registered: of the hall, or of a wing."""
        return self.role not in (FRONT, STORAGE)


class Manager(msgspec.Struct, frozen=True, kw_only=True):
    """The controller. Every term has an epoch of its own, greater than all before it."""

    node_id: int
    epoch: int


class ShardState(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas and the leader of a shard. A new leader has an epoch that no leader had before.

    `version` is that of the value read, for compare-and-set; it counts the changes and is not stored. `more` has the
    fields of later versions of Longhall: they are written back unchanged.
    """

    shard: int
    leader: int = NOBODY
    epoch: int = 0
    replicas: tuple[int, ...] = ()  # The first is preferred as leader.
    in_sync: tuple[int, ...] = ()
    leaving: tuple[int, ...] = ()  # Replicas that are removed as soon as others have caught up.
    factor: int = 0  # The wanted number of replicas; 0 for the controller's setting.
    # The epoch in which an operator made a replica leader that may lack committed entries; 0 for none.
    unclean_epoch: int = 0
    rebuilt: int = 0  # How often the record was rebuilt from the logs, because the coordinator had lost it.
    version: int = ABSENT
    more: dict[str, object] = {}

    @property
    def revision(self) -> int:
        """Greater with every change, also across a loss of the coordinator's data, after which versions start again."""
        return self.rebuilt * REBUILT_STEP + self.version


class NodeLife(msgspec.Struct, frozen=True, kw_only=True):
    """The last start of a node that the coordinator knows: its data directory, and the number of the start."""

    directory: str
    life: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The last committed entry that a leader has recorded: epoch and index."""

    epoch: int = 0
    index: int = 0


class ReplicationGroup(msgspec.Struct, frozen=True, kw_only=True):
    """An additional replication group (a wing) on some hosts of the cluster. `beside` has its coordinator."""

    name: str
    number: int
    hosts: tuple[int, ...] = ()  # Those with a process of the group. The first is preferred as leader.
    wanted: tuple[int, ...] = ()  # The hosts chosen by an operator, if any; the group leaves all others.
    reserved: bool = False  # These hosts store nothing else.
    leader: int = NOBODY  # The host that should lead the group of another host, for balance.
    version: int = ABSENT


class FeatureLevel(msgspec.Struct, frozen=True, kw_only=True):
    """The formats that all nodes may write."""

    level: int = 0
    version: int = ABSENT


class Watch(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """Stop the watch. Its callback is not called again."""


class Coordinator(Protocol):
    """Everything that nodes agree on. Every call is made on the loop, and so is every callback.

    A watch calls with the whole value: first as soon as it is known, then after every change. Intermediate values may
    be skipped, the last one never is. A watch survives lost connections and sessions until it is cancelled.
    """

    @property
    def session(self) -> Session: ...

    async def start(self) -> None:
        """Begin a session. OutcomeUnknown if there is no answer in time."""

    async def prepare(self) -> None:
        """Create the root of the tree, as `start` does: the coordinator may have lost its data since."""

    async def close(self) -> None:
        """End the session: its registered values are removed at once."""

    def on_session(self, callback: Callable[[Session], None]) -> Watch:
        """Call with every change of `session` from now on, in order."""

    async def cluster_id(self, proposed: str) -> str:
        """The permanent id of this cluster: the first one proposed."""

    # Members.

    async def register(self, member: MemberDescription) -> MemberDescription:
        """Register a member until this session ends; returns it with its generation. A second call replaces the
        description under the same generation.

        The entry of an earlier run with the same data directory is replaced. Conflict if a live node with another
        directory has this number.
        """

    async def members(self) -> dict[int, MemberDescription]: ...

    async def member(self, node_id: int) -> MemberDescription | None: ...

    def watch_members(self, callback: Callable[[Mapping[int, MemberDescription]], None]) -> Watch: ...

    async def note_life(self, node_id: int, life: NodeLife) -> NodeLife | None:
        """Record this start of a node, unless a later one with the same directory is known; returns the previous
        record.
        """

    # The controller.

    async def campaign(self, node_id: int) -> Manager:
        """Become controller unless there is one; returns the controller. The term ends with the session."""

    async def resign(self, manager: Manager) -> None:
        """End the term, if this session still has it under this epoch."""

    async def manager(self) -> Manager | None: ...

    def watch_manager(self, callback: Callable[[Manager | None], None]) -> Watch: ...

    # Shards.

    async def shards(self) -> dict[int, ShardState]: ...

    async def shard(self, shard: int) -> ShardState | None: ...

    async def change_shard(
        self, before: ShardState | None, after: ShardState, *, under: Manager | None = None
    ) -> ShardState:
        """Replace `before` by `after` (None: the shard must not exist yet); returns it with its new version.

        With `under` the change is made only while that term lasts, so that a deposed controller changes nothing.
        Conflict otherwise. An epoch never decreases, and a new leader needs a greater one (`next_epoch`).
        """

    async def remove_shard(self, before: ShardState) -> None: ...

    def watch_shards(self, callback: Callable[[Mapping[int, ShardState]], None]) -> Watch: ...

    async def note_progress(self, progress: Progress) -> None:
        """Record a committed position. A recorded one that is further is preserved."""

    async def progress(self) -> Progress:
        """The last recorded position; of index 0 if there is none."""

    # Counters.

    async def next_epoch(self, *, above: int = 0) -> int:
        """A number greater than all numbers given before, and than `above`."""

    async def take_ids(self, kind: Ids, count: int, *, first_min: int = 0) -> range:
        """A block of ids that no other caller gets, from `first_min` on. Unused ids of it are lost."""

    # Settings of the cluster.

    async def feature_level(self) -> FeatureLevel: ...

    async def change_feature_level(self, before: FeatureLevel, level: int) -> FeatureLevel: ...

    def watch_feature_level(self, callback: Callable[[FeatureLevel], None]) -> Watch: ...

    async def drains(self) -> frozenset[int]:
        """The nodes that are to lead and store nothing, alive or not."""

    async def mark_drain(self, node_id: int) -> None: ...

    async def clear_drain(self, node_id: int) -> None: ...

    def watch_drains(self, callback: Callable[[frozenset[int]], None]) -> Watch: ...

    # Wings.

    async def wings(self) -> dict[str, ReplicationGroup]: ...

    async def change_wing(self, before: ReplicationGroup | None, after: ReplicationGroup) -> ReplicationGroup:
        """Replace `before` by `after` (None: the group must not exist yet); returns it with its new version."""

    def watch_wings(self, callback: Callable[[Mapping[str, ReplicationGroup]], None]) -> Watch: ...

    def beside(self, wing: str) -> Coordinator:
        """The coordinator for the nodes of a wing, in the same session. The wing must exist. Start and close it like
        any other; closing it does not end the session.
        """
