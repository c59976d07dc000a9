"""`longhall cluster up`: a cluster on this machine, with its ZooKeeper, until it is interrupted.

Every node is a `longhall serve` process with its own directory, as on separate machines. Each uses the usual ports of
its doors, counted up from the first node's (those that RabbitMQ has close together by a thousand), if they are free,
else any free ones.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, final

import typer

from longhall.cli.cluster.secret import SECRET_NAME, make_secret
from longhall.cli.cluster.status import ask
from longhall.cli.exits import CommandError, Exit
from longhall.cli.output import print_note

if TYPE_CHECKING:
    from longhall.console.cluster_view import ClusterView

READY_S_MAX: Final = 120.0  # With `default_placement=spread` twelve processes start on three nodes.
STOP_S_MAX: Final = 30.0
LOOK_S: Final = 0.05
USUAL_PORTS: Final = {  # The port of the first node, and the distance to that of the next.
    "kafka": (9092, 1),
    "sqs": (9324, 1),
    "amqp": (5672, 1),
    "stomp": (61613, 1),
    "stomp_websocket": (15674, 1000),
    "management": (15672, 1000),
    "prometheus": (15692, 1000),
    "http": (8080, 1),
}
PORT_MAX: Final = 65_535
LOG_TAIL_BYTES: Final = 2000


@final
class Child:
    """The process of one node."""

    def __init__(self, number: int, directory: Path, command: list[str]) -> None:
        self.number = number
        self.command = command
        self.ready_file = directory / f"node{number}.ready.json"
        self.log_file = directory / f"node{number}.log"
        self.ready: dict[str, object] = {}
        self.told = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "--ready-file", str(self.ready_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # An interrupt at the terminal is for us, who then stop it in order.
            )

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def look(self) -> bool:
        """True if the node is ready. Raises CommandError if it has ended."""
        if self.exit_code() is not None:
            tail = self.log_file.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
            raise CommandError(f"node {self.number} ended while it started: {tail[-1] if tail else 'without a word'}")
        if not self.ready and self.ready_file.exists():
            self.ready = json.loads(self.ready_file.read_text())
        return bool(self.ready)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def up(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes.")] = 3,
    data: Annotated[str, typer.Option(help="The directory of all data.")] = "./longhall-cluster",
    ready_file: Annotated[
        str | None, typer.Option(help="Written when all are in sync: JSON with `zookeeper` and `nodes`.")
    ] = None,
    coordinator: Annotated[
        str | None, typer.Option(metavar="zk://HOST:PORT", help="A ZooKeeper that runs already, instead of a new one.")
    ] = None,
    zookeepers: Annotated[int, typer.Option(min=1, max=3, help="Servers of the ZooKeeper that is started.")] = 1,
    first: Annotated[
        int, typer.Option(min=1, help="The number of the first node, to join those of a --coordinator.")
    ] = 1,
    cluster_secret: Annotated[
        str | None, typer.Option(metavar="FILE", help="The secret of the cluster; one is made under --data without it.")
    ] = None,
    free_ports: Annotated[bool, typer.Option("--free-ports", help="Do not try the usual ports.")] = False,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the nodes; may be repeated.")
    ] = None,
) -> None:
    """Start a cluster on this machine and run it until interrupted. It needs Java for its ZooKeeper.

    Data under --data from an earlier run is used again.
    """
    from longhall.coordination.address import has_password
    from longhall.coordination.ensemble import Ensemble, EnsembleError

    if first > 1 and coordinator is None:
        raise CommandError("give the --coordinator of the nodes to join", Exit.USAGE)
    if coordinator is not None and has_password(coordinator):
        raise CommandError(
            "a password on the command line is visible to all users of this machine: write digest:USER:PASSWORD into "
            "a file of mode 600, and use --set coordinator_auth=FILE",
            Exit.USAGE,
        )
    home = Path(data).absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = assignments or []
    secret_file = _secret_file(home, cluster_secret, first, settings)
    ensemble = None
    children: list[Child] = []
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # As nohup has it.
        signal.signal(signal.SIGHUP, _interrupt)  # The terminal is closed: the nodes could not be stopped any more.
    try:
        if coordinator is None:
            ensemble = Ensemble(home / "zookeeper", servers=zookeepers)
            print_note(f"starting ZooKeeper ({zookeepers}) and {nodes} nodes in {home}")
            ensemble.start()
            coordinator = ensemble.url
        if secret_file is not None:
            settings = [*settings, f"cluster_secret={secret_file}"]
        if nodes == first == 1 and not any(word.startswith("in_sync_min") for word in settings):
            settings = [*settings, "in_sync_min=1"]
        children += [_child(home, number, coordinator, settings, free_ports) for number in range(first, first + nodes)]
        for child in children:
            child.start()
        _wait_ready(children)
        _announce(children, coordinator, ready_file, secret_file)
        _stay(children)
    except EnsembleError as failure:
        raise CommandError(str(failure)) from None
    except KeyboardInterrupt:
        print_note("stopping")
    finally:
        if ready_file is not None:
            Path(ready_file).unlink(missing_ok=True)
        for child in children:
            child.stop()
        for child in children:
            child.wait()
        if ensemble is not None:
            ensemble.stop()


def _secret_file(home: Path, given: str | None, first: int, settings: list[str]) -> str | None:
    """The file with the cluster's secret, created for the first nodes; None if --set names one."""
    if any(word.partition("=")[0].strip() == "cluster_secret" for word in settings):
        return None
    if given is not None:
        return str(Path(given).absolute())
    if first > 1:
        raise CommandError(
            "give the secret of the nodes to join with --cluster-secret FILE; `longhall cluster up` stores "
            f"it under its --data as {SECRET_NAME}",
            Exit.USAGE,
        )
    path = home / SECRET_NAME
    if not path.exists():
        make_secret(path)
    return str(path)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _child(home: Path, number: int, coordinator: str, settings: list[str], free_ports: bool) -> Child:
    command = [sys.executable, "-m", "longhall.cli", "serve", "--data", str(home / f"node{number}")]
    command += ["--coordinator", coordinator, "--node-id", str(number)]
    for door, port in usual_ports(number).items():
        port = 0 if free_ports else _port(port)
        command += [f"--{door.replace('_', '-')}", f"127.0.0.1:{port}"]
    for word in settings:
        command += ["--set", word]
    return Child(number, home, command)


