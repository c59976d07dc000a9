"""RabbitMQ on loopback, as Debian packages it.

`with RabbitMq() as broker: broker.address`, or `python -m bench.peers.rabbitmq` from the root of the repository. It has
its own directories, node name and ports, and its own `epmd`, which ends with it. The plugin of STOMP is enabled, and
everything else is the package's default. The package is expected on the machine:
`apt-get install --no-install-recommends rabbitmq-server`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from bench.peers.node import BrokerFailed, Node, free_ports, receive_exactly
from bench.peers.stand import stand

_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_INSTALL = "apt-get install --no-install-recommends rabbitmq-server"
_PROTOCOL_HEADER = b"AMQP\0\0\x09\x01"

_SETTINGS = """listeners.tcp.1 = 127.0.0.1:{port}
stomp.listeners.tcp.1 = 127.0.0.1:{stomp_port}
loopback_users = none
log.console = true
log.console.level = warning
log.file = false
"""


def missing_tools() -> list[str]:
    """The tools that this peer needs and the machine lacks."""
    return [] if _SCRIPT.exists() and shutil.which("erl") else ["rabbitmq-server"]


def version() -> str:
    """The version of the package; empty if it is not installed."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.partition("-")[0]
    except FileNotFoundError:
        return ""


class RabbitMq(Node):
    """One RabbitMQ node."""

    def __init__(self, *, directory: Path | None = None) -> None:
        super().__init__(name="rabbitmq", directory=directory)
        self._port, self._stomp_port, self._distribution_port, self._epmd_port = free_ports(4)
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def stomp_address(self) -> str:
        return f"127.0.0.1:{self._stomp_port}"

    def listening(self) -> bool:
        return True

    def answers(self) -> bool:
        return answers_amqp(self.address)

    def prepare(self) -> None:
        if missing_tools():
            raise BrokerFailed(f"RabbitMQ is not installed; on Debian: {_INSTALL}")
        settings = _SETTINGS.format(port=self._port, stomp_port=self._stomp_port)
        (self.directory / "rabbitmq.conf").write_text(settings)
        (self.directory / "plugins").write_text("[rabbitmq_stomp].\n")
        self._start_epmd()

    def _start_epmd(self) -> None:
        """Erlang would start its own, as a daemon that stays."""
        words = ["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        self._epmd = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self._epmd_port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise BrokerFailed("epmd does not listen")

    def command(self) -> list[str]:
        return [str(_SCRIPT)]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{self._port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "data"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _leave(self) -> None:
        super()._leave()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()


def answers_amqp(address: str) -> bool:
    """True if the server answers the protocol header with a method frame: connection.start."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0) as connection:
            connection.sendall(_PROTOCOL_HEADER)
            return receive_exactly(connection, 1) == b"\x01"
    except OSError:
        return False


def main() -> None:
    stand(RabbitMq)


if __name__ == "__main__":
    main()
