"""Automatic scaling: when a cluster needs more or fewer hosts, and the command that is run then.

The rule counts parts, the partitions of all topics and queues that accept messages, and the load of all replication
groups: bytes written, and 1 KiB for each message, of the last minutes. A host is sized for `parts_per_host` and, if it
is set, for `load_per_host`; what needs more hosts decides. More queues, and queues that grow, have more parts.

    more    there are too many parts, or there is too much load, for the hosts, for 10 s
    fewer   one host less would be enough at three quarters of its size, for a minute; one host at a time

The command gets a line of JSON on its standard input (`ScaleRequest`) and has a minute. One command runs at a time,
outside the event loop. If the request still holds half a minute later, the command runs again: it may have failed. Only
the leader runs it. How a host is started or stopped is up to the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
from typing import Final, Protocol, final

import msgspec

from longhall.broker.hall import Hall
from longhall.cluster.placement.group_loads import HALL, GroupLoads
from longhall.cluster.placement.group_measures import traffic_of
from longhall.coordination.address import parse_address as parse_coordinator
from longhall.names import CATALOGUE_SHARD
from longhall.node.settings import Settings

LOOK_S: Final = 2.0
MORE_AFTER_MS: Final = 10_000
FEWER_AFTER_MS: Final = 60_000
ROOMY: Final = 0.75  # The load per host, as a part of `parts_per_host`, that one host less may have at most.
KNOWN_AFTER_MS: Final = 180_000  # A new leader has measured most of the load by then.
APART_S: Final = 30.0
PATIENCE_S: Final = 60.0

_log = logging.getLogger("longhall.scaling")


class ScaleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the command."""

    want: str  # "more" or "fewer".
    hosts: int  # Live hosts.
    hosts_wanted: int
    parts: int
    parts_per_host: int
    node: int  # The leader; 0 for a lone node.
    http: str  # Its HTTP address.
    data: str
    coordinator: str  # Without a password. Empty for a lone node.
    coordinator_auth: str = ""  # Paths on the leader, empty for none: its credentials for ZooKeeper,
    cluster_secret: str = ""  # and the cluster's secret.
    load_bytes_a_second: int = 0
    load_per_host: int = 0  # 0: the load is not considered.


class Capacity(Protocol):
    """What shares the parts and the load, as the leader knows it."""

    def hosts_sized(self) -> int:
        """The number of live hosts that store a share."""

    def load_bytes_a_second(self) -> float:
        """The load of all of them together."""


