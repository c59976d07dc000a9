"""How a client of the Kafka door checks brokers, and who it says that it is: TLS and a login.

    LONGHALL_USER       the user, where brokers ask for a login,
    LONGHALL_PASSWORD   and its password,
    LONGHALL_TOKEN      or a token in its place
    LONGHALL_CA         turns TLS on; see `tls`

Values can be pickled, so that the driver of a job passes them on to its tasks. They do not show secrets when printed.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from longhall.client.login import Login
from longhall.client.tls import ClientTls, tls_of_environment


class ClientSecurity(NamedTuple):
    """The TLS of connections (None: clear text) and the login (None: brokers ask for none)."""

    tls: ClientTls | None = None
    login: Login | None = None

    def __repr__(self) -> str:
        return f"ClientSecurity(tls={self.tls}, user={self.login.user if self.login is not None else ''!r})"

    def context(self) -> ssl.SSLContext | None:
        """The context for connections; None for clear text. LonghallError if a file cannot be used."""
        return self.tls.context() if self.tls is not None else None

    def export(self, environment: MutableMapping[str, str]) -> None:
        """Name everything in an environment, for planners that are started from here."""
        if self.tls is not None:
            self.tls.export(environment)
        if self.login is not None:
            environment["LONGHALL_USER"] = self.login.user
            environment["LONGHALL_PASSWORD"] = self.login.password
            environment.pop("LONGHALL_TOKEN", None)


def security_of_environment(environment: Mapping[str, str] = os.environ) -> ClientSecurity:
    """What the environment names."""
    tls = tls_of_environment(environment)
    user = environment.get("LONGHALL_USER", "")
    secret = environment.get("LONGHALL_TOKEN") or environment.get("LONGHALL_PASSWORD", "")
    return ClientSecurity(tls if tls.is_on else None, Login(user, secret) if user and secret else None)
