"""Files of TLS: certificates, keys and authorities in PEM, loaded into contexts; and the context of a client.

A file with a private key must not be accessible to other users. Every error is one line that says what to do. Nothing
here listens or connects.
"""

from __future__ import annotations

import os
import ssl
import stat
from typing import Final

from longhall.errors import Code, LonghallError

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!eNULL"  # Of TLS 1.2; those of 1.3 are all of this kind.

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def client_context(
    authority: str | None, certificate: str | None = None, key: str | None = None, setting: str = "tls"
) -> ssl.SSLContext:
    """A context for connections to others, whose certificates `authority` must have issued (None: one that the system
    trusts). Certificate and key are those of this side. Raises LonghallError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    if authority is None:
        context.load_default_certs()
    else:
        load_authority(context, authority, setting)
    if certificate is not None:
        load_pair(context, certificate, key or certificate, setting)
    return context


def load_authority(context: ssl.SSLContext, path: str, setting: str) -> None:
    """Believe the authorities of a file."""
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise refused(setting, f"{path} has no certificates in PEM") from None
    except OSError as error:
        raise refused(setting, f"{path}: {error.strerror or error}") from None


def load_revoked(context: ssl.SSLContext, path: str, setting: str) -> None:
    """Refuse the certificates that the lists of a file have revoked, and all of an authority whose list is missing, or
    is out of date: it may have revoked others since.
    """
    before = context.cert_store_stats()["crl"]
    load_authority(context, path, setting)
    if context.cert_store_stats()["crl"] == before:
        raise refused(setting, f"{path} has no list of revoked certificates in PEM")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def load_pair(context: ssl.SSLContext, certificate: str, key: str, setting: str) -> None:
    """Load a certificate with its private key."""
    try:
        if os.stat(key).st_mode & _OTHERS:
            raise refused(setting, f"the private key {key} can be read or changed by others: chmod 600 {key}")
        os.stat(certificate)
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise refused(setting, f"{key} is not the private key of the certificate {certificate}") from None
        if _is_encrypted(key):
            decrypt = f"openssl pkey -in {key} -out FILE, and chmod 600 FILE"
            raise refused(
                setting, f"the private key {key} is encrypted, and a node has no password: {decrypt}"
            ) from None
        raise refused(
            setting, f"{certificate} and {key} have to be a certificate and its private key, in PEM and not encrypted"
        ) from None
    except OSError as error:
        raise refused(setting, f"{error.filename or certificate}: {error.strerror or error}") from None


def _no_password() -> str:
    """Without this, OpenSSL would ask at the terminal for the password of an encrypted key."""
    return ""


def _is_encrypted(key: str) -> bool:
    with open(key, "rb") as file:
        head = file.read(4096)
    return b"ENCRYPTED" in head


def refused(setting: str, what: str) -> LonghallError:
    """The error for a setting whose file cannot be used."""
    return LonghallError(Code.INVALID_CONFIGURATION, f"{setting}: {what}")
