"""Fuzz target: whatever bytes a client sends in the place of a TLS handshake, the node answers an alert or nothing.

The first byte is the size of the pieces in which the rest comes. The node has the context that doors listen with, for
clients with a certificate; no input completes the handshake, and no byte of the certificate's key is in an answer.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from longhall.front.tls import TlsContexts, TlsFiles
from tests.front.certificates import TestAuthority

ALERT = 0x15
HANDSHAKE = 0x16


def _hello(context: ssl.SSLContext, name: str | None = None) -> bytes:
    """What a client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def _contexts() -> tuple[ssl.SSLContext, bytes]:
    with tempfile.TemporaryDirectory() as made:
        authority = TestAuthority(Path(made))
        files = TlsFiles(authority.path("server.crt"), authority.path("server.key"), authority.path("ca.crt"))
        key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        secret = key.private_numbers().private_value.to_bytes(key.key_size // 8, "big")
        return TlsContexts(files).listening("required", ("http/1.1",)), secret


def _client(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.maximum_version = version
    context.set_alpn_protocols(["http/1.1", "h2"])
    return context


LISTENING, SECRET = _contexts()
SEEDS = [
    b"\x3f" + _hello(_client(ssl.TLSVersion.TLSv1_3), "hall.example.org"),
    b"\x00" + _hello(_client(ssl.TLSVersion.TLSv1_2), "hall.example.org"),
    b"\x07\x16\x03\x01\x40\x00" + b"\x01\x00\x3f\xfc" + b"\0" * 64,
    b"\x01\x15\x03\x03\x00\x02\x02\x28",
    b"\x01\x17\x03\x03\x00\x05hello",
    b"\x01\x80\x2e\x01\x03\x01",
]


def TestOneInput(data: bytes) -> None:
    """The bytes arrive in pieces, and the handshake goes on after each."""
    if len(data) < 2:
        return
    size, body = data[0] % 64 + 1, data[1:]
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = LISTENING.wrap_bio(incoming, outgoing, server_side=True)
    answered = b""
    for at in range(0, len(body), size):
        incoming.write(body[at : at + size])
        try:
            server.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            break
        finally:
            answered += outgoing.read()
        raise AssertionError("nobody has shown a certificate")
    assert SECRET not in answered
    assert not answered or answered[0] in (ALERT, HANDSHAKE)
