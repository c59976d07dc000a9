"""What import-linter cannot say: who may import what, by name rather than by layer."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.repository import ROOT, name_of, python_files

# The client stands above the doors because it speaks their wire; it must run where no node is installed.
CLIENT_MAY = ("longhall.client", "longhall.doors.kafka.wire", "longhall.records", "longhall.world")
CLIENT_MAY_ALSO = {
    "longhall",
    "longhall.errors",
    "longhall.names",
    "longhall.doors.kafka",
    "longhall.topics.consumer_protocol",  # Bytes inside JoinGroup and SyncGroup that only clients read and write.
}
# The pipeline is a client as well, on executors where nothing else of Longhall runs.
# It opens sealed archives as the front end opens messages, with the same code for bytes and keys.
OF_SEALS = (
    "longhall.broker.seal_keys",
    "longhall.front.keys",
    "longhall.front.sealing.cipher",
    "longhall.front.sealing.seal_order",
    "longhall.queues.envelope",
)
PIPELINE_MAY = (*CLIENT_MAY, *OF_SEALS, "longhall.pipeline")
# The real world hangs on node alone; everybody else sees the ports.
REAL_WORLD = "longhall.world.real"
MAY_SEE_THE_REAL_WORLD = {"node", "world", "cli", "client", "simulation", "pipeline"}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, without those that it needs for its types alone."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{name_of(path)} imports relatively"
            names.add(node.module)
    return names


def foreign_imports(room: str, may: tuple[str, ...]) -> set[str]:
    return {
        f"{name_of(path)} imports {name}"
        for path in python_files(f"src/longhall/{room}")
        for name in imported(path)
        if name.split(".")[0] == "longhall" and name not in CLIENT_MAY_ALSO
        if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in may)
    }


def test_the_client_knows_only_the_wire() -> None:
    assert foreign_imports("client", CLIENT_MAY) == set()


def test_the_pipeline_knows_only_the_client_and_the_wire() -> None:
    assert foreign_imports("pipeline", PIPELINE_MAY) == set()


def test_only_the_assembly_sees_the_real_world() -> None:
    source = ROOT / "src" / "longhall"
    wrong = {
        f"{name_of(path)} imports {name}"
        for path in python_files("src")
        if path.relative_to(source).parts[0] not in MAY_SEE_THE_REAL_WORLD
        for name in imported(path)
        if name == REAL_WORLD or name.startswith(f"{REAL_WORLD}.")
    }
    assert wrong == set()
