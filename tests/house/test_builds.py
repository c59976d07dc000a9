"""Builds in `.venv`: whole or not there, activated in one step, and made by all cores."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from house import builds, environment
from tests.house.repository import ROOT

SOURCES = "0123456789abcdef0123"


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without any build."""
    for name in ("bin", "site-packages"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(builds, "BUILDS", tmp_path / "builds")
    monkeypatch.setattr(builds, "SITE_PACKAGES", tmp_path / "site-packages")
    monkeypatch.setattr(builds, "POINTER", tmp_path / "site-packages" / "longhall.pth")
    monkeypatch.setattr(builds, "COMMAND", tmp_path / "bin" / "longhall")
    return tmp_path


def test_a_plain_build_runs_and_has_a_version(venv: Path) -> None:
    build = builds.make_plain(SOURCES)
    builds.activate(build)
    assert builds.active() == build
    code = f"import sys; sys.path.insert(0, {str(build)!r}); from longhall.cli.main import main; main()"
    command = [sys.executable, "-I", "-c", code, "version", "-o", "json"]
    facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=venv).stdout)
    assert facts["longhall"] == "0.1.0"
    assert facts["hot_rooms"] == "pure Python"


def test_an_interrupted_build_changes_nothing(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = builds.make_plain(SOURCES)
    builds.activate(first)

    def break_off(source: Path, target: Path, **options: object) -> None:
        target.mkdir()
        (target / "__init__.py").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copytree", break_off)
    with pytest.raises(KeyboardInterrupt):
        builds.make_plain("f" * 20)
    assert not builds.directory("f" * 20, builds.PLAIN).exists()
    assert builds.active() == first


def test_the_builds_of_earlier_sources_go_in_the_end_and_the_active_one_stays(venv: Path) -> None:
    made = []
    for number in range(builds.KEPT_BUILDS_MAX + 2):
        made.append(builds.make_plain(f"{number:016d}"))
        builds.activate(made[-1])
    assert builds.active() == made[-1]
    assert [build.exists() for build in made] == [False, False] + [True] * builds.KEPT_BUILDS_MAX


def test_a_path_that_no_kernel_reads_is_started_by_a_shell(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spaced = venv / "a place with spaces"
    spaced.symlink_to(Path(sys.executable).parent)
    monkeypatch.setattr(builds, "PYTHON", spaced / Path(sys.executable).name)
    builds.activate(builds.make_plain(SOURCES))
    text = (venv / "bin" / "longhall").read_text().replace("from longhall.cli.main import main", "main = lambda: 7")
    (venv / "bin" / "longhall").write_text(text)
    assert subprocess.run([venv / "bin" / "longhall"], check=False).returncode == 7


def test_units_have_every_source_once_and_in_order(tmp_path: Path) -> None:
    build = runpy.run_path(str(ROOT / "setup.py"), run_name="looked_at")
    sources = [tmp_path / f"{number}.c" for number in range(20)]
    for number, path in enumerate(sources):
        path.write_text("x" * (10 + 40 * (number % 3)))
    units = build["join_sources"](sources, 4, tmp_path)
    included = [Path(line.split('"')[1]) for unit in units for line in unit.read_text().splitlines()]
    assert included == sources
    assert len(units) == 4


def packages_of(lock: str) -> set[str]:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    return set(re.findall(r"^([\w.\[\]-]+==\S+)", text, re.MULTILINE))


def test_the_locks_agree_and_a_node_needs_few_packages() -> None:
    runtime, build, dev = (packages_of(lock) for lock in (environment.RUNTIME, environment.BUILD, environment.DEV))
    assert runtime < build < dev
    assert len(runtime) <= 20
    assert not {name for name in runtime if name.startswith(("mypy==", "pytest", "pyspark", "ruff"))}
