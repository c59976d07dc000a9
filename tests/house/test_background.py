"""No long-lived task bypasses the supervisor: whoever starts one otherwise is on the list below, with the reason."""

from __future__ import annotations

import ast

from tests.house.repository import ROOT, name_of, python_files

ROOMS = ("broker", "cluster", "node", "coordination", "doors", "console", "front", "service", "world", "shards", "log")
STARTS = {"create_task", "ensure_future"}

# File and function: why its task needs no `BackgroundTasks`.
REQUEST = "ends with one request, which waits for it"
ALLOWED = {
    ("broker/background.py", "start"): "the supervisor itself",
    ("broker/fetch.py", "_look"): REQUEST,
    ("broker/pending.py", "run"): "produces one reply; every failure becomes its error",
    ("broker/queues/delivery/receive_any.py", "wait_for_any"): REQUEST,
    ("cluster/replication/leadership_check.py", "_ask_together"): REQUEST,
    (
        "cluster/replication/digests.py",
        "_start",
    ): "one report or one announcement; the exception handler stops the node",
    (
        "cluster/replication/full_sync.py",
        "_fetch_segments",
    ): "the full sync waits for them, and takes the first failure",
    ("cluster/membership/hosts.py", "lead"): "one hand-over that an operator asked for; its callback takes the outcome",
    (
        "cluster/replication/in_sync_recorder.py",
        "renounce",
    ): "one change of the record; the exception handler stops the node",
    ("cluster/rpc/peers.py", "start"): "answers one request of another node; every failure becomes the answer",
    (
        "cluster/membership/session_tasks.py",
        "start",
    ): "supervised there: a task that fails is logged and starts the hall anew",
    ("cluster/placement/group_client.py", "__init__"): "has no hall; `report_failure` stops the node",
    ("console/http.py", "_employ"): REQUEST,
    ("console/metrics.py", "render"): REQUEST,
    ("coordination/embedded.py", "commit"): REQUEST,
    ("coordination/watches.py", "__init__"): "below the broker; `report_failure` stops the node",
    ("coordination/tree_server.py", "_start"): "answers one request of a worker",
    ("coordination/tree_client.py", "start"): "below the broker; `report_failure` stops the node",
    ("doors/amqp/connection.py", "start"): "ends with the connection, which a failure closes",
    ("doors/stomp/connection.py", "_begin"): "ends with the connection, which a failure closes",
    ("doors/kafka/request_tasks.py", "start"): REQUEST,
    ("front/keys/key_command.py", "_run"): "the call waits for it, also if it is cancelled",
    ("front/sealing/data_keys.py", "_shared"): "a call that requests share; each of them has its error",
    ("doors/kafka/server.py", "_serve_message"): REQUEST,
    ("doors/sqs/server.py", "_start"): REQUEST,
    ("front/entrance.py", "_accept"): "ends with the handshake of one connection, which a failure closes",
    ("service/sessions.py", "start_of_session"): "ends with its session; a failure is logged",
    ("node/workers.py", "_register_soon"): "ends with the registration; `report_failure` stops the node",
    ("node/agent_check.py", "connection_made"): REQUEST,
    ("node/cluster_node.py", "_withdraw_receipt_secret"): "one change of the record, tried again with the next look",
    ("node/lifecycle.py", "_live"): "has no hall yet; `report_failure` stops the node",
    ("node/lifecycle.py", "_serve_in_cluster"): "has no hall yet; `report_failure` stops the node",
    ("node/lifecycle.py", "_wait_for_record"): "the wait ends with it, and takes the outcome",
    ("node/lifecycle.py", "_settled"): "the start waits for it",
    ("node/supervisor.py", "run"): "of the parent of workers, which waits for it",
}


def starts() -> set[tuple[str, str]]:
    """Every function of the long-lived rooms that starts a task by itself, with its file."""
    found: set[tuple[str, str]] = set()
    for path in python_files(*(f"src/longhall/{room}" for room in ROOMS)):
        name = name_of(path).removeprefix("src/longhall/")
        for function in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in STARTS:
                        found.add((name, function.name))
    return found


def test_long_lived_tasks_are_supervised() -> None:
    assert starts() - set(ALLOWED) == set(), "start these with `hall.background.start`, or say here why not"


def test_the_list_of_exceptions_is_up_to_date() -> None:
    assert set(ALLOWED) - starts() == set()
    assert all((ROOT / "src" / "longhall" / path).exists() for path, _ in ALLOWED)
