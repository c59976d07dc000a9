"""What nodes agree on, as values and as one protocol; nothing about how it is kept.

Two sides implement it with the same code over a tree of small values (`tree.py`): `embedded` (one machine) and
`zookeeper`. Whatever changes is written by compare-and-set: the caller hands back the value it read, and a `Conflict`
says that somebody was quicker. Nothing here promises freshness: a value that was read may be old, and a session may be
over before its owner hears of it. Safety comes from versions and epochs alone, never from who believes to be alive.

| error | what happened | what the caller does |
|---|---|---|
| `Conflict` | nothing: the value had changed | read again, decide again |
| `OutcomeUnknown` | no answer: a write was done, or not, or never sent | read back, then decide |
| `Expired` | nothing: the session is over, and what hung on it is gone | step down, register again |
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

NOBODY: Final = 0  # The leader of a shard that has none. Nodes are numbered from 1.
NODE_ID_MAX: Final = 2**31 - 1
ABSENT: Final = -1  # The version of what does not exist.
REBUILT_STEP: Final = 1 << 40  # More changes than a record ever sees between two losses.


class CoordinationError(Exception):
    """Something could not be agreed on; see the table above."""


class Conflict(CoordinationError):
    """The value is not what the caller believes it to be. Nothing was changed."""


class OutcomeUnknown(CoordinationError):
    """There is no connection, or it broke before the answer came. A write may have been done: read back."""


class Expired(CoordinationError):
    """The session is over. Nothing was changed; a new session begins by itself, with nothing registered."""


class Session(enum.Enum):
    """How a coordinator stands with its tree. EXPIRED is always said before the CONNECTED of the session after it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # No connection. The session may be over already: nobody can say.
    EXPIRED = "expired"  # What was registered is gone.
    CLOSED = "closed"


class Ids(enum.Enum):
    """What has numbers of its own, each given once in the life of a cluster."""

    PRODUCERS = "producers"
    PARTITIONS = "partitions"
    SHARDS = "shards"
    NODES = "nodes"
    WINGS = "wings"


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A node that lives, as it describes itself. `register` gives the generation: greater each time, never reused."""

    node_id: int
    directory: str  # Which data directory it runs on: a second host under the same number is refused by it.
    addresses: dict[str, str] = {}  # By door, `host:port`; `peer` is where other nodes knock.
    rack: str = ""
    feature_level_min: int = 0
    feature_level_max: int = 0
    generation: int = 0
    unfit: str = ""  # Why it should rather not lead, in a word or two: its disk is full, or damaged.
    halted: str = ""  # Why it takes no part although it runs: its copy of the log contradicts the record.


class Manager(msgspec.Struct, frozen=True, kw_only=True):
    """Who manages. Every term of office has an epoch of its own, greater than all before it."""

    node_id: int
    epoch: int


class ShardState(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps a shard and who leads it. A change of the leader has an epoch that no leader had before.

    `version` is that of the value read, for compare-and-set; it counts the changes and is not stored. `more` is what
    later versions of Longhall wrote beside: it is written back as it was.
    """

    shard: int
    leader: int = NOBODY
    epoch: int = 0
    replicas: tuple[int, ...] = ()  # The first is preferred as leader.
    in_sync: tuple[int, ...] = ()
    leaving: tuple[int, ...] = ()  # Replicas that are to go as soon as others have what they have.
    factor: int = 0  # How many copies there should be; 0 leaves it to the settings of whoever manages.
    unclean_epoch: int = 0  # An operator let a node lead under it that may lack committed entries; 0 if nobody did.
    rebuilt: int = 0  # How often the record was made anew from the logs, because the coordinator had lost it.
    version: int = ABSENT
    more: dict[str, object] = {}

    @property
    def revision(self) -> int:
        """Greater with every change, also across a loss of the coordinator's data, after which versions begin anew."""
        return self.rebuilt * REBUILT_STEP + self.version


class NodeLife(msgspec.Struct, frozen=True, kw_only=True):
    """The last start of a node that the coordinator knows of: on which data directory, and which one it was."""

    directory: str
    life: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The end of what a leader knows to be committed: epoch and index of an entry."""

    epoch: int = 0
    index: int = 0


class ReplicationGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A hall of its own beside the hall of the cluster, on some of its hosts: what `beside` finds under its name."""

    name: str
    number: int
    hosts: tuple[int, ...] = ()  # Those that have a process of it. The first is preferred as leader.
    wanted: tuple[int, ...] = ()  # Those that it should be on, if somebody chose them; the others of them go.
    reserved: bool = False  # These hosts keep nothing else.
    version: int = ABSENT


