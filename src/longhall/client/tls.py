"""The TLS of clients: the command line, the pipeline, and programs that use the Kafka client.

    LONGHALL_CA                     the authority of the nodes' certificates, in PEM
    LONGHALL_CLIENT_CERTIFICATE     the certificate of the client, where nodes ask for one,
    LONGHALL_CLIENT_KEY             and its private key, of mode 600

An authority turns TLS on. It does not know which nodes there are.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Mapping, MutableMapping
from typing import Final, NamedTuple

from longhall.world.tls_files import client_context

_VARIABLES: Final = ("LONGHALL_CA", "LONGHALL_CLIENT_CERTIFICATE", "LONGHALL_CLIENT_KEY")


class ClientTls(NamedTuple):
    """The files of a client; empty for none."""

    ca: str = ""
    certificate: str = ""
    key: str = ""
    checks_host: bool = True  # False: any host with a certificate of the authority is believed.

    @property
    def is_on(self) -> bool:
        """True if connections use TLS without further word."""
        return bool(self.ca)

    def export(self, environment: MutableMapping[str, str]) -> None:
        """Name the files in an environment, for jobs that are started from here."""
        for name, value in zip(_VARIABLES, (self.ca, self.certificate, self.key), strict=True):
            if value:
                environment[name] = value

    def context(self) -> ssl.SSLContext:
        """The context for connections to nodes. Without an authority, those that the system trusts are believed.
        LonghallError if a file cannot be used.
        """
        context = client_context(self.ca or None, self.certificate or None, self.key or None, "TLS")
        context.check_hostname = self.checks_host
        return context


def tls_of_environment(environment: Mapping[str, str] = os.environ) -> ClientTls:
    """The files that the environment names."""
    ca, certificate, key = (environment.get(name, "") for name in _VARIABLES)
    return ClientTls(ca, certificate, key)


def http_connection(
    host: str, port: int, context: ssl.SSLContext | None, timeout_s: float | None = None
) -> http.client.HTTPConnection:
    """A connection to the HTTP API of a node, which opens with its first request."""
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