@final
class LoneCapacity:
    """The capacity of a node that is no part of a cluster."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._loads = GroupLoads()

    def hosts_sized(self) -> int:
        return 1

    def load_bytes_a_second(self) -> float:
        self._loads.note(HALL, 0, traffic_of(self._hall), self._hall.world.clock.monotonic_ms() / 1000)
        return self._loads.load(HALL)


@final
class Rule:
    """The rule of the table above, for one cluster. It has no clock: time is an argument."""

    def __init__(self, parts_per_host: int, hosts_min: int, hosts_max: int, load_per_host: int = 0) -> None:
        self._parts_per_host = parts_per_host
        self._load_per_host = load_per_host
        self._least = hosts_min
        self._most = hosts_max
        self._more_since_ms = -1
        self._fewer_since_ms = -1

    def wanted(self, now_ms: int, hosts: int, parts: int, load: float = 0.0, *, load_known: bool = True) -> int:
        """The wanted number of hosts. It equals `hosts` until a need has lasted long enough. Fewer are not wanted while
        the load is not known.
        """
        needed = self._needed(parts, load, 1.0)
        if needed <= hosts:
            self._more_since_ms = -1
        elif self._more_since_ms < 0:
            self._more_since_ms = now_ms
        if max(self._needed(parts, load, ROOMY), 1) >= hosts or (self._load_per_host and not load_known):
            self._fewer_since_ms = -1
        elif self._fewer_since_ms < 0:
            self._fewer_since_ms = now_ms
        if 0 <= self._more_since_ms <= now_ms - MORE_AFTER_MS:
            return needed
        if 0 <= self._fewer_since_ms <= now_ms - FEWER_AFTER_MS:
            return hosts - 1
        return hosts

    def _needed(self, parts: int, load: float, share: float) -> int:
        """The hosts that are needed if each is filled to this share of its size."""
        hosts = -int(-parts // (self._parts_per_host * share))
        if self._load_per_host:
            hosts = max(hosts, -int(-load // (self._load_per_host * share)))
        return min(max(hosts, self._least), self._most)


@final
class Scaler:
    """Applies the rule periodically, and runs the command when the number of hosts should change."""

    def __init__(
        self,
        hall: Hall,
        command: str,
        rule: Rule,
        parts_per_host: int,
        data: str = "",
        coordinator: str = "",
        coordinator_auth: str = "",
        cluster_secret: str = "",
        load_per_host: int = 0,
    ) -> None:
        self.capacity: Capacity = LoneCapacity(hall)
        self.http = ""
        self.data = data
        self.coordinator = coordinator
        self.coordinator_auth = coordinator_auth
        self.cluster_secret = cluster_secret
        self.asked = 0  # Runs of the command,
        self.failed = 0  # and how many of them failed.
        self._hall = hall
        self._command = shlex.split(command)
        self._rule = rule
        self._per_host = parts_per_host
        self._load_per_host = load_per_host
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to apply the rule periodically."""
        if self._task is None and self._command:
            self._task = self._hall.background.start("scale", self._run)

    async def stop(self) -> None:
        """Stop. A running command is killed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        clock = self._hall.world.clock
        led_since_ms = clock.monotonic_ms()
        while True:
            await asyncio.sleep(LOOK_S)
            now_ms = clock.monotonic_ms()
            leadership = self._hall.leadership
            if leadership is not None and not leadership.leads(CATALOGUE_SHARD):
                led_since_ms = now_ms
                continue
            hosts, load = self.capacity.hosts_sized(), self.capacity.load_bytes_a_second()
            parts = sum(topic.open_count for topic in self._hall.catalogue.topics.values())
            load_known = now_ms - led_since_ms >= KNOWN_AFTER_MS
            wanted = self._rule.wanted(now_ms, hosts, parts, load, load_known=load_known)
            if wanted != hosts:
                wish = ScaleRequest(
                    want="more" if wanted > hosts else "fewer",
                    hosts=hosts,
                    hosts_wanted=wanted,
                    parts=parts,
                    parts_per_host=self._per_host,
                    node=leadership.node if leadership is not None else 0,
                    http=self.http,
                    data=self.data,
                    coordinator=self.coordinator,
                    coordinator_auth=self.coordinator_auth,
                    cluster_secret=self.cluster_secret,
                    load_bytes_a_second=int(load),
                    load_per_host=self._load_per_host,
                )
                await self.ask(wish)
                await asyncio.sleep(APART_S)

    async def ask(self, wish: ScaleRequest) -> bool:
        """Run the command with this request. True if it succeeded."""
        self.asked += 1
        ended = "it could not be started"
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
            )
            try:
                await asyncio.wait_for(process.communicate(msgspec.json.encode(wish) + b"\n"), PATIENCE_S)
                ended = f"it ended with {process.returncode}"
            except TimeoutError:
                ended = f"it took longer than {PATIENCE_S:.0f} s"
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
            good = process.returncode == 0
        except OSError as failure:
            good = False
            ended = str(failure)
        extra = {"want": wish.want, "hosts": wish.hosts, "hosts_wanted": wish.hosts_wanted, "end": ended}
        if good:
            _log.info("the scaling command has run", extra=extra)
        else:
            self.failed += 1
            _log.warning("the scaling command failed", extra=extra)
        return good


def scaler_of(hall: Hall, settings: Settings) -> Scaler:
    """The scaler for these settings. Without a command it does nothing."""
    least = settings.hosts_min
    if settings.coordinator:  # With fewer hosts than this there would be fewer replicas.
        least = max(least, settings.replication_factor)
    rule = Rule(settings.parts_per_host, least, max(least, settings.hosts_max), settings.load_per_host)
    command = settings.scale_hook or ""
    coordinator = ""
    if settings.coordinator:
        coordinator = str(msgspec.structs.replace(parse_coordinator(settings.coordinator), user="", password=""))
    return Scaler(
        hall,
        command,
        rule,
        settings.parts_per_host,
        settings.data,
        coordinator,
        _absolute(settings.coordinator_auth),
        _absolute(settings.cluster_secret),
        settings.load_per_host,
    )


def _absolute(path: str | None) -> str:
    return os.path.abspath(path) if path else ""
