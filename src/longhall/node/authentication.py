"""Authentication of one process: its directory, the rules of its doors, and what a change does to open connections.

A client that has logged in goes on until its user is disabled, removed or loses its tenant: then its connections are
closed at once. So are anonymous connections when the first user is added, because from then on every door asks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from longhall.broker.background import BackgroundTasks, cancel
from longhall.directory.directory import Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged
from longhall.front.account_secrets import AccountSecrets
from longhall.front.audit import AuditTrail
from longhall.front.authenticator import Authenticator, DoorAuthentication
from longhall.front.credentials import Credentials
from longhall.front.master_key import FILE, MasterKey
from longhall.node.addresses import parse_address
from longhall.node.oidc import identity_provider_of
from longhall.node.settings import Settings

if TYPE_CHECKING:
    from longhall.world.ports import World

TOKENS_CHECK_S: Final = 1.0  # Connections whose token has ended are closed within this time.


@final
class NodeAuthentication(DirectoryObserver):
    """The authenticator of a process, by door."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        directory: Directory,
        secret: bytes,
        credentials: Credentials | None,
        audit: AuditTrail | None = None,
    ) -> None:
        path = settings.master_key
        if path is None:
            path = os.path.join(settings.data, FILE) if settings.coordinator is None else ""
        master_key = MasterKey(path, makes=settings.master_key is None)
        mode = settings.authentication
        provider = identity_provider_of(settings.oidc)
        self.authenticator = Authenticator(
            directory, master_key, world.clock, secret, credentials, mode, provider, audit, world.janitor
        )
        self.secrets = AccountSecrets(self.authenticator, world.entropy)
        self._settings = settings
        self._closers: list[Callable[[], None]] = []
        self._is_closing = False
        self._reading: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        directory.observers.append(self)

    def start(self, background: BackgroundTasks) -> None:
        """Read the keys of the identity provider, now and from time to time, and end logins with their tokens."""
        if self.authenticator.provider is not None and self._reading is None:
            self._reading = background.start("read the identity provider's keys", self.authenticator.provider.run)
            self._ending = background.start("end logins with their tokens", self._end_logins)

    async def stop(self) -> None:
        """Do neither any more."""
        await cancel(self._reading)
        await cancel(self._ending)
        self._reading = self._ending = None

    async def _end_logins(self) -> None:
        while True:
            await asyncio.sleep(TOKENS_CHECK_S)
            if self.authenticator.has_token_logins:
                self.check_connections()

    def door(self, name: str, address: str) -> DoorAuthentication:
        """Authentication of the door with this name and address."""
        settings = self._settings
        open_to_others = not parse_address(address).is_loopback
        always = open_to_others and (not settings.insecure or name in ("http", "management"))
        return DoorAuthentication(self.authenticator, name, always=always, file=name != "kafka")

    def close_with(self, closer: Callable[[], None]) -> None:
        """Call this after changes: it closes the connections of a door that may not go on."""
        self._closers.append(closer)

    def directory_changed(self, event: DirectoryChanged) -> None:
        self.check_connections()

    def check_connections(self) -> None:
        """Close the connections that may not go on, at the end of this turn of the loop."""
        if not self._is_closing and self._closers:
            self._is_closing = True
            self._loop.call_soon(self._close)

    def _close(self) -> None:
        self._is_closing = False
        for closer in self._closers:
            closer()


def needs_administrator(settings: Settings) -> bool:
    """True if nobody could log in to a node that starts without users: it gets a first administrator."""
    if settings.credentials is not None or settings.insecure or settings.authentication == "none":
        return False
    doors = ("kafka", "sqs", "amqp", "stomp", "stomp_websocket", "management", "http")
    open_to_others = any(not parse_address(getattr(settings, door)).is_loopback for door in doors)
    return settings.authentication == "required" or open_to_others
