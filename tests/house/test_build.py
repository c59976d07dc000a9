"""What was built is what was asked for: hot rooms compiled where the machine can, the very sources otherwise."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.house.repository import ROOT
from tests.left_out import leave_out

BUILD = os.environ.get("LONGHALL_TEST_BUILD", "plain-sources")


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    """The build script, looked at without running it."""
    return runpy.run_path(str(ROOT / "setup.py"), run_name="looked_at")


def test_hot_rooms_run_as_they_should(build: dict[str, Any]) -> None:
    files = {name: str(importlib.import_module(name).__file__) for name in build["hot_modules"]()}
    assert "longhall.records.batch" in files
    if BUILD == "plain-sources":
        assert {name for name, file in files.items() if not Path(file).is_relative_to(ROOT / "src")} == set()
        return
    if BUILD == "plain" and os.environ.get("LONGHALL_COMPILE") == "0":
        leave_out("compiled modules: LONGHALL_COMPILE=0 asked for plain Python")
    if (reason := build["obstacle"]()) is not None:
        leave_out(f"compiled modules: {reason}")
    assert {name for name, file in files.items() if not file.endswith(".so")} == set()


def test_hot_rooms_are_compiled_together_or_not_at_all(build: dict[str, Any]) -> None:
    suffixes = {Path(str(importlib.import_module(name).__file__)).suffix for name in build["hot_modules"]()}
    assert len(suffixes) == 1


def test_no_hot_file_defines_what_compiling_breaks(build: dict[str, Any]) -> None:
    """msgspec reads annotations when a structure is made, and compiled modules have none left by then."""
    broken = [
        f"{file.name}: {node.name}"
        for file in build["hot_files"]()
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.ClassDef) and any("Struct" in ast.unparse(base) for base in node.bases)
    ]
    assert broken == []


def test_no_compiled_file_hides_a_source() -> None:
    assert sorted((ROOT / "src").rglob("*.so")) == []


def test_the_same_inputs_have_the_same_key(build: dict[str, Any]) -> None:
    files = build["hot_files"]()
    assert build["_key"](files) == build["_key"](files)
    assert build["_key"](files) != build["_key"](files[1:])


def test_dev_lists_every_word_it_knows() -> None:
    listed = subprocess.run([ROOT / "dev"], capture_output=True, text=True, check=True).stdout
    words = runpy.run_path(str(ROOT / "house" / "__main__.py"), run_name="looked_at")["WORDS"]
    assert re.findall(r"^  (\w+)", listed, re.MULTILINE) == list(words)


def test_dev_refuses_an_unknown_word_and_lists_the_known() -> None:
    done = subprocess.run([ROOT / "dev", "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no word 'dance'" in done.stderr
    assert "setup" in done.stderr


def test_every_dependency_is_pinned_with_its_hash() -> None:
    for lock in ("runtime.txt", "build.txt", "dev.txt", "uv.txt"):
        text = (ROOT / "requirements" / lock).read_text()
        entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip() and not entry.startswith("#")]
        loose = [entry.split()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]
        assert loose == [], lock


def test_the_build_uses_the_pinned_compiler() -> None:
    import tomllib

    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pinned = next(word for word in requires if word.startswith("mypy[")).split("==")[1]
    assert f"\nmypy=={pinned} " in (ROOT / "requirements" / "dev.txt").read_text()
