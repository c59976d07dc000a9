"""ZooKeeper that comes back without its data, or with what it had a while ago."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longhall.coordination.ensemble import Ensemble, Server

KEPT = "version-2"  # Where a server keeps what it knows, below its data directory.


@contextmanager
def down(ensemble: Ensemble) -> Iterator[None]:
    """While it lasts, no server runs."""
    for server in ensemble.servers:
        server.kill()
    try:
        yield
    finally:
        for server in ensemble.servers:
            server.start()
        for server in ensemble.servers:
            ensemble.wait_serving(server)


def forget(ensemble: Ensemble) -> None:
    """Nothing is left of what the servers knew. They must be down."""
    for server in ensemble.servers:
        shutil.rmtree(_kept(server), ignore_errors=True)


def back_up(ensemble: Ensemble, home: Path) -> None:
    """Copy what the servers know. They must be down, so that it is of one moment."""
    for server in ensemble.servers:
        shutil.copytree(_kept(server), home / str(server.number), dirs_exist_ok=True)


def restore(ensemble: Ensemble, home: Path) -> None:
    """The servers know what they knew when they were backed up. They must be down."""
    forget(ensemble)
    for server in ensemble.servers:
        shutil.copytree(home / str(server.number), _kept(server))


def _kept(server: Server) -> Path:
    return server.directory / "data" / KEPT
