"""Longhall for executors that do not have it: one archive, made by the command that starts the job.

The archive holds this package as it runs here, compiled or plain, and the few packages that reading and writing need.
Executors unpack it beside their work and put it first on the path of their Python workers. They need of their own what
any PySpark job needs: the same version of Python on the same kind of machine, PySpark and pyarrow.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import longhall

DIRECTORY: Final = "longhall-shipped"  # Within an executor's working directory.
PACKAGES: Final = ("cffi", "crc32c", "cramjam", "cryptography", "librt", "msgspec", "mypy-extensions", "uvloop")
_LEFT_BEHIND: Final = {"cli", "simulation", "console"}  # Tasks do not use them.


def settings_for_executors() -> dict[str, str]:
    """Spark's settings that bring the archive to every executor."""
    return {"spark.archives": f"{archive()}#{DIRECTORY}", "spark.executorEnv.PYTHONPATH": f"./{DIRECTORY}"}


def is_shipped() -> bool:
    """True if this process runs Longhall from a shipped archive."""
    return DIRECTORY in Path(longhall.__file__).parts


def archive() -> Path:
    """The archive of the running version. It is named after its content and built once."""
    files = dict(_files())
    digest = hashlib.sha256(f"{sys.version}{sys.platform}".encode())
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"{name} {len(content)}\0".encode() + content)
    place = Path(tempfile.gettempdir()) / f"longhall-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != os.getuid():  # Its owner could give our executors other code.
        place = Path(tempfile.mkdtemp(prefix="longhall-"))
    made = place / f"{digest.hexdigest()[:16]}.zip"
    if not made.exists():
        fresh = made.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as box:
            for name in sorted(files):
                box.write(files[name], name)
        fresh.rename(made)
    return made


def _files() -> Iterator[tuple[str, Path]]:
    root = Path(longhall.__file__).parent
    for path in root.rglob("*"):
        inside = path.relative_to(root)
        if path.is_file() and path.suffix in (".py", ".so", ".typed") and inside.parts[0] not in _LEFT_BEHIND:
            yield f"longhall/{inside}", path
    for path in root.parent.glob("longhall__mypyc*"):  # What the compiled modules have in common.
        yield path.name, path
    for package in PACKAGES:
        try:
            listed = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for entry in listed:
            path = Path(str(entry.locate()))
            if ".." not in entry.parts and path.is_file() and path.suffix != ".pyc":
                yield str(entry), path
