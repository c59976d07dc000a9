"""Addresses as people write them for a command: HOST:PORT, and what is wrong if no node answers there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longhall.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    import ssl

    from longhall.client.tls import ClientTls
    from longhall.node.addresses import Address

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
DEFAULT_HTTP: Final = "127.0.0.1:8080"
PROBE_S: Final = 1.0
# What doors answer to a request of HTTP begins with:
_PROTOCOLS: Final = {b"HTTP": "HTTP", b"AMQP": "AMQP", b"ERRO": "STOMP"}


def parse_kafka_address(text: str) -> Address:
    """The address of a Kafka door. Raises CommandError."""
    if "://" in text:
        raise CommandError(f"{text} is a URL; this command talks to the Kafka door: write HOST:PORT", Exit.USAGE)
    return _parse(text)


def parse_http_address(text: str) -> Address:
    """The address of the HTTP API, which may be written as a URL. Raises CommandError."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        return _parse(text)
    if scheme.lower() not in ("http", "https"):
        raise CommandError(
            f"{text}: a node has no {scheme}; write HOST:PORT, http://HOST:PORT or https://HOST:PORT", Exit.USAGE
        )
    place = rest.rstrip("/")
    if "/" in place:
        raise CommandError(f"{text} has a path; write HOST:PORT, http://HOST:PORT or https://HOST:PORT", Exit.USAGE)
    return _parse(place)


def wants_tls(address: str, given: ClientTls) -> bool:
    """True if a command uses TLS: the address says so, or says nothing and there is an authority."""
    scheme, separator, _ = address.strip().partition("://")
    return scheme.lower() == "https" if separator else given.is_on


def untrusted(address: Address, error: ssl.SSLError) -> CommandError:
    """The error of a command whose TLS handshake failed."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return CommandError(
            f"the certificate of {address} is not accepted ({error.verify_message}): name its authority with "
            "`longhall --ca FILE ...`",
            Exit.REFUSED,
        )
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return CommandError(
        f"no TLS with {address} ({reason}): if the node has none write http://, and if it asks for a certificate name "
        "yours with `longhall --certificate FILE --key FILE ...`",
        Exit.REFUSED,
    )


def _parse(text: str) -> Address:
    from longhall.node.addresses import parse_address

    try:
        return parse_address(text)
    except ValueError as failure:
        raise CommandError(str(failure), Exit.USAGE) from None


def unreachable(address: Address) -> CommandError:
    """The error of a command that could not connect, with the reason that can be found out."""
    import socket

    try:
        socket.getaddrinfo(address.host, address.port)
    except (OSError, UnicodeError):
        return CommandError(
            f"the host {address.host} is not known; check the spelling, or give its IP address with --address",
            Exit.UNREACHABLE,
        )
    return CommandError(
        f"no node answers at {address}; start one with `longhall serve`, or give its address with --address",
        Exit.UNREACHABLE,
    )


def protocol_at(address: Address) -> str:
    """The protocol of what answers there, if it is another than Kafka's; empty if nothing answers."""
    import socket

    try:
        with socket.create_connection(address, PROBE_S) as connection:
            connection.settimeout(PROBE_S)
            connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n\0")  # A frame of STOMP ends with a NUL.
            first = connection.recv(5)
    except OSError:
        return ""
    return _PROTOCOLS.get(first[:4], "another protocol") if first else ""
