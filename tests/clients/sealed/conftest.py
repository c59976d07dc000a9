"""A node with master keys in a file, for clients of every door."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from soak.node import Node
from tests.clients.sqs.conftest import CREDENTIALS, REGION

KEYS = """
managed = "house"

[providers.disk]
kind = "file"
path = "{path}"

[keys]
house = {{ provider = "disk" }}
"alias/orders" = {{ provider = "disk", id = "orders" }}
"alias/gone" = {{ provider = "disk", id = "gone" }}
"""


def write_keys(home: Path, masters: dict[str, str] | None = None) -> Path:
    """The file of keys, and the file of master keys that it names."""
    master_file = home / "master-keys"
    masters = masters or {"house": secrets.token_hex(32), "orders": secrets.token_hex(32)}
    master_file.write_text("".join(f"{name} = {key}\n" for name, key in masters.items()))
    master_file.chmod(0o600)
    file = home / "keys.toml"
    file.write_text(KEYS.format(path=master_file))
    file.chmod(0o600)
    return file


def sqs_at(node: Node) -> Any:
    return boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)


def found_in(directory: Path, *needles: bytes) -> list[str]:
    """The files below a directory that have one of these bytes anywhere."""
    return [
        f"{file.relative_to(directory)}: {needle[:40]!r}"
        for file in sorted(directory.rglob("*"))
        if file.is_file()
        for needle in needles
        if needle in file.read_bytes()
    ]


@pytest.fixture(scope="module")
def sealed_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    home = tmp_path_factory.mktemp("sealed")
    with Node(home / "data", options=["--keys", str(write_keys(home))]) as node:
        yield node


@pytest.fixture
def sqs(sealed_node: Node) -> Any:
    return sqs_at(sealed_node)