class FeatureLevel(msgspec.Struct, frozen=True, kw_only=True):
    """The formats that all nodes may write."""

    level: int = 0
    version: int = ABSENT


class Watch(Protocol):
    """Something that is followed."""

    def cancel(self) -> None:
        """No call comes after this one."""


class Coordinator(Protocol):
    """See the module. Every call is made on the loop, and so is every callback.

    A watch calls with the whole value: first as soon as it is known, then whenever it has changed. Values in between
    may be skipped, the last one never is. It outlives lost connections and sessions until it is cancelled.
    """

    @property
    def session(self) -> Session: ...

    async def start(self) -> None:
        """Begin a session. OutcomeUnknown if nobody answers in time."""

    async def prepare(self) -> None:
        """Make what everything else is written below, as `start` does: the coordinator may have lost its data since."""

    async def close(self) -> None:
        """End the session: what was registered is gone at once, for everybody to see."""

    def on_session(self, heard: Callable[[Session], None]) -> Watch:
        """Call with every change of `session` from now on, in order."""

    async def cluster_id(self, proposed: str) -> str:
        """The name of this cluster for all time: that of whoever proposed first."""

    # Members.

    async def register(self, member: MemberDescription) -> MemberDescription:
        """Be seen by others until this session ends; returns the member with its generation. Again with another
        description, it replaces that, under the same generation.

        What an earlier run on the same directory left behind is replaced. Conflict if a live node on another one has
        this number.
        """

    async def members(self) -> dict[int, MemberDescription]: ...

    async def member(self, node_id: int) -> MemberDescription | None: ...

    def watch_members(self, heard: Callable[[Mapping[int, MemberDescription]], None]) -> Watch: ...

    async def note_life(self, node_id: int, life: NodeLife) -> NodeLife | None:
        """Remember this start of a node, unless a later one on the same directory is known; returns what was known."""

    # The manager.

    async def campaign(self, node_id: int) -> Manager:
        """Become the manager unless there is one; returns who it is now. The office ends with the session."""

    async def resign(self, manager: Manager) -> None:
        """Leave the office, if this session still holds it under this epoch."""

    async def manager(self) -> Manager | None: ...

    def watch_manager(self, heard: Callable[[Manager | None], None]) -> Watch: ...

    # Shards.

    async def shards(self) -> dict[int, ShardState]: ...

    async def shard(self, shard: int) -> ShardState | None: ...

    async def change_shard(
        self, before: ShardState | None, after: ShardState, *, under: Manager | None = None
    ) -> ShardState:
        """Put `after` in the place of `before` (None: there must be none yet); returns it with its new version.

        With `under` the change is made only while that term of office lasts: a manager that was asleep changes
        nothing. Conflict otherwise. An epoch never goes down, and a new leader needs a greater one (`next_epoch`).
        """

    async def remove_shard(self, before: ShardState) -> None: ...

    def watch_shards(self, heard: Callable[[Mapping[int, ShardState]], None]) -> Watch: ...

    async def note_progress(self, progress: Progress) -> None:
        """So much is committed. A note that is further stays."""

    async def progress(self) -> Progress:
        """The last note; of index 0 if there is none."""

    # Numbers.

    async def next_epoch(self, *, above: int = 0) -> int:
        """A number that was never given before and that is greater than all that were, and than `above`."""

    async def take_ids(self, kind: Ids, count: int, *, first_min: int = 0) -> range:
        """A block of numbers that nobody else gets, from `first_min` on. What is not used of it is lost, no more."""

    # What all nodes obey.

    async def feature_level(self) -> FeatureLevel: ...

    async def change_feature_level(self, before: FeatureLevel, level: int) -> FeatureLevel: ...

    def watch_feature_level(self, heard: Callable[[FeatureLevel], None]) -> Watch: ...

    async def drains(self) -> frozenset[int]:
        """The nodes that are to lead and keep nothing, alive or not."""

    async def mark_drain(self, node_id: int) -> None: ...

    async def clear_drain(self, node_id: int) -> None: ...

    def watch_drains(self, heard: Callable[[frozenset[int]], None]) -> Watch: ...

    # Wings.

    async def wings(self) -> dict[str, ReplicationGroup]: ...

    async def change_wing(self, before: ReplicationGroup | None, after: ReplicationGroup) -> ReplicationGroup:
        """Put `after` in the place of `before` (None: there must be none yet); returns it with its new version."""

    def watch_wings(self, heard: Callable[[Mapping[str, ReplicationGroup]], None]) -> Watch: ...

    def beside(self, wing: str) -> Coordinator:
        """What the nodes of a wing agree on among themselves, in the same session. The wing must be there. It is to be
        started and closed like any other; closing it leaves the session as it is.
        """
