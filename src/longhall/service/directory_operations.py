"""The operations on the directory. The leader of the main hall carries them out; each reply waits for the commit.

No secret is in an operation: the process that the request reached derives SCRAM keys, seals secrets of access keys and
hashes tokens (`front/account_secrets.py`). Errors: UNKNOWN_ENTRY, ENTRY_EXISTS, ENTRY_IN_USE, INVALID_NAME,
INVALID_REQUEST, and OVERLOADED if the directory is full.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from longhall.cluster.rpc.operation import Operation
from longhall.directory.accounts import DEFAULT_TENANT, ScramKey
from longhall.directory.events import DirectoryChanged, DirectoryEntry


class TenantView(msgspec.Struct, array_like=True):
    """A tenant, with the number of its users."""

    name: str
    enabled: bool = True
    created_ms: int = 0
    users: int = 0
    sealed: str = ""


class AccessKeyView(msgspec.Struct, array_like=True):
    """An access key without its secret."""

    access_key: str
    user: str
    created_ms: int = 0
    until_ms: int = 0


class TokenView(msgspec.Struct, array_like=True):
    """A token by the beginning of its hash."""

    token_id: str
    user: str
    label: str = ""
    created_ms: int = 0
    until_ms: int = 0


class UserView(msgspec.Struct, array_like=True):
    """A user without its secrets. `iterations` is by SCRAM mechanism."""

    name: str
    tenant: str
    enabled: bool = True
    administrator: bool = False
    created_ms: int = 0
    changed_ms: int = 0
    iterations: dict[str, int] = msgspec.field(default_factory=dict)
    access_keys: list[AccessKeyView] = msgspec.field(default_factory=list)
    tokens: list[TokenView] = msgspec.field(default_factory=list)
    overlap_until_ms: int = 0  # The time until which an older password is valid, 0 if there is none.


class AddTenant(Operation[None]):
    """Create a tenant."""

    name: str


class EnableTenant(Operation[None]):
    """Enable or disable a tenant, and so all its users."""

    name: str
    enabled: bool


class SealTenant(Operation[None]):
    """Seal the queues and topics that users of a tenant create from now on; with an empty key, no more."""

    name: str
    sealed: str


class RemoveTenant(Operation[None]):
    """Remove a tenant. ENTRY_IN_USE while it has users."""

    name: str


class ListTenants(Operation[list[TenantView]]):
    """All tenants, by name."""


class AddUser(Operation[None]):
    """Create a user of an existing tenant. Without SCRAM keys it has no password."""

    name: str
    tenant: str = DEFAULT_TENANT
    scram: list[ScramKey] = msgspec.field(default_factory=list)
    administrator: bool = False


class EnableUser(Operation[None]):
    """Enable or disable a user."""

    name: str
    enabled: bool


class SetAdministrator(Operation[None]):
    """Make a user an administrator, or an ordinary user."""

    name: str
    administrator: bool


class RemoveUser(Operation[None]):
    """Remove a user with its access keys and tokens."""

    name: str


class ListUsers(Operation[list[UserView]]):
    """The users of a tenant, or all (the empty name), by name."""

    tenant: str = ""


class ReplacePassword(Operation[None]):
    """Give a user new SCRAM keys. The old keys of the same mechanisms stay valid until `overlap_until_ms`; with 0 they
    end at once.
    """

    name: str
    scram: list[ScramKey]
    overlap_until_ms: int = 0


class ChangeScramKeys(Operation[None]):
    """Put and remove SCRAM keys, as administrators of Kafka do: all changes of one user or none. A user that does not
    exist is created in the default tenant. UNKNOWN_ENTRY for the removal of keys that do not exist.
    """

    name: str
    put: list[ScramKey] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)  # Mechanisms.


class AddAccessKey(Operation[None]):
    """Give a user an access key. The other keys of the user end at `others_until_ms`, unless it is 0."""

    user: str
    access_key: str
    sealed: bytes
    others_until_ms: int = 0


class RemoveAccessKey(Operation[None]):
    """End an access key: at `until_ms`, or at once if that is 0."""

    access_key: str
    until_ms: int = 0


class AddToken(Operation[None]):
    """Give a user a token. `digest` is its SHA-256 in hexadecimal digits."""

    user: str
    digest: str
    label: str = ""
    until_ms: int = 0


class RemoveToken(Operation[None]):
    """Remove a token, by its id or its digest."""

    token_id: str


class EndSession(Operation[None]):
    """End a session of a browser in all processes, until it would have ended by itself."""

    session_id: str
    until_ms: int


class ChangeDirectory(Operation[None]):
    """Put and remove entries of kinds that have no operations of their own, in one event: all of it or nothing.
    INVALID_REQUEST for the kinds of accounts.
    """

    put: list[DirectoryEntry] = msgspec.field(default_factory=list)
    removed: list[tuple[str, str]] = msgspec.field(default_factory=list)


class DirectoryUpdate(msgspec.Struct, array_like=True):
    """The directory, or what has changed in it, up to a version; without `changes` all `entries`."""

    version: int
    changes: DirectoryChanged | None = None
    entries: list[DirectoryEntry] = msgspec.field(default_factory=list)


class FollowDirectory(Operation[DirectoryUpdate]):
    """What has changed since a version, all of it committed. Waits up to `wait_ms` for a change. A version of -1 stands
    for a process that knows nothing.
    """

    waits: ClassVar[bool] = True

    version: int
    wait_ms: int
