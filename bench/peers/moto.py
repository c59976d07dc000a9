"""moto's server, the mock that test suites of AWS programs run, from PyPI.

`with Moto() as server: server.address`, or `python -m bench.peers.moto` from the root of the repository. It is
installed once into an environment of its own in `.cache/`, since nothing but the bench needs it. It keeps everything in
memory and serves with the development server that its own command starts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.node import BrokerFailed, Node, free_ports
from bench.peers.question import answers_list_queues
from bench.peers.stand import stand

VERSION = "5.2.5"
_ROOT = Path(__file__).resolve().parents[2]
_CACHE = _ROOT / ".cache" / f"moto-{VERSION}"


def environment() -> Path:
    """The Python with moto, installed on first use."""
    python = _CACHE / "bin" / "python"
    if (_CACHE / "complete").exists():
        return python
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise BrokerFailed("uv is needed to install moto; ./dev setup puts it into .venv")
    for command in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(_CACHE)],
        [uv, "pip", "install", "--quiet", "--python", str(python), f"moto[server]=={VERSION}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"moto {VERSION} could not be installed:\n{done.stdout}{done.stderr}")
    (_CACHE / "complete").touch()
    return python


class Moto(Node):
    """One moto server, all services in one process."""

    def __init__(self, *, directory: Path | None = None) -> None:
        super().__init__(name="moto", directory=directory)
        (self._port,) = free_ports(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def listening(self) -> bool:
        return True

    def answers(self) -> bool:
        return answers_list_queues(self.address)

    def prepare(self) -> None:
        environment()

    def command(self) -> list[str]:
        return [str(environment()), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]


if __name__ == "__main__":
    stand(Moto)
