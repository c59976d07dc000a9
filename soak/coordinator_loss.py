"""Loss and restore of ZooKeeper's data."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longhall.coordination.ensemble import Ensemble, Server

KEPT = "version-2"  # The subdirectory with a server's data.


@contextmanager
def down(ensemble: Ensemble) -> Iterator[None]:
    """Stop all servers inside the `with` block."""
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
    """Delete the data of all servers, which must be down."""
    for server in ensemble.servers:
        shutil.rmtree(_kept(server), ignore_errors=True)


def back_up(ensemble: Ensemble, home: Path) -> None:
    """Copy the data of all servers, which must be down so that the copy is consistent."""
    for server in ensemble.servers:
        shutil.copytree(_kept(server), home / str(server.number), dirs_exist_ok=True)


def restore(ensemble: Ensemble, home: Path) -> None:
    """Replace the data of all servers with the backup. They must be down."""
    forget(ensemble)
    for server in ensemble.servers:
        shutil.copytree(home / str(server.number), _kept(server))


def _kept(server: Server) -> Path:
    return server.directory / "data" / KEPT
