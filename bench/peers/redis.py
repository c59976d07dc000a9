"""Redis on loopback, as Debian packages it, with an append-only file that is synced before each answer.

`with Redis() as server: server.address`. The package is expected on the machine: `apt-get install redis-server`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.load import redis
from bench.peers.node import BrokerFailed, Node, free_ports

_INSTALL = "apt-get install --no-install-recommends redis-server"


def version() -> str:
    """The version of the program; empty if it is not installed."""
    if shutil.which("redis-server") is None:
        return ""
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=False).stdout
    return said.partition("v=")[2].split(" ")[0]


class Redis(Node):
    """One Redis server."""

    def __init__(self, *, directory: Path | None = None) -> None:
        super().__init__(name="redis", directory=directory)
        (self._port,) = free_ports(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def listening(self) -> bool:
        return True

    def answers(self) -> bool:
        try:
            return redis.ask(self.address, "PING") == "+PONG"
        except OSError:
            return False

    def prepare(self) -> None:
        if not version():
            raise BrokerFailed(f"Redis is not installed; on Debian: {_INSTALL}")
        (self.directory / "data").mkdir()

    def command(self) -> list[str]:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self._port),
            "dir": str(self.directory / "data"),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        return ["redis-server", *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LC_ALL": "C"}
