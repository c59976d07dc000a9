"""NATS with JetStream on loopback: the newest server from the Go registry, its streams on disk.

`with Nats() as server: server.address`. By default it syncs every two minutes, as it ships; with `syncs` before each
acknowledgement. The program is built once with `go install` into `.cache/`; Go is expected on the machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from bench.peers.node import BrokerFailed, Node, free_ports

VERSION = "v2.15.2"
_CACHE = Path(__file__).resolve().parents[2] / ".cache" / f"nats-{VERSION}"

_SETTINGS = """listen: 127.0.0.1:{port}
jetstream {{
  store_dir: "{directory}"
  {sync}
}}
"""


def fetch_server() -> Path:
    """The server, built from the Go registry the first time."""
    program = _CACHE / "nats-server"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise BrokerFailed("Go is needed to build the NATS server; on Debian: apt-get install golang")
    done = subprocess.run(
        ["go", "install", f"github.com/nats-io/nats-server/v2@{VERSION}"],
        env={**os.environ, "GOBIN": str(_CACHE)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BrokerFailed(f"go could not build NATS {VERSION}:\n{done.stderr[-2000:]}")
    return program


class Nats(Node):
    """One NATS server."""

    def __init__(self, *, syncs: bool = False, directory: Path | None = None) -> None:
        super().__init__(name="nats-always" if syncs else "nats", directory=directory)
        self._syncs = syncs
        (self._port,) = free_ports(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def listening(self) -> bool:
        return True

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=2) as connection:
                return connection.recv(5) == b"INFO "
        except OSError:
            return False

    def prepare(self) -> None:
        fetch_server()
        sync = "sync_interval: always" if self._syncs else ""
        text = _SETTINGS.format(port=self._port, directory=self.directory / "data", sync=sync)
        (self.directory / "nats.conf").write_text(text)

    def command(self) -> list[str]:
        return [str(fetch_server()), "-c", str(self.directory / "nats.conf")]
