"""When a hall wants more hosts or fewer, and the command that is told so.

The rule is about parts: the partitions of all topics and queues that take messages. A host is meant for so many of
them, `parts_per_host`. Queues that grow bring more of them, and so do more queues.

    more    they are too many for the hosts that live, for 10 s
    fewer   they would fill three quarters of one host less, for a minute; one at a time

The command gets a line of JSON on its standard input (`ScaleRequest`) and has a minute. It is started beside the loop,
one at a time, and again after half a minute at the earliest if the wish still stands: it may fail, or do nothing. Only
the node that leads asks. What hosts are, and how one is had, is the command's affair.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.coordination.address import parse_address as parse_coordinator
from longhall.names import CATALOGUE_SHARD
from longhall.node.settings import Settings

LOOK_S: Final = 2.0
MORE_AFTER_MS: Final = 10_000
FEWER_AFTER_MS: Final = 60_000
ROOMY: Final = 0.75  # Of a host: with one host less, all must still be below it.
APART_S: Final = 30.0
PATIENCE_S: Final = 60.0

_log = logging.getLogger("longhall.scaling")


class ScaleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the command reads."""

    want: str  # "more" or "fewer".
    hosts: int  # That live now.
    hosts_wanted: int
    parts: int
    parts_per_host: int
    node: int  # Who asks; 0 for a node that is alone.
    http: str  # Where it answers.
    data: str
    coordinator: str  # Without a password. Empty for a node that is alone.
    coordinator_auth: str = ""  # Files of the node that asks, empty for none: what it shows ZooKeeper,
    cluster_secret: str = ""  # and the cluster's secret.


@final
class Rule:
    """See the module. Knows no clock: time comes as an argument."""

    def __init__(self, parts_per_host: int, hosts_min: int, hosts_max: int) -> None:
        self._per_host = parts_per_host
        self._least = hosts_min
        self._most = hosts_max
        self._more_since_ms = -1
        self._fewer_since_ms = -1

    def wanted(self, now_ms: int, hosts: int, parts: int) -> int:
        """How many hosts there should be; as many as there are until something has lasted."""
        needed = self._needed(parts, float(self._per_host))
        if needed <= hosts:
            self._more_since_ms = -1
        elif self._more_since_ms < 0:
            self._more_since_ms = now_ms
        if max(self._needed(parts, self._per_host * ROOMY), 1) >= hosts:
            self._fewer_since_ms = -1
        elif self._fewer_since_ms < 0:
            self._fewer_since_ms = now_ms
        if 0 <= self._more_since_ms <= now_ms - MORE_AFTER_MS:
            return needed
        if 0 <= self._fewer_since_ms <= now_ms - FEWER_AFTER_MS:
            return hosts - 1
        return hosts

    def _needed(self, parts: int, per_host: float) -> int:
        hosts = -int(-parts // per_host)
        return min(max(hosts, self._least), self._most)


@final
class Scaler:
    """Asks the rule now and then, and the command when there is a wish."""

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
    ) -> None:
        self.http = ""
        self.data = data
        self.coordinator = coordinator
        self.coordinator_auth = coordinator_auth
        self.cluster_secret = cluster_secret
        self.asked = 0  # How often the command was started,
        self.failed = 0  # and did not end well.
        self._hall = hall
        self._command = shlex.split(command)
        self._rule = rule
        self._per_host = parts_per_host
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look now and then."""
        if self._task is None and self._command:
            self._task = self._hall.background.start("scale", self._run)

    async def stop(self) -> None:
        """Look no more. A command that runs is ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        clock = self._hall.world.clock
        while True:
            await asyncio.sleep(LOOK_S)
            leadership = self._hall.leadership
            if leadership is not None and not leadership.leads(CATALOGUE_SHARD):
                continue
            hosts = len(leadership.members()) if leadership is not None else 1
            parts = sum(topic.open_count for topic in self._hall.catalogue.topics.values())
            wanted = self._rule.wanted(clock.monotonic_ms(), hosts, parts)
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
                )
                await self.ask(wish)
                await asyncio.sleep(APART_S)

    async def ask(self, wish: ScaleRequest) -> bool:
        """Start the command with this wish and wait for its end; whether that was good."""
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
            _log.info("the hook for hosts was told", extra=extra)
        else:
            self.failed += 1
            _log.warning("the hook for hosts failed", extra=extra)
        return good


def scaler_of(hall: Hall, settings: Settings) -> Scaler:
    """As a node was told; one without a command never looks."""
    least = settings.hosts_min
    if settings.coordinator:  # Fewer than keep a copy each would be a wish for fewer copies.
        least = max(least, settings.replication_factor)
    rule = Rule(settings.parts_per_host, least, max(least, settings.hosts_max))
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
    )


def _absolute(path: str | None) -> str:
    return os.path.abspath(path) if path else ""
