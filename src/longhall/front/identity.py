"""The identity of a client: who it is, once a door has authenticated it, and how the identity reaches the broker.

    kind             who                                                    may
    anonymous        a client of a door that asks for no authentication:    everything, as without a directory
                     the directory has no users and the door is on loopback
    user             a user of the directory                                what its permissions say
    administrator    a user of the directory with this mark (superuser),    everything, the directory included
                     or an access key of the file `--credentials`

Every door makes a `Principal` when it authenticates a client, and passes `caller_of(principal, address)` with each
operation. So the broker sees a `Caller`, whose `identity` is the user's name, and `principal_of(caller)` is the way
back. An anonymous caller has the empty tenant and kind; its identity is empty or a name that nobody has checked (a user
of AMQP, an address of HTTP). So the kind decides, never the identity. Calls of the node itself are anonymous too.

This module does not know how a client proves its identity (`front/authenticator.py`), nor what it may do.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.cluster.rpc.operation import Caller
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.front.origins import Origin

ANONYMOUS_KIND: Final = ""
USER_KIND: Final = "user"
ADMINISTRATOR_KIND: Final = "administrator"


class Principal(NamedTuple):
    """An authenticated client, or `ANONYMOUS`."""

    tenant: str
    user: str
    kind: str
    until_ms: int = 0  # When the token that was shown as a password ends; 0: what was shown does not end by itself.

    def is_same(self, other: Principal) -> bool:
        """True if this is the same client with the same rights, whatever it has shown."""
        return self[:3] == other[:3]

    @property
    def is_anonymous(self) -> bool:
        """True if the client was not asked who it is."""
        return self.kind == ANONYMOUS_KIND

    @property
    def is_superuser(self) -> bool:
        """True if no permission is needed: administrators, and clients of doors without authentication."""
        return self.kind != USER_KIND

    def shown_as(self, name: str) -> Principal:
        """An anonymous client under the name that it gave, which nobody has checked; other clients as they are."""
        return self._replace(user=name) if self.is_anonymous else self


NODE_ITSELF: Final = Caller("", "", "", ADMINISTRATOR_KIND)  # What a node asks for itself, such as its metrics.
ANONYMOUS: Final = Principal("", "", ANONYMOUS_KIND)


def principal_of_key(access_key: str) -> Principal:
    """The principal of an access key in the file of credentials."""
    return Principal(DEFAULT_TENANT, access_key, ADMINISTRATOR_KIND)


def caller_of(principal: Principal, address: str, tls: bool = False, action: str = "", door: str = "") -> Caller:
    """The caller of operations that this client asks for."""
    return Caller(principal.user, address, principal.tenant, principal.kind, tls, action, door)


def is_encrypted(origin: Origin | None) -> bool:
    """True if a client's connection is encrypted: by this process, or by a trusted one in front of it."""
    return origin is not None and origin.is_tls


def principal_of(caller: Caller) -> Principal:
    """The client that an operation comes from."""
    return Principal(caller.tenant, caller.identity, caller.kind)
