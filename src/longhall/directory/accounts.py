"""Tenants, users, access keys and tokens: the structures of their entries, and an index over them.

No secret is stored in clear: a password as the keys of SCRAM, the secret of an access key sealed under the master key,
a token as its SHA-256. Times are milliseconds since 1970; `until_ms` is the end of validity, 0 for none. A user's name
is unique over all tenants, because most protocols transmit no tenant. An entry that a newer version wrote and this one
cannot decode counts as missing, so it opens no door.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from longhall.directory.events import DirectoryEntry

TENANT: Final = "tenant"
USER: Final = "user"
ACCESS_KEY: Final = "access-key"
TOKEN: Final = "token"
KINDS: Final = frozenset((TENANT, USER, ACCESS_KEY, TOKEN))

ENDED_SESSION: Final = "ended-session"  # No account: a session of a browser that logged out, and when it would end.

DEFAULT_TENANT: Final = "default"  # It exists without an entry.
SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
MECHANISMS: Final = (SHA_256, SHA_512)


class ScramKey(msgspec.Struct, array_like=True, frozen=True):
    """The keys that RFC 5802 derives from one password for one mechanism."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    until_ms: int = 0


class Tenant(msgspec.Struct, array_like=True, frozen=True):
    """A customer. The users of a disabled tenant cannot log in."""

    enabled: bool = True
    created_ms: int = 0
    sealed: str = ""  # The master key under which queues and topics that its users create are sealed; empty for none.


class User(msgspec.Struct, array_like=True, frozen=True):
    """A person or a program. `scram` is in order of age, the newest key of a mechanism last."""

    tenant: str
    enabled: bool = True
    administrator: bool = False
    created_ms: int = 0
    scram: tuple[ScramKey, ...] = ()
    changed_ms: int = 0  # Of the credentials; also the time of disabling.
    dormant: bool = False  # Made by a Kafka client while there was no administrator: no door asks because of it.

    def keys_of(self, mechanism: str, now_ms: int) -> list[ScramKey]:
        """The valid keys of a mechanism, the newest first."""
        return [key for key in reversed(self.scram) if key.mechanism == mechanism and is_valid(key.until_ms, now_ms)]


class AccessKey(msgspec.Struct, array_like=True, frozen=True):
    """A key for SigV4. `sealed` is the secret under the master key."""

    user: str
    sealed: bytes
    created_ms: int = 0
    until_ms: int = 0


class Token(msgspec.Struct, array_like=True, frozen=True):
    """An API token; the name of its entry is the SHA-256 of the token."""

    user: str
    label: str = ""
    created_ms: int = 0
    until_ms: int = 0


def is_valid(until_ms: int, now_ms: int) -> bool:
    """True if something that is valid until a time is valid now."""
    return not until_ms or now_ms < until_ms


@final
class Accounts:
    """The decoded accounts, by name. `Directory` keeps it up to date; everyone else reads."""

    def __init__(self) -> None:
        self.tenants: dict[str, Tenant] = {}
        self.users: dict[str, User] = {}
        self.awake: set[str] = set()  # The users because of which doors ask for logins: those that are not dormant.
        self.access_keys: dict[str, AccessKey] = {}
        self.tokens: dict[str, Token] = {}

    def key_of_tenant(self, name: str) -> str:
        """The master key of what users of a tenant create; empty for none."""
        tenant = self.tenants.get(name)
        return tenant.sealed if tenant is not None else ""

    def put(self, entry: DirectoryEntry) -> None:
        """Take an entry of any kind."""
        if entry.kind not in KINDS:
            return
        try:
            match entry.kind:
                case "tenant":
                    self.tenants[entry.name] = _tenants.decode(entry.value)
                case "user":
                    self._put_user(entry.name, _users.decode(entry.value))
                case "access-key":
                    self.access_keys[entry.name] = _access_keys.decode(entry.value)
                case _:
                    self.tokens[entry.name] = _tokens.decode(entry.value)
        except msgspec.MsgspecError:
            self.remove(entry.kind, entry.name)

    def _put_user(self, name: str, user: User) -> None:
        self.users[name] = user
        if user.dormant:
            self.awake.discard(name)
        else:
            self.awake.add(name)

    def remove(self, kind: str, name: str) -> None:
        """Forget an entry."""
        match kind:
            case "tenant":
                self.tenants.pop(name, None)
            case "user":
                self.users.pop(name, None)
                self.awake.discard(name)
            case "access-key":
                self.access_keys.pop(name, None)
            case "token":
                self.tokens.pop(name, None)
            case _:
                pass

    def is_tenant_enabled(self, name: str) -> bool:
        """True if users of this tenant may log in."""
        tenant = self.tenants.get(name)
        return tenant.enabled if tenant is not None else name == DEFAULT_TENANT

    def active_user(self, name: str) -> User | None:
        """The user of this name, if it is enabled and so is its tenant."""
        user = self.users.get(name)
        return user if user is not None and user.enabled and self.is_tenant_enabled(user.tenant) else None


def entry_of(name: str, value: Tenant | User | AccessKey | Token) -> DirectoryEntry:
    """The entry that stores an account."""
    kinds = {Tenant: TENANT, User: USER, AccessKey: ACCESS_KEY, Token: TOKEN}
    return DirectoryEntry(kinds[type(value)], name, _encode(value))


_encode: Final = msgspec.msgpack.Encoder().encode
_tenants: Final = msgspec.msgpack.Decoder(Tenant)
_users: Final = msgspec.msgpack.Decoder(User)
_access_keys: Final = msgspec.msgpack.Decoder(AccessKey)
_tokens: Final = msgspec.msgpack.Decoder(Token)
