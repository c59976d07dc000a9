"""Longhall as a peer: the installed command, with only its defaults and a data directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers.node import Node

_ROOT = Path(__file__).resolve().parents[2]
COMMAND = _ROOT / ".venv" / "bin" / "longhall"
_DOORS = ("kafka", "sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http")


class Longhall(Node):
    """One Longhall node. `before` precedes the command, for a profiler; `program` may be another build."""

    def __init__(
        self,
        *,
        before: Sequence[str] = (),
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        directory: Path | None = None,
        name: str = "longhall",
        program: Path = COMMAND,
    ) -> None:
        super().__init__(name=name, directory=directory)
        self._program = program
        self._before = list(before)
        self._arguments = list(arguments)
        self._variables = dict(variables or {})
        self._address = ""

    @property
    def address(self) -> str:
        return self._address

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def prepare(self) -> None:
        pass

    def start(self) -> None:
        # The file of an earlier start has an outdated address.
        self._ready_path().unlink(missing_ok=True)
        self._address = ""
        super().start()

    def command(self) -> list[str]:
        serve = [str(self._program), "serve", "--data", str(self.data)]
        doors = [word for door in self._doors() for word in (f"--{door}", "127.0.0.1:0")]
        return [*self._before, *serve, *doors, "--ready-file", str(self._ready_path()), *self._arguments]

    def _doors(self) -> list[str]:
        """The doors of the program: another build may be older than some of them."""
        if self._program == COMMAND:
            return list(_DOORS)
        listing = subprocess.run([str(self._program), "serve", "--help"], check=True, capture_output=True, text=True)
        return [door for door in _DOORS if re.search(rf"--{door}\b(?!-)", listing.stdout)]

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self._variables}

    def listening(self) -> bool:
        try:
            self._address = str(json.loads(self._ready_path().read_text())["kafka"])
        except (FileNotFoundError, json.JSONDecodeError, KeyError):
            return False
        return True

    def _ready_path(self) -> Path:
        return self.directory / "ready.json"
