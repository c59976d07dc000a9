"""`longhall cluster scale-local`: a scale hook that starts and drains hosts on this machine.

It is used as the setting `scale_hook` of nodes that run here. It reads one request from standard input
(`node.scaler.ScaleRequest`). To scale up it starts another `longhall serve` in the same cluster, on a new directory,
waits until it is ready and adds it as a replica (`cluster add`). To scale down it drains (`cluster drain`) and stops
the last host that it has started, and no other. The started hosts are listed in a file, so that the next call finds
them and resumes a call that was ended by its timeout.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.cluster.hosts import add, drain
from longhall.cli.cluster.status import ask
from longhall.cli.cluster.up import LOOK_S, Child
from longhall.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from longhall.node.scaler import ScaleRequest

REQUEST_BYTES_MAX: Final = 64 * 1024
TIMEOUT_S: Final = 50.0  # The node that asks waits for a minute.
HOSTS: Final = "hosts.json"

Hosts = list[dict[str, object]]


def scale_local(
    home: Annotated[
        str | None, typer.Option(help="The directory of the hosts; by default beside the data of the requesting node.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of new hosts; may be repeated.")
    ] = None,
) -> None:
    """Start a host of the same cluster on this machine, or drain one; the request is JSON on standard input.

    Use `--set scale_hook="longhall cluster scale-local"` for the nodes of a cluster on one machine.
    """
    request = _read()
    place = Path(home).absolute() if home is not None else Path(request.data).absolute().parent / "scaled"
    place.mkdir(parents=True, exist_ok=True)
    hosts = [host for host in _known(place) if _lives(host)]
    if request.want == "more":
        # A host gets a wing and its share by itself. A copy of the hall would make each commit there wait for one more.
        is_spread = ask(request.http).host_wings > 0
        for _ in range(request.hosts_wanted - request.hosts):
            hosts.append(_start(place, request, assignments or []))
            _write(place, hosts)
            if not is_spread:
                add(node=int(str(hosts[-1]["number"])), wait=False, address=request.http)
    elif not hosts:
        raise CommandError("there is no host that this command has started")
    else:
        drain(node=int(str(hosts[-1]["number"])), wait=True, address=request.http)
        _end(hosts[-1])
        _write(place, hosts[:-1])


def _read() -> ScaleRequest:
    import msgspec

    from longhall.node.scaler import ScaleRequest

    text = sys.stdin.buffer.read(REQUEST_BYTES_MAX)
    try:
        request = msgspec.json.decode(text, type=ScaleRequest)
    except msgspec.DecodeError as failure:
        raise CommandError(f"standard input is not a scale request: {failure}", Exit.USAGE) from None
    if not request.coordinator:
        raise CommandError("the node is alone; hosts can be added to a node of a cluster (--coordinator)")
    return request


def _known(place: Path) -> Hosts:
    try:
        hosts = json.loads((place / HOSTS).read_text())
    except (OSError, ValueError):
        return []
    return [host for host in hosts if isinstance(host, dict)] if isinstance(hosts, list) else []


def _write(place: Path, hosts: Hosts) -> None:
    beside = place / f"{HOSTS}.new"
    beside.write_text(json.dumps(hosts) + "\n")
    os.replace(beside, place / HOSTS)


def _lives(host: dict[str, object]) -> bool:
    """True if the process runs and is the one that was started: process ids are reused."""
    try:
        command = Path(f"/proc/{int(str(host['pid']))}/cmdline").read_bytes()
    except (OSError, KeyError, ValueError):
        return False
    return str(host.get("data")).encode() in command.split(b"\0")


def _start(place: Path, request: ScaleRequest, settings: list[str]) -> dict[str, object]:
    number = max([host.node for host in ask(request.http).hosts], default=0) + 1  # A number that was never used.
    data = str(place / f"host{number}")
    command = [sys.executable, "-m", "longhall.cli", "serve", "--data", data]
    command += ["--coordinator", request.coordinator, "--node-id", str(number)]
    for door in ("kafka", "sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http"):
        command += [f"--{door}", "127.0.0.1:0"]
    if request.cluster_secret:
        command += ["--cluster-secret", request.cluster_secret]
    if request.coordinator_auth:
        command += ["--coordinator-auth", request.coordinator_auth]
    for word in settings:
        command += ["--set", word]
    child = Child(number, place, command)
    child.start()
    until = time.monotonic() + TIMEOUT_S
    while not child.look():
        if time.monotonic() > until:
            child.stop()
            child.wait()
            raise CommandError(f"a host is not ready after {TIMEOUT_S:.0f} s; see {child.log_file}", Exit.TIMED_OUT)
        time.sleep(LOOK_S)
    print(f"longhall: host {number} (pid {child.ready['pid']}) is ready")
    return {"number": number, "data": data, **child.ready}


def _end(host: dict[str, object]) -> None:
    """Stop a drained host, which still answers open requests."""
    os.kill(int(str(host["pid"])), signal.SIGTERM)
    until = time.monotonic() + TIMEOUT_S
    while _lives(host):
        if time.monotonic() > until:
            raise CommandError(f"host {host['number']} (pid {host['pid']}) does not end", Exit.TIMED_OUT)
        time.sleep(LOOK_S)
    print(f"longhall: host {host['number']} (pid {host['pid']}) is drained and gone")
