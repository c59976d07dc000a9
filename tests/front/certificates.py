"""A test authority in a directory, as `longhall certificates make` makes it."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from longhall.cli.certificate_maker import (
    LOOPBACK_NAMES,
    IssuedCertificate,
    make_authority,
    make_client,
    make_server,
    write_identity,
)
from longhall.world.tls_files import client_context

DAYS = 30


class TestAuthority:
    """An authority and the certificates that it has issued. The server's certificate is there from the start."""

    __test__ = False

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._authority: IssuedCertificate = make_authority(directory, DAYS)
        self.issue_server()

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def issue_server(self, name: str = "server", names: Sequence[str] = LOOPBACK_NAMES) -> None:
        write_identity(self.directory, name, make_server(self._authority, names, DAYS))

    def issue_client(self, name: str) -> tuple[str, str]:
        """Files of the certificate and of its key."""
        write_identity(self.directory, name, make_client(self._authority, name, DAYS))
        return self.path(f"{name}.crt"), self.path(f"{name}.key")

    def revoke(self, *names: str, name: str = "revoked.crl", valid_days: int = 30) -> str:
        """A list of revoked certificates, by the names that they were issued under; the file of it."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._authority.certificate.subject)
        since = now - datetime.timedelta(days=40)
        builder = builder.last_update(since).next_update(now + datetime.timedelta(days=valid_days))
        for each in names:
            certificate = x509.load_pem_x509_certificate((self.directory / f"{each}.crt").read_bytes())
            revoked = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(since)
            builder = builder.add_revoked_certificate(revoked.build())
        signed = builder.sign(self._authority.key, hashes.SHA256())
        (self.directory / name).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return self.path(name)

    def client_context(self, name: str | None = None) -> ssl.SSLContext:
        files = self.issue_client(name) if name is not None else (None, None)
        return client_context(self.path("ca.crt"), *files)

    def options(self, **more: str) -> list[str]:
        """Options of `longhall serve` for TLS, and further settings of TLS."""
        settings = {"certificate": self.path("server.crt"), "key": self.path("server.key"), **more}
        return [word for name, value in settings.items() for word in ("--set", f"tls.{name}={value}")]
