"""A tenant beside a loud one: how much of its throughput and of its waiting time is left, at the HTTP and the SQS door.

    python -m bench tenants [--seconds N] [--rounds N] [--limit N] [--connections N]

The quiet tenant sends on a few connections, each message when the one before is acknowledged. It is measured alone,
beside a tenant that asks for ten times its limit, and beside one without a limit on many connections. The rounds
alternate; the result is the median of each figure, as a share of that of the tenant alone. Each client is a process of
its own that repeats the same bytes, so that it costs little: a signature is valid for 15 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from soak.node import Node

ALONE: Final = "alone"
LIMITED: Final = "beside ten times its limit"
UNLIMITED: Final = "beside a tenant without a limit"
PASSWORD: Final = "correct horse battery staple"
QUIET_CONNECTIONS: Final = 4
BODY: Final = "x" * 200


def main(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] == "client":
        asyncio.run(_client(json.loads(sys.stdin.read())))
        return
    parser = argparse.ArgumentParser(prog="python -m bench tenants", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=100, help="requests a second of the loud tenant")
    parser.add_argument("--connections", type=int, default=200, help="of the loud tenant without a limit")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="longhall-tenants-") as home, Node(Path(home) / "data") as node:
        requests = _prepare(node)
        for door in ("http", "sqs"):
            figures = _measure(node, door, requests, options)
            rate, p99 = (statistics.median(one[index] for one in figures[ALONE]) for index in (0, 1))
            print(f"{door}, {ALONE}: {rate:.0f} messages a second, 99th percentile {p99 * 1000:.1f} ms")
            for case in (LIMITED, UNLIMITED):
                beside = [statistics.median(one[index] for one in figures[case]) for index in (0, 1, 2)]
                print(
                    f"{door}, {case}: {beside[0] / rate:.2f} of the throughput, {beside[1] / p99:.1f} times the 99th "
                    f"percentile; the loud tenant: {beside[2]:.0f} answers a second"
                )


def _measure(
    node: Node, door: str, requests: dict[tuple[str, str], bytes], options: argparse.Namespace
) -> dict[str, list[tuple[float, float, float]]]:
    """Messages a second of the quiet tenant, its 99th percentile, and answers a second of the loud one."""
    address = node.http if door == "http" else node.sqs
    quiet = {"address": address, "request": requests[door, "quiet"].decode("latin-1"), "seconds": options.seconds}
    loud = {**quiet, "request": requests[door, "loud"].decode("latin-1"), "seconds": options.seconds + 2}
    figures: dict[str, list[tuple[float, float, float]]] = {ALONE: [], LIMITED: [], UNLIMITED: []}
    for _ in range(options.rounds):
        for case, found in figures.items():
            beside = None
            if case == LIMITED:
                _ask(node, "PUT", "limits", {"tenant": "loud", "requests_a_second": options.limit})
                beside = _start({**loud, "connections": 10, "rate": 10 * options.limit})
            elif case == UNLIMITED:
                beside = _start({**loud, "connections": options.connections})
            time.sleep(1)
            rate, p99 = _result(_start({**quiet, "connections": QUIET_CONNECTIONS}))
            found.append((rate, p99, _result(beside)[0] if beside is not None else 0.0))
            for limit in _ask(node, "GET", "limits"):
                _ask(node, "DELETE", f"limits/{limit['id']}")
    return figures


def _prepare(node: Node) -> dict[tuple[str, str], bytes]:
    """Make two tenants, and the request that each repeats at each door."""
    import boto3
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    _ask(node, "POST", "users", {"name": "root", "password": PASSWORD, "administrator": True}, known=False)
    requests = {}
    for name in ("quiet", "loud"):
        _ask(node, "POST", "tenants", {"name": name})
        _ask(node, "POST", "users", {"name": name, "password": PASSWORD, "tenant": name, "administrator": True})
        key = _ask(node, "POST", f"users/{name}/access-keys", {})
        _ask(node, "POST", "queues", {"name": name})
        body = json.dumps({"messages": [{"body": BODY}]}).encode()
        headers = {"Host": node.http, "Authorization": _basic(name), "Content-Type": "application/json"}
        requests["http", name] = _written(f"/api/v1/queues/{name}/messages", headers, body)
        sent = {"QueueUrl": f"http://{node.sqs}/queue/{name}", "MessageBody": BODY}
        asked = AWSRequest(
            "POST",
            f"http://{node.sqs}/",
            {"Host": node.sqs, "X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"},
            json.dumps(sent),
        )
        session: Any = boto3.Session(key["access_key"], key["secret"])
        SigV4Auth(session.get_credentials(), "sqs", "us-east-1").add_auth(asked)
        requests["sqs", name] = _written("/", dict(asked.headers.items()), asked.data.encode())
    return requests


def _written(path: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def _basic(name: str) -> str:
    return f"Basic {b64encode(f'{name}:{PASSWORD}'.encode()).decode()}"


def _ask(node: Node, method: str, path: str, body: object = None, *, known: bool = True) -> Any:
    request = urllib.request.Request(
        f"http://{node.http}/api/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"Content-Type": "application/json"} | ({"Authorization": _basic("root")} if known else {}),
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read() or b"null")


# The client


def _start(order: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench", "tenants", "client"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdin is not None
    started.stdin.write(json.dumps(order))
    started.stdin.close()
    return started


def _result(client: subprocess.Popen[str]) -> tuple[float, float]:
    assert client.stdout is not None
    rate, p99 = json.loads(client.stdout.read())
    client.wait()
    return rate, p99


async def _client(order: dict[str, Any]) -> None:
    """Send on all connections until the time is over; print answers a second and the 99th percentile."""
    host, port = order["address"].rsplit(":", 1)
    request, seconds = order["request"].encode("latin-1"), order["seconds"]
    waits: list[float] = []
    pause_s = order["connections"] / order["rate"] if "rate" in order else 0.0
    until_s = time.monotonic() + seconds

    async def send() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        due_s = time.monotonic()
        while (began_s := time.monotonic()) < until_s:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(size.split(b":")[1]))
            waits.append(time.monotonic() - began_s)
            due_s += pause_s
            if due_s > time.monotonic():
                await asyncio.sleep(due_s - time.monotonic())
        writer.close()

    await asyncio.gather(*(send() for _ in range(order["connections"])))
    waits.sort()
    print(json.dumps([len(waits) / seconds, waits[len(waits) * 99 // 100]]))
