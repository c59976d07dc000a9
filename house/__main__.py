"""The commands of `./dev`, after `.venv` exists. Each is one function that returns an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from house import names
from house.environment import (
    BUILD,
    BUILD_ONLY,
    COMMAND,
    DEV,
    PYTHON,
    ROOT,
    VENV,
    Failed,
    child_environment,
    ensure_environment,
    ensure_java,
    ensure_node,
    ensure_packages,
    say,
)
from house.suite import FAST, PLAIN_SOURCES, run_chosen, run_suite


def run(*command: str | Path, **changes: str) -> int:
    """Run one program in the repository, in the caller's terminal."""
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=child_environment(**changes), check=False
    ).returncode


def replace_with(*command: str | Path) -> int:
    """Replace this process with another program, in the caller's directory, so that signals and exit codes are its
    own.
    """
    os.execve(str(command[0]), [str(part) for part in command], child_environment())


def become_module(module: str, *arguments: str) -> int:
    """Replace this process with a Python module of this repository or of the installed Longhall."""
    os.chdir(ROOT)
    return replace_with(PYTHON, "-m", module, *arguments)


def setup(arguments: Sequence[str]) -> int:
    only_build = BUILD_ONLY in arguments
    state = ensure_environment(BUILD if only_build else DEV)
    if not only_build:
        ensure_java()
    say(f".venv is ready, {COMMAND.relative_to(ROOT)} is {state['build']}")
    return 0


def serve(arguments: Sequence[str]) -> int:
    """Start a node as soon as it can run: as plain Python, if nothing is compiled yet."""
    ensure_node()
    return replace_with(COMMAND, "serve", *arguments)


def test(arguments: Sequence[str]) -> int:
    """Run the fast tests on the plain sources and all tests on the installed build, and list the tests that were
    left out.
    """
    ensure_packages()
    return run_chosen(_prepare(), arguments) if arguments else run_suite(_prepare)


def _prepare() -> str:
    state = ensure_environment()
    ensure_java()
    return state["build"]


def check(arguments: Sequence[str]) -> int:
    ensure_environment()
    tools = VENV / "bin"
    steps: list[tuple[str, Callable[[], int]]] = [
        ("format", lambda: run(tools / "ruff", "format", "--check", "--quiet", ".")),
        ("lint", lambda: run(tools / "ruff", "check", "--quiet", ".")),
        ("types", lambda: run(tools / "mypy")),
        ("imports", lambda: run(tools / "lint-imports", "--no-logo", PYTHONPATH="src")),
        ("names", lambda: names.main(ROOT)),
        (
            "fast tests",
            lambda: run(PYTHON, "-m", "pytest", "-q", "-m", FAST, *arguments, LONGHALL_TEST_BUILD=PLAIN_SOURCES),
        ),
    ]
    failed = []
    for name, step in steps:
        say(f"check: {name}")
        if step() != 0:
            failed.append(name)
    say(f"check failed: {', '.join(failed)}" if failed else "check passed")
    return 1 if failed else 0


def format_sources(arguments: Sequence[str]) -> int:
    ensure_environment()
    ruff = VENV / "bin" / "ruff"
    return run(ruff, "check", "--quiet", "--fix-only", ".") or run(ruff, "format", ".")


def bench(arguments: Sequence[str]) -> int:
    ensure_environment()
    ensure_java()
    return become_module("bench", *arguments)


def simulate(arguments: Sequence[str]) -> int:
    ensure_environment()
    return become_module("simulation", *arguments)


def fuzz(arguments: Sequence[str]) -> int:
    ensure_environment()
    return become_module("tests.fuzz", *arguments)


def soak(arguments: Sequence[str]) -> int:
    ensure_environment()
    return become_module("soak", *arguments)


def model(arguments: Sequence[str]) -> int:
    ensure_environment()
    return become_module("model", *arguments)


def settings(arguments: Sequence[str]) -> int:
    ensure_packages()
    return run(PYTHON, "-m", "house.topic_configurations", PYTHONPATH="src") or run(
        PYTHON, "-m", "house.settings_table", PYTHONPATH="src"
    )


def permissions(arguments: Sequence[str]) -> int:
    ensure_packages()
    return run(PYTHON, "-m", "house.permission_table", PYTHONPATH="src")


def walk(arguments: Sequence[str]) -> int:
    ensure_environment()
    return become_module("house.walk", *arguments)


def lock(arguments: Sequence[str]) -> int:
    ensure_environment()
    command: list[str | Path] = [
        VENV / "bin" / "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        "3.11",
    ]
    command += ["--generate-hashes", "--no-header", "--no-annotate", *arguments]
    same = ("--constraint", "requirements/dev.txt")  # The smaller locks have the versions of the largest.
    return (
        run(*command, "--extra", "dev", "--extra", "spark", "pyproject.toml", "-o", "requirements/dev.txt")
        or run(*command, *same, "--extra", "build", "pyproject.toml", "-o", "requirements/build.txt")
        or run(*command, *same, "pyproject.toml", "-o", "requirements/runtime.txt")
        or run(*command, "requirements/uv.in", "-o", "requirements/uv.txt")
    )


WORDS: dict[str, Callable[[Sequence[str]], int]] = {
    "setup": setup,
    "serve": serve,
    "test": test,
    "check": check,
    "format": format_sources,
    "bench": bench,
    "simulate": simulate,
    "fuzz": fuzz,
    "soak": soak,
    "model": model,
    "settings": settings,
    "permissions": permissions,
    "walk": walk,
    "lock": lock,
}


def main() -> int:
    try:
        return WORDS[sys.argv[1]](sys.argv[2:])
    except Failed as failure:
        say(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
