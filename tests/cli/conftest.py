"""Commands run inside the test's process, as the entry point runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from longhall.cli.main import main


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Run a command with these arguments; the configuration of the real user is hidden."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    words = (
        "ADDRESS",
        "HTTP_ADDRESS",
        "ACCESS_KEY",
        "SECRET",
        "USER",
        "PASSWORD",
        "TOKEN",
        "PROFILE",
        "DEBUG",
        "SETTINGS",
    )
    for name in (f"LONGHALL_{word}" for word in words):
        monkeypatch.delenv(name, raising=False)

    def run_words(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["longhall", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0 if code is None else 1, said.out, said.err)

    return run_words
