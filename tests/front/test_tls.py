"""Contexts from files: what is refused, which certificate a client gets, and what a changed file does."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from longhall.errors import LonghallError
from longhall.front.tls import TlsContexts, TlsFiles
from longhall.world.tls_files import client_context
from tests.front.certificates import TestAuthority


def handshake(listening: ssl.SSLContext, connecting: ssl.SSLContext, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both sides of a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = connecting.wrap_bio(to_client, to_server, server_hostname=name)
    server = listening.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
        if len(done) == 2:
            return client, server
    raise AssertionError("the handshake does not end")


def names(client: ssl.SSLObject) -> set[str]:
    certificate = client.getpeercert()
    assert certificate is not None
    return {str(pair[1]) for pair in certificate["subjectAltName"]}


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "tls")


def files(authority: TestAuthority, **more: str) -> TlsFiles:
    return TlsFiles(authority.path("server.crt"), authority.path("server.key"), authority.path("ca.crt"), **more)


def test_a_handshake_has_modern_parameters(authority: TestAuthority) -> None:
    client, _ = handshake(TlsContexts(files(authority)).listening(), authority.client_context(), "localhost")
    assert client.version() == "TLSv1.3"
    older = authority.client_context()
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    client, _ = handshake(TlsContexts(files(authority)).listening(), older, "localhost")
    cipher = client.cipher()
    assert cipher is not None
    assert "ECDHE" in cipher[0]
    assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]


def test_tls_1_3_can_be_demanded(authority: TestAuthority) -> None:
    older = authority.client_context()
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(TlsContexts(files(authority, version_min="1.3")).listening(), older, "localhost")


def test_the_certificate_of_the_name_is_shown_and_the_first_one_for_others(authority: TestAuthority) -> None:
    further = TestAuthority(authority.directory / "unused").directory.parent / "further"
    further.mkdir()
    for name, hosts in (("kafka", ["kafka.example.org"]), ("wild", ["*.queue.example.org"])):
        authority.issue_server(name, hosts)
        for ending in ("crt", "key"):
            os.rename(authority.path(f"{name}.{ending}"), further / f"{name}.{ending}")
    listening = TlsContexts(files(authority, directory=str(further))).listening()
    connecting = authority.client_context()
    assert names(handshake(listening, connecting, "kafka.example.org")[0]) == {"kafka.example.org"}
    assert names(handshake(listening, connecting, "a.queue.example.org")[0]) == {"*.queue.example.org"}
    connecting.check_hostname = False
    assert "localhost" in names(handshake(listening, connecting, "other.example.org")[0])


def test_a_client_has_to_show_a_certificate_of_the_authority_where_that_is_required(authority: TestAuthority) -> None:
    contexts = TlsContexts(files(authority))
    _, server = handshake(contexts.listening("required"), authority.client_context("alice"), "localhost")
    assert server.getpeercert(binary_form=True)
    with pytest.raises(ssl.SSLError):
        handshake(contexts.listening("required"), authority.client_context(), "localhost")
    stranger = TestAuthority(authority.directory / "stranger").issue_client("alice")
    unknown = client_context(authority.path("ca.crt"), *stranger)
    for asked in ("required", "optional"):
        with pytest.raises(ssl.SSLError):
            handshake(contexts.listening(asked), unknown, "localhost")
    _, server = handshake(contexts.listening("optional"), authority.client_context(), "localhost")
    assert not server.getpeercert(binary_form=True)


def test_a_revoked_certificate_is_refused_and_lists_are_read_again(authority: TestAuthority) -> None:
    alice, bob = authority.client_context("alice"), authority.client_context("bob")
    contexts = TlsContexts(files(authority, revoked=authority.revoke()))
    for client in (alice, bob, authority.client_context()):
        handshake(contexts.listening("optional"), client, "localhost")
    authority.revoke("bob")
    contexts.reload_if_changed()
    handshake(contexts.listening("optional"), alice, "localhost")
    with pytest.raises(ssl.SSLError, match="certificate revoked"):
        handshake(contexts.listening("optional"), bob, "localhost")
    authority.revoke(valid_days=-1)
    contexts.reload_if_changed()
    with pytest.raises(ssl.SSLError, match="CRL has expired"):
        handshake(contexts.listening("optional"), alice, "localhost")
    with pytest.raises(LonghallError, match="no list of revoked certificates"):
        TlsContexts(files(authority, revoked=authority.path("ca.crt")))


def test_changed_files_are_used_and_broken_ones_are_not(authority: TestAuthority) -> None:
    contexts = TlsContexts(files(authority))
    connecting = authority.client_context()
    connecting.check_hostname = False
    assert "localhost" in names(handshake(contexts.listening(), connecting, "x")[0])
    contexts.reload_if_changed()
    before = contexts.listening()
    assert contexts.listening() is before
    authority.issue_server(names=["new.example.org"])
    contexts.reload_if_changed()
    assert names(handshake(contexts.listening(), connecting, "x")[0]) == {"new.example.org"}
    Path(authority.path("server.crt")).write_text("broken")
    contexts.reload_if_changed()
    assert names(handshake(contexts.listening(), connecting, "x")[0]) == {"new.example.org"}


def test_a_key_that_others_can_read_is_refused(authority: TestAuthority) -> None:
    os.chmod(authority.path("server.key"), 0o640)
    with pytest.raises(LonghallError, match="chmod 600"):
        TlsContexts(files(authority))


def test_an_encrypted_key_is_refused_with_the_command_that_decrypts_it(authority: TestAuthority) -> None:
    with open(authority.path("server.key"), "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        encrypted = key.private_bytes(
            serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"password")
        )
        with open(authority.path("server.key"), "wb") as file:
            file.write(encrypted)
        with pytest.raises(LonghallError, match="is encrypted, and a node has no password: openssl pkey"):
            TlsContexts(files(authority))


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        ("missing.crt", "server.key", "missing.crt: No such file"),
        ("server.crt", "missing.key", "missing.key: No such file"),
        ("server.crt", "ca.key", "is not the private key of the certificate"),
        ("server.key", "server.key", "have to be a certificate and its private key"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_a_reason(
    authority: TestAuthority, certificate: str, key: str, says: str
) -> None:
    with pytest.raises(LonghallError, match=says):
        TlsContexts(TlsFiles(authority.path(certificate), authority.path(key)))


def test_client_authentication_needs_an_authority(authority: TestAuthority) -> None:
    contexts = TlsContexts(files(authority)._replace(authority=None))
    with pytest.raises(LonghallError, match="client_ca"):
        contexts.listening("optional")
    with pytest.raises(LonghallError, match="no certificates in PEM"):
        TlsContexts(files(authority)._replace(authority=authority.path("ca.key"))).listening("optional")
