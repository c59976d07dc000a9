"""Authentication for tests of doors: users, keys and tokens without a node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from longhall.directory.accounts import DEFAULT_TENANT, User, entry_of
from longhall.directory.directory import Directory
from longhall.front.account_secrets import AccountSecrets
from longhall.front.authenticator import AUTO, Authenticator, DoorAuthentication
from longhall.front.credentials import Credentials
from longhall.front.master_key import MasterKey
from longhall.world.ports import Janitor
from longhall.world.real.clock import RealClock
from longhall.world.real.entropy import RealEntropy


def of_file(secrets: Mapping[str, str] | Credentials, door: str = "sqs") -> DoorAuthentication:
    """A door that asks for the access keys of a file of credentials."""
    credentials = secrets if isinstance(secrets, Credentials) else Credentials(secrets)
    master_key = MasterKey("", makes=False)
    authenticator = Authenticator(Directory(), master_key, RealClock(), b"secret", credentials)
    return DoorAuthentication(authenticator, door)


class Accounts:
    """A directory with users, and what logs them in."""

    def __init__(self, directory: Path, mode: str = AUTO, janitor: Janitor | None = None) -> None:
        self.directory = Directory()
        master_key = MasterKey(str(directory / "master.key"), makes=True)
        self.authenticator = Authenticator(
            self.directory, master_key, RealClock(), b"secret", mode=mode, janitor=janitor
        )
        self.secrets = AccountSecrets(self.authenticator, RealEntropy())
        self.door = DoorAuthentication(self.authenticator, "test")

    def put(self, name: str, password: str, **fields: bool) -> None:
        """Create or replace a user."""
        user = User(DEFAULT_TENANT, scram=tuple(self.secrets.scram_keys(password)), **fields)
        self.change(entry_of(name, user))

    def change(self, *entries: object, removed: tuple[tuple[str, str], ...] = ()) -> None:
        """Change entries."""
        event = self.directory.decide_change(entries, removed)  # type: ignore[arg-type]
        assert event is not None
        self.directory.apply(event)
