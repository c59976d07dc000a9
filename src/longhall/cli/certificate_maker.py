"""A test authority: certificates for nodes and clients, for trying out TLS and for tests.

    DIR/ca.crt, ca.key            the authority; one that exists is used again
    DIR/server.crt, server.key    for doors and for connections between nodes, with the names and addresses given
    DIR/NAME.crt, NAME.key        for a client: CN=NAME

Keys are on the curve P-256 and in files of mode 600. A test authority is no replacement for a real one: its key lies
unencrypted beside the certificates.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY: Final = "ca"
SERVER: Final = "server"
ORGANIZATION: Final = "Longhall test authority"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")

_BACKDATED: Final = timedelta(minutes=5)  # Clocks of other machines may be behind.


class IssuedCertificate(NamedTuple):
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_authority(directory: Path, days: int) -> IssuedCertificate:
    """The authority of a directory; a new one if there is none. ValueError if its files are unusable."""
    certificate, key = directory / f"{AUTHORITY}.crt", directory / f"{AUTHORITY}.key"
    if certificate.exists() and key.exists():
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key} was not made by this command")
        return IssuedCertificate(x509.load_pem_x509_certificate(certificate.read_bytes()), loaded)
    own = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)])
    builder = (
        _builder(subject, own, days)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    made = IssuedCertificate(builder.sign(own, hashes.SHA256()), own)
    write_identity(directory, AUTHORITY, made)
    return made


def make_server(authority: IssuedCertificate, names: Sequence[str], days: int) -> IssuedCertificate:
    """A certificate for a node, which is a client of other nodes too."""
    return _issue(
        authority,
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]),
        [_general_name(name) for name in names],
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        days,
    )


def make_client(authority: IssuedCertificate, name: str, days: int) -> IssuedCertificate:
    """A certificate for a client, with its name as common name."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return _issue(authority, subject, [], [ExtendedKeyUsageOID.CLIENT_AUTH], days)


def write_identity(directory: Path, name: str, identity: IssuedCertificate) -> None:
    """Write NAME.crt and NAME.key, each replaced as a whole."""
    key = identity.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(directory / f"{name}.key", key, 0o600)
    _write(directory / f"{name}.crt", identity.certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _issue(
    authority: IssuedCertificate,
    subject: x509.Name,
    names: Sequence[x509.GeneralName],
    purposes: Sequence[x509.ObjectIdentifier],
    days: int,
) -> IssuedCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, key, days)
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return IssuedCertificate(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, data: bytes, mode: int) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    os.replace(fresh, path)
