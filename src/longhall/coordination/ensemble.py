"""A real ZooKeeper on this machine, from the Java archives of the pyspark package: one server, or three.

For `longhall cluster up` and for tests. All ports are free ones, by default on the loopback address. All files are in
one directory, and each server is one process. It needs Java and pyspark; an error names what is missing in one line.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

ARCHIVES: Final = (
    "zookeeper-3*",
    "zookeeper-jute*",
    "slf4j-api*",
    "netty-*",
    "snappy-java*",
    "metrics-core*",
    "commons-io*",
    "commons-cli*",
    "audience*",
    "jline-*",
    "jackson-*",
)
JAVA_OPTIONS: Final = (
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dslf4j.internal.verbosity=ERROR",
)
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
READY_S: Final = 60.0
STARTS_MAX: Final = 5  # A free port may be taken before the server binds it.
STOP_S: Final = 10.0
TICK_MS: Final = 200
SESSION_MS: Final = (1000, 60_000)
ANSWER_BYTES_MAX: Final = 64 * 1024


class EnsembleError(Exception):
    """ZooKeeper cannot be started here. The message is one line that says what to do."""


class PartMissing(EnsembleError):
    """Java or pyspark is missing."""


@final
class Server:
    """One server process of an ensemble, with its directory and address."""

    def __init__(self, directory: Path, number: int, host: str, port: int, prefix: Sequence[str]) -> None:
        self.directory = directory
        self.number = number
        self.host = host
        self.port = port
        self._prefix = prefix
        self.process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id; 0 while the server is not running."""
        return 0 if self.process is None else self.process.pid

    def start(self) -> None:
        """Start the process. `mode` tells when it serves."""
        assert self.process is None, "the server is running"
        command = [*self._prefix, _java(), *JAVA_OPTIONS, "-cp", _archives(), MAIN, str(self.directory / "zoo.cfg")]
        with open(self.directory / "log", "ab") as log:
            # In a session of its own: an interrupt at the terminal goes to Longhall, which then stops ZooKeeper itself.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        # The guard kills the server when this process ends, however it ends: the guard's input ends then.
        guard = ["sh", "-c", 'read -r line; kill -9 "$0"', str(self.process.pid)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)

    def mode(self) -> str:
        """`standalone`, `leader` or `follower` while it serves, else empty."""
        words = self._ask(b"srvr").split("Mode: ")
        return words[1].split()[0] if len(words) == 2 else ""

    def kill(self) -> None:
        """Kill the process at once, as a crash would."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        self.kill()

    def _ask(self, word: bytes) -> str:
        """The answer to one of ZooKeeper's four-letter commands; empty if there is none."""
        answer = b""
        try:
            with socket.create_connection((self.host, self.port), timeout=2) as connection:
                connection.sendall(word)
                while len(answer) < ANSWER_BYTES_MAX and (part := connection.recv(4096)):
                    answer += part
        except OSError:
            return ""
        return answer.decode(errors="replace")


@final
class Ensemble:
    """Servers that form one ZooKeeper. `start` and `stop` block; call them in a thread of an event loop."""

    def __init__(
        self,
        directory: Path,
        *,
        servers: int = 1,
        durable: bool = True,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        """Without `durable` the servers do not sync, for tests. `prefix` is a program that runs another one, on that
        host.
        """
        self.directory = directory
        self._host = host
        self._prefix = prefix
        self._durable = durable
        self._count = servers
        self.servers: list[Server] = []

    @property
    def connect(self) -> str:
        """The connection string of a client: `host:port,...`."""
        return ",".join(server.address for server in self.servers)

    @property
    def url(self) -> str:
        """The value for `--coordinator`."""
        return f"zk://{self.connect}"

    def start(self) -> None:
        """Start all servers and wait until they serve. EnsembleError if they cannot."""
        for _ in range(STARTS_MAX):
            self._lay_out()
            try:
                for server in self.servers:
                    server.start()
                if self._serving():
                    return
            except BaseException:
                self.stop()
                raise
            self.stop()
        raise EnsembleError(f"ZooKeeper did not start; its log ends with: {self._last_words()}")

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def leader(self) -> Server:
        """The leading server, or the only one; waits until there is one. EnsembleError if there is none in time."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            found = next((server for server in self.servers if server.mode() in ("leader", "standalone")), None)
            if found is not None:
                return found
            time.sleep(0.05)
        raise EnsembleError("ZooKeeper has no leader")

    def wait_serving(self, server: Server) -> None:
        """Wait until a restarted server serves."""
        if not _wait(server):
            raise EnsembleError(f"ZooKeeper did not start again; its log ends with: {self._last_words()}")

    def _lay_out(self) -> None:
        ports = _free_ports(3 * self._count)
        self.servers = []
        peers = [f"server.{n + 1}={self._host}:{ports[3 * n + 1]}:{ports[3 * n + 2]}" for n in range(self._count)] * (
            self._count > 1
        )
        for number in range(1, self._count + 1):
            directory = self.directory / f"zookeeper-{number}"
            (directory / "data").mkdir(parents=True, exist_ok=True)
            (directory / "data" / "myid").write_text(f"{number}\n")
            server = Server(directory, number, self._host, ports[3 * (number - 1)], self._prefix)
            lines = [*_settings(server, durable=self._durable), *peers]
            (directory / "zoo.cfg").write_text("\n".join(lines) + "\n")
            self.servers.append(server)

    def _serving(self) -> bool:
        return all(_wait(server) for server in self.servers)

    def _last_words(self) -> str:
        for server in self.servers:
            lines = (server.directory / "log").read_text(errors="replace").split("\n")
            said = [line.strip() for line in lines if "Exception" in line or "Error" in line or "error" in line]
            if said:
                return said[-1][:300]
        return "nothing"


def _settings(server: Server, *, durable: bool) -> list[str]:
    quick = ["snapCount=1000000", "preAllocSize=1024", "forceSync=no"]
    return [
        f"dataDir={server.directory / 'data'}",
        f"clientPortAddress={server.host}",
        f"clientPort={server.port}",
        f"tickTime={TICK_MS}",
        "initLimit=50",
        "syncLimit=25",
        f"minSessionTimeout={SESSION_MS[0]}",
        f"maxSessionTimeout={SESSION_MS[1]}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr,mntr",
        *([] if durable else quick),
    ]


def _wait(server: Server) -> bool:
    """Wait until the server serves. False when its process has ended, or after READY_S."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if server.mode():
            return True
        if server.process is None or server.process.poll() is not None:
            return False
        time.sleep(0.05)
    return False


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is none on the path"
        raise PartMissing(
            f"ZooKeeper needs Java, and {where}; on Debian: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
        )
    return java


def _archives() -> str:
    found = importlib.util.find_spec("pyspark")
    places = [] if found is None else list(found.submodule_search_locations or [])
    archives = sorted(
        name for place in places for kind in ARCHIVES for name in glob.glob(f"{glob.escape(place)}/jars/{kind}.jar")
    )
    if not any("zookeeper-3" in name for name in archives):
        raise PartMissing("ZooKeeper comes with pyspark, which is not installed; pip install 'longhall[spark]'")
    return ":".join(archives)


def _free_ports(count: int) -> list[int]:
    """Free ports, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
