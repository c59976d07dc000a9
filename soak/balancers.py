"""`python -m soak balancers`: a whole installation, each part on a host of its own, and every part dies in turn.

    clients -- virtual address -- balancer 1 | balancer 2 -- front end 4 | front end 5 -- nodes 1, 2, 3 -- ZooKeeper

Each host is a network namespace on one bridge (`soak.field`); a balancer is HAProxy with keepalived, configured by
`longhall balancer`. Clients of every door use the virtual address. It ends with 0 when no send failed that the client's
own retries did not heal, when everything that was acknowledged arrived, and when the virtual address moved in time.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from soak.cluster import NODES, WAIT_SECONDS, ZOOKEEPER, Cluster, name_of, wait_until
from soak.door_load import LOADS, PASSWORD, USER, Beat, DoorLoad
from soak.field import INTERFACE, Segment, enclosed, is_enclosed
from soak.kill import Say, Violation
from soak.node import COMMAND, Node

FRONTS: Final = (4, 5)
BALANCERS: Final = ("balancer1", "balancer2")
VIRTUAL: Final = "10.78.0.100"
AGENT_PORT: Final = 8090
HTTP_PORT: Final = 8080
DOWN_SECONDS: Final = 4.0  # A part stays dead for this time.
CALM_SECONDS: Final = 3.0
ADDRESS_SECONDS_MAX: Final = 1.0
NO_PROGRAM: Final = "no program {name}: install HAProxy and keepalived"


def missing_program() -> str:
    """Why balancers cannot run here; empty if they can."""
    for name in ("haproxy", "keepalived"):
        if _find(name) is None:
            return NO_PROGRAM.format(name=name)
    return ""


def _find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


class Balancer:
    """HAProxy and keepalived on one host, in a process namespace: keepalived sees its own HAProxy only."""

    def __init__(self, segment: Segment, host: str, home: Path, priority: int) -> None:
        self.host = host
        self._segment = segment
        self._home = home / host
        self._priority = priority
        self._process: subprocess.Popen[bytes] | None = None
        self._home.mkdir()

    def configure(self, front_http: str) -> None:
        """Write both configurations by the commands that operators use."""
        peers = [word for host in BALANCERS if host != self.host for word in ("--peer", self._segment.address(host))]
        own = ["--interface", INTERFACE, "--own", self._segment.address(self.host), "--priority", str(self._priority)]
        agent = ["--agent-port", str(AGENT_PORT)]
        for name, words in (
            ("haproxy", ["--address", front_http, "--bind", VIRTUAL, *agent]),
            ("keepalived", [f"{VIRTUAL}/24", *own, *peers, "--in-container"]),
        ):
            made = subprocess.run([*COMMAND, "balancer", name, *words], capture_output=True, text=True, check=True)
            (self._home / f"{name}.cfg").write_text(made.stdout)
        # HAProxy binds the virtual address also while the other balancer has it.
        self._segment.run(self.host, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind")

    def start(self) -> None:
        home = self._home
        for stale in home.glob("*.pid"):  # keepalived would take a number that is used again for itself.
            stale.unlink()
        script = (
            f"{_find('haproxy')} -db -f {home}/haproxy.cfg & "
            f"exec {_find('keepalived')} --dont-fork --log-console -f {home}/keepalived.cfg "
            f"-p {home}/parent.pid -r {home}/vrrp.pid -c {home}/check.pid"
        )
        spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._segment.prefix(self.host), *spaces, "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def has_address(self) -> bool:
        return self._segment.has_address(self.host, VIRTUAL)

    def lose_power(self) -> None:
        """All processes die and the host is off the network."""
        self._segment.unplug(self.host)
        self.kill()

    def come_back(self) -> None:
        self._segment.reset_addresses(self.host)
        self._segment.plug(self.host)
        self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()  # unshare kills its child, and with it the namespace ends.
            self._process.wait()
            self._process = None

    def kill_haproxy(self) -> None:
        """HAProxy alone dies."""
        for number in self._processes("haproxy"):
            os.kill(number, signal.SIGKILL)

    def _processes(self, name: str) -> list[int]:
        """The ids of a program's processes in the network namespace of this host."""
        assert self._process is not None
        space = os.readlink(f"/proc/{self._process.pid}/ns/net")
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                    if os.readlink(entry / "ns" / "net") == space:
                        found.append(int(entry.name))
            except OSError:
                continue  # It has ended meanwhile.
        return found

    def log_tail(self) -> str:
        return (self._home / "log").read_text(errors="replace")[-3000:]