def usual_ports(number: int) -> dict[str, int]:
    """The ports of the doors of a node, which no other node has."""
    return {door: first + (number - 1) * step for door, (first, step) in USUAL_PORTS.items()}


def _port(usual: int) -> int:
    """The usual port if it is free, else 0."""
    if usual > PORT_MAX:
        return 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", usual))
        except OSError:
            return 0
    return usual


def _wait_ready(children: list[Child]) -> None:
    """Wait until all nodes serve and are in sync."""
    until = time.monotonic() + READY_S_MAX
    for _ in _looks(until):
        if all(child.look() for child in children) and _in_sync(children):
            return
    raise CommandError(f"the nodes are not ready after {READY_S_MAX:.0f} s; see their logs", Exit.TIMED_OUT)


def _looks(until: float) -> Iterator[None]:
    while time.monotonic() < until:
        yield
        time.sleep(LOOK_S)


def _in_sync(children: list[Child]) -> bool:
    """True if every node sees a complete in-sync set."""
    try:
        views = [ask(str(child.ready["http"])) for child in children]
    except CommandError:
        return False
    return all(_is_whole(view) and sum(host.alive is True for host in view.hosts) >= len(children) for view in views)


def _is_whole(view: ClusterView) -> bool:
    able = sum(host.alive is True and not host.drained for host in view.hosts)
    led = any(host.leads and host.alive for host in view.hosts)
    wings = sum(wing.leader == wing.hosts[0] and len(wing.in_sync) >= min(able, len(wing.hosts)) for wing in view.wings)
    return led and sum(host.in_sync for host in view.hosts) >= min(able, view.factor) and wings >= view.host_wings


def _announce(children: list[Child], coordinator: str, ready_file: str | None, secret_file: str | None) -> None:
    for child in children:
        doors = ", ".join(f"{door} {child.ready[door]}" for door in USUAL_PORTS)
        print(f"longhall: node {child.number} (pid {child.ready['pid']}): {doors}")
    print(f"longhall: the cluster is ready; ZooKeeper at {coordinator}", flush=True)
    if ready_file is not None:
        told = {
            "pid": os.getpid(),
            "zookeeper": coordinator,
            "cluster_secret": secret_file,
            "nodes": [{"node": child.number, **child.ready} for child in children],
        }
        beside = ready_file + ".new"
        Path(beside).write_text(json.dumps(told) + "\n")
        os.replace(beside, ready_file)


def _stay(children: list[Child]) -> None:
    """Wait until interrupted; a node that ends is reported with the command that starts it again."""
    while True:
        for child in children:
            code = child.exit_code()
            if code is not None and not child.told:
                child.told = True
                print_note(
                    f"node {child.number} ended ({code}); start it again with: longhall {' '.join(child.command[3:])}"
                )
        if all(child.told for child in children):
            raise CommandError("all nodes have ended; see their logs")
        time.sleep(LOOK_S * 4)
