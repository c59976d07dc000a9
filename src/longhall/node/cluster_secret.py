"""The files with which a node authenticates: the cluster's secret, and the credentials for ZooKeeper.

Neither is ever on a command line or in the environment: settings name files, which other users must not be able to
read. The secret file is read again when it has changed and on SIGHUP, so a secret is replaced while nodes run. If it
cannot be read then, the old secrets stay valid and the reason is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Final, final

from longhall.cluster.rpc.authentication import Secrets, read_secrets
from longhall.coordination.address import ZooKeeperAddress, parse_address, with_credentials
from longhall.errors import LonghallError
from longhall.node.files import read_text, refused
from longhall.node.settings import Settings

CLUSTER_SECRET: Final = "cluster_secret"
COORDINATOR_AUTH: Final = "coordinator_auth"
LOOK_S: Final = 1.0

_log = logging.getLogger("longhall.node")


@final
class SecretFile:
    """The secrets of a cluster, as last read from their file; the empty secret if no setting names a file."""

    def __init__(self, path: str | None) -> None:
        """Raises LonghallError with one line that says what to do."""
        self._path = path
        self._stamp = self._look()
        self.secrets = Secrets(self._read(path)) if path else Secrets()
        self._warn()

    def reload(self) -> None:
        """Read the file again. If it cannot be used, the old secrets stay valid."""
        if not self._path:
            return
        self._stamp = self._look()
        try:
            found = self._read(self._path)
        except LonghallError as error:
            _log.error("the cluster secret could not be read again; the old one holds", extra={"reason": str(error)})
            return
        if tuple(found) != self.secrets.accepted:
            self.secrets.replace(found)
            _log.info("the cluster secret was read again", extra={"secrets": len(found)})
            self._warn()

    async def watch(self) -> None:
        """Check periodically whether the file has changed, until cancelled."""
        while self._path:
            await asyncio.sleep(LOOK_S)
            if self._look() != self._stamp:
                self.reload()

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._path) if self._path else None
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino) if status is not None else None

    @staticmethod
    def _read(path: str) -> list[bytes]:
        text = read_text(CLUSTER_SECRET, path, private=True, group=False)
        try:
            return read_secrets(text)
        except LonghallError as error:
            raise refused(CLUSTER_SECRET, f"{path}: {error}") from None

    def _warn(self) -> None:
        if self._path and self.secrets.takes_plain:
            _log.warning("the cluster secret file has `none`: nodes without a secret are let in")


def coordinator_of(settings: Settings) -> ZooKeeperAddress:
    """The address of ZooKeeper, with the credentials of this node."""
    assert settings.coordinator is not None
    address = parse_address(settings.coordinator)
    path = settings.coordinator_auth
    if path is None:
        return address
    text = read_text(COORDINATOR_AUTH, path, private=True, group=False)
    try:
        return with_credentials(address, text)
    except LonghallError as error:
        raise refused(COORDINATOR_AUTH, f"{path}: {error}") from None