class Installation:
    """All hosts with their parts, the clients, and the faults."""

    def __init__(self, home: Path, seed: int, say: Say, address_seconds_max: float) -> None:
        hosts = [ZOOKEEPER, *(name_of(number) for number in (*NODES, *FRONTS)), *BALANCERS]
        self.segment = Segment(hosts)
        # Beyond loopback the HTTP door asks for a login; with a file of access keys all doors but Kafka's do.
        credentials = home / "credentials"
        credentials.touch(mode=0o600)
        credentials.write_text(f"[soak]\naws_access_key_id = {USER}\naws_secret_access_key = {PASSWORD}\n")
        self.cluster = Cluster(home, field=self.segment, settings={"credentials": str(credentials)})
        self.balancers = [
            Balancer(self.segment, host, home, priority) for host, priority in zip(BALANCERS, (150, 100), strict=True)
        ]
        self.fronts: list[Node] = []
        self.loads: list[DoorLoad] = [make(door, VIRTUAL, port) for door, (make, port) in LOADS.items()]
        self.address_gaps_s: list[float] = []
        self._beat = Beat(VIRTUAL, HTTP_PORT)
        self._chance = random.Random(seed)
        self._say = say
        self._address_seconds_max = address_seconds_max

    def start(self) -> None:
        self.cluster.start(first=NODES[0])
        for number in FRONTS:
            node = self.cluster.make(number)
            # A front end stores nothing, and takes no settings of stored data.
            node.options = [*node.options[: node.options.index("--insecure") + 1], "--role", "front"]
            node.options += ["--agent-check", f"{self.segment.address(name_of(number))}:{AGENT_PORT}"]
            node.data.parent.mkdir(parents=True, exist_ok=True)
            node.launch()
            self.fronts.append(node)
        for node in self.fronts:
            node.wait_ready(WAIT_SECONDS)
        for balancer in self.balancers:
            balancer.configure(self.fronts[0].http)
            balancer.start()
        wait_until(lambda: any(one.has_address for one in self.balancers), "a balancer has the address", self.logs)
        for load in self.loads:
            load.start()
        self._beat.start()
        time.sleep(CALM_SECONDS)

    def run(self, seconds: float, faults: Sequence[str]) -> None:
        """Each fault once, in an order of the seed, and further ones until the time is over."""
        menu: dict[str, Callable[[], None]] = {
            "balancer": self._kill_balancer,
            "haproxy": self._kill_haproxy,
            "front": self._kill_front,
            "other-front": self._kill_front,
            "leader": self._kill_leader,
            "follower": self._kill_follower,
        }
        deadline = time.monotonic() + seconds
        names = [name for name in menu if not faults or name in faults]
        done = 0
        while done < len(names) or time.monotonic() < deadline:
            if done % len(names) == 0:
                self._chance.shuffle(names)
            self._one_round(names[done % len(names)], menu)
            done += 1

    def _one_round(self, name: str, menu: dict[str, Callable[[], None]]) -> None:
        before = {load.door: len(load.acknowledged) for load in self.loads}
        begin_s = time.monotonic()
        menu[name]()
        for load in self.loads:
            wait_until(
                lambda load=load: len(load.acknowledged) > before[load.door] + 3,  # type: ignore[misc]
                f"sends by {load.door} are acknowledged again",
                self.logs,
            )
        self.cluster.wait_in_sync()
        self._say(f"{name}: everything is back after {time.monotonic() - begin_s:.1f} s")
        self._judge()
        time.sleep(CALM_SECONDS)

    # The faults

    def _kill_balancer(self) -> None:
        """The host of the balancer that has the virtual address loses its power."""
        gap_s = self._move_address(lambda balancer: balancer.lose_power(), lambda balancer: balancer.come_back())
        if self._address_seconds_max and gap_s > self._address_seconds_max:
            raise Violation(f"the address moved after {gap_s:.2f} s, and not within {self._address_seconds_max:.1f} s")

    def _kill_haproxy(self) -> None:
        """HAProxy dies where the address is; keepalived, which asks every second, gives the address away."""

        def come_back(balancer: Balancer) -> None:
            balancer.kill()
            balancer.come_back()

        self._move_address(lambda balancer: balancer.kill_haproxy(), come_back)

    def _move_address(self, kill: Callable[[Balancer], None], revive: Callable[[Balancer], None]) -> float:
        """The time for which nobody answered at the address."""
        holder = next(one for one in self.balancers if one.has_address)
        (other,) = [one for one in self.balancers if one is not holder]
        self._beat.reset()
        kill(holder)
        wait_until(lambda: other.has_address, "the other balancer has the address", self.logs)
        time.sleep(DOWN_SECONDS)
        gap_s = self._beat.longest_s
        self.address_gaps_s.append(gap_s)
        self._say(f"  the address was away for {gap_s:.2f} s")
        revive(holder)
        return gap_s

    def _kill_front(self) -> None:
        self._restart(self._chance.choice(self.fronts))

    def _kill_leader(self) -> None:
        self._restart(self.cluster.nodes[self.cluster.leader()])

    def _kill_follower(self) -> None:
        self._restart(self.cluster.nodes[self._chance.choice(self.cluster.followers())])

    def _restart(self, node: Node) -> None:
        node.kill()
        time.sleep(DOWN_SECONDS)
        node.launch()
        node.wait_ready(WAIT_SECONDS)

    # The end

    def _judge(self) -> None:
        failures = [f"{load.door}: {failure}" for load in self.loads for failure in load.failures]
        if failures:
            raise Violation("\n  ".join(["not healed by the client's own retries:", *failures, self.logs()]))

    def finish(self) -> None:
        """Receive what is left, and compare."""
        for load in self.loads:
            load.finish()
        self._judge()
        missing = [text for load in self.loads for text in load.missing()]
        if missing:
            raise Violation(f"acknowledged and not received: {missing[:20]}\n{self.logs()}")

    def stop(self) -> None:
        if self._beat.is_alive():
            self._beat.close()
        for balancer in self.balancers:
            balancer.kill()
        for node in self.fronts:
            node.kill()
        self.cluster.stop()

    def logs(self) -> str:
        """The ends of all logs."""
        parts = [f"--- {one.host}\n{one.log_tail()}" for one in self.balancers if (one._home / "log").exists()]
        parts += [
            f"--- front end {number}\n{node.log_tail()}" for number, node in zip(FRONTS, self.fronts, strict=False)
        ]
        return "\n".join([*parts, self.cluster.log_tails()])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak balancers", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="", help="only these faults, by name, separated by commas")
    parser.add_argument("--directory", type=Path, help="directory of all files; not removed")
    parser.add_argument(
        "--address-seconds-max", type=float, default=ADDRESS_SECONDS_MAX, help="0: the time is told, not judged"
    )
    given = parser.parse_args(arguments)
    if reason := missing_program():
        _say(reason)
        return 1
    if not is_enclosed():
        command = enclosed([sys.executable, "-m", "soak", "balancers", *arguments])
        if not command:
            _say("no namespaces for hosts with a network of their own: they need root (or user namespaces)")
            return 1
        sys.stdout.flush()
        os.execvp(command[0], command)
    home = given.directory or Path(tempfile.mkdtemp(prefix="longhall-balancers-"))
    home.mkdir(parents=True, exist_ok=True)
    installation = Installation(home, given.seed, _say, given.address_seconds_max)
    try:
        installation.start()
        installation.run(given.minutes * 60, [one for one in given.faults.split(",") if one])
        installation.finish()
    except (AssertionError, RuntimeError) as violation:  # A violation, or a wait that has timed out.
        _say(f"VIOLATION (seed {given.seed}, kept in {home}):\n  {violation}")
        return 1
    finally:
        installation.stop()
    for load in installation.loads:
        _say(f"{load.door}: {len(load.acknowledged)} sent and received; the slowest send took {load.slowest_s:.1f} s")
    if installation.address_gaps_s:
        _say(f"the virtual address was away for {max(installation.address_gaps_s):.2f} s at most")
    if given.directory is None:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
