"""What belongs to the repository: the files that git tracks or would track, or without git all that is not made."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = {".git", ".venv", "build", "dist", "node_modules", "target", "__pycache__", "data"}


@cache
def repository_files() -> tuple[Path, ...]:
    """All files, sorted."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        names = [name for name in listed.split("\0") if name]
        found = [ROOT / name for name in names]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not MADE.intersection(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in set(found) if path.is_file()))


def python_files(*places: str) -> list[Path]:
    """The Python files below some directories of the repository, or all of them."""
    roots = [ROOT / place for place in places] or [ROOT]
    return [path for path in repository_files() if path.suffix == ".py" and any(path.is_relative_to(r) for r in roots)]


def name_of(path: Path) -> str:
    """How a failure names a file."""
    return str(path.relative_to(ROOT))
