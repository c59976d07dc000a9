"""`longhall cluster add|drain|move|factor|status` against a scripted leader."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from longhall.cli.cluster import change
from longhall.cli.cluster.up import usual_ports
from longhall.cluster.rpc.authentication import read_secrets
from longhall.console.cluster_view import ClusterView, HostView
from tests.cli.conftest import Run


class ScriptedLeader:
    """A leader that shows one view after another, the last one repeatedly, and answers as scripted."""

    def __init__(self) -> None:
        self.views: list[ClusterView] = []
        self.answer: tuple[int, dict[str, str]] = (202, {"message": "it has begun"})
        self.asked: list[tuple[str, str, object]] = []
        self.address = ""

    def view(self) -> ClusterView:
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]


class Handler(BaseHTTPRequestHandler):
    leader: ScriptedLeader

    def do_GET(self) -> None:
        self._tell(200, msgspec.json.encode(self.leader.view()))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.leader.asked.append((self.command, self.path, json.loads(body)))
        status, answer = self.leader.answer
        self._tell(status, json.dumps(answer).encode())

    do_PUT = do_POST

    def _tell(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedLeader]:
    monkeypatch.setattr(change, "LOOK_AGAIN_S", 0.0)
    made = ScriptedLeader()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Telling", (Handler,), {"leader": made}))
    made.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def host(node: int, **more: object) -> HostView:
    facts: dict[str, object] = {"alive": True, "leads": node == 1, "manages": node == 2, "in_sync": True, **more}
    return msgspec.convert({"node": node, **facts}, HostView)


def view(*hosts: HostView, leader: int = 1) -> ClusterView:
    return ClusterView(
        node=leader,
        hall="h",
        leader=leader,
        epoch=7,
        in_sync_min=2,
        serving=True,
        committed=1,
        applied=1,
        hosts=list(hosts),
        factor=3,
    )


FETCHING = {"in_sync": False, "copied_bytes": 30, "copied_bytes_total": 120}


def test_status_shows_replicas_and_copy_progress(run: Run, leader: ScriptedLeader) -> None:
    leader.views = [view(host(1), host(2, leaving=True), host(3, **FETCHING), host(4, keeps=False, in_sync=False))]
    shown = run("cluster", "status", "--address", leader.address)
    assert shown.code == 0
    assert "follower, manager, leaving" in shown.out
    assert "fetches everything, 25 % of 120 B" in shown.out
    assert "doors" in shown.out
    rows = json.loads(run("cluster", "status", "--address", leader.address, "-o", "json").out)
    assert [row["keeps"] for row in rows] == [True, True, True, False]
    assert (rows[2]["copied_bytes"], rows[2]["copied_bytes_total"]) == (30, 120)


def test_add_waits_until_the_host_is_in_sync(run: Run, leader: ScriptedLeader) -> None:
    alone = host(2, keeps=False, in_sync=False)
    leader.views = [view(host(1), alone), view(host(1), host(2, **FETCHING)), view(host(1), host(2))]
    ended = run("cluster", "add", "2", "--address", leader.address)
    assert ended.code == 0
    told_lines = ("it has begun", "node 2: fetches everything, 25 % of 120 B", "node 2 has everything")
    assert ended.err == "".join(f"{line}\n" for line in told_lines)
    assert leader.asked == [("POST", "/api/v1/cluster/hosts/2/add", {})]


def test_drain_returns_at_once_unless_wait_is_given(run: Run, leader: ScriptedLeader) -> None:
    leader.views = [view(host(1), host(2))]
    ended = run("cluster", "drain", "2", "--address", leader.address, "-o", "json")
    assert json.loads(ended.out) == {"message": "it has begun", "done": False}
    leader.views = [view(host(1), host(2)), view(host(1), host(2, leaving=True)), view(host(1), host(2, keeps=False))]
    ended = run("cluster", "drain", "2", "--wait", "--address", leader.address, "-o", "json")
    assert json.loads(ended.out) == {"message": "node 2 keeps nothing any more", "done": True}


def test_move_requests_source_and_target(run: Run, leader: ScriptedLeader) -> None:
    leader.views = [view(host(1), host(2))]
    assert run("cluster", "move", "2", "4", "--no-wait", "--address", leader.address).code == 0
    assert run("cluster", "move", "--spread", "--no-wait", "--address", leader.address).code == 0
    assert "node 1 leads\n" in run("cluster", "move", "--leader", "1", "--address", leader.address).err
    assert run("cluster", "factor", "5", "--no-wait", "--address", leader.address).code == 0
    assert leader.asked == [
        ("POST", "/api/v1/cluster/moves", {"source": 2, "target": 4}),
        ("POST", "/api/v1/cluster/moves", {}),
        ("PUT", "/api/v1/cluster/leader", {"node": 1}),
        ("PUT", "/api/v1/cluster/factor", {"factor": 5}),
    ]


@pytest.mark.parametrize("words", [[], ["1"], ["1", "2", "--spread"], ["--leader", "1", "--spread"]])
def test_move_with_missing_or_conflicting_arguments_is_a_usage_error(run: Run, words: list[str]) -> None:
    ended = run("cluster", "move", *words)
    assert ended.code == 2
    assert "give FROM and TO, or --leader NODE, or --spread" in ended.err


def test_a_refusal_is_one_line(run: Run, leader: ScriptedLeader) -> None:
    leader.views = [view(host(1), host(2))]
    leader.answer = (409, {"code": "operation-not-attempted", "message": "without node 2 1 host would keep the hall"})
    ended = run("cluster", "drain", "2", "--wait", "--address", leader.address)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "longhall: without node 2 1 host would keep the hall\n"


def test_a_secret_is_created_once_with_mode_600(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = run("cluster", "secret", "make", str(path))
    assert made.code == 0
    assert f"--cluster-secret {path}" in made.err
    assert path.stat().st_mode & 0o777 == 0o600
    (secret,) = read_secrets(path.read_text())
    assert len(secret) == 64
    assert secret.decode() not in made.err + made.out
    again = run("cluster", "secret", "make", str(path))
    assert again.code == 1
    assert "exists already" in again.err
    assert read_secrets(path.read_text()) == [secret]


def test_up_refuses_a_visible_password_and_a_missing_secret(run: Run, tmp_path: Path) -> None:
    home = ("--data", str(tmp_path))
    shown = run("cluster", "up", *home, "--coordinator", "zk://alice:wonderland@zoo:2181")
    assert shown.code == 2
    assert "coordinator_auth=FILE" in shown.err
    assert "wonderland" not in shown.err
    missed = run("cluster", "up", *home, "--coordinator", "zk://zoo:2181", "--first", "4")
    assert missed.code == 2
    assert "--cluster-secret FILE" in missed.err


def test_no_two_nodes_of_a_machine_have_a_port_in_common() -> None:
    ports = [port for number in range(1, 10) for port in usual_ports(number).values()]
    assert len(ports) == len(set(ports))
    assert usual_ports(1)["management"] == 15672
