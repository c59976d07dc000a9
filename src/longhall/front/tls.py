"""The TLS of a node: contexts made from files of certificates and keys, and made again when the files have changed.

TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers only; no compression, no renegotiation. A connection
takes the context that is current when it begins, so new certificates are used without a stop and old connections stay
as they are. If the files cannot be used after a change, the contexts before it stay in force.

A file with a private key must not be accessible to other users. Several certificates: the one that is named by a client
(SNI) is used, exactly or by a wildcard, and the first one if there is none of that name.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, final

from longhall.errors import LonghallError
from longhall.world.tls_files import CIPHERS, client_context, load_authority, load_pair, load_revoked, refused

if TYPE_CHECKING:
    from cryptography import x509  # Imported where it is used: nodes and commands without TLS do not need it.

ClientAuthentication = Literal["none", "optional", "required"]

CERTIFICATES_MAX: Final = 256  # In the directory of further certificates.
EXPIRY_WARNING_S: Final = 14 * 24 * 60 * 60

_VERIFY: Final[Mapping[str, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_log = logging.getLogger("longhall.tls")


handshake_alert: ContextVar[list[bytes]] = ContextVar("handshake_alert")


@final
class _ListeningObject(ssl.SSLObject):
    """One side of a connection. A failed handshake leaves its alert in `handshake_alert` of its task: the event loop
    closes the connection without it, and the client would not learn why.
    """

    outgoing: ssl.MemoryBIO
    alert: list[bytes] | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.alert is not None:
                self.alert.append(self.outgoing.read())
            raise


@final
class _ListeningContext(ssl.SSLContext):
    """A context whose connections know their task."""

    sslobject_class = _ListeningObject

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _ListeningObject)
        made.outgoing = outgoing
        made.alert = handshake_alert.get(None)
        return made


class TlsFiles(NamedTuple):
    """The files of one identity, and whom it believes."""

    certificate: str  # PEM: the certificate and the ones between it and its authority.
    key: str  # PEM, readable by nobody else.
    authority: str | None = None  # PEM: who issues the certificates of the other side.
    directory: str | None = None  # Further certificates, NAME.crt with NAME.key.
    version_min: str = "1.2"
    revoked: str | None = None  # PEM: the lists of revoked certificates of the authority (CRL).
    setting: str = "tls"  # For messages: the group of settings that names the files.


@final
class TlsContexts:
    """The current contexts of one identity, for listening and for connecting."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises LonghallError with one line that says what to do."""
        self._files = files
        self._stamp = self._look()
        self._listening: dict[tuple[ClientAuthentication, tuple[str, ...]], ssl.SSLContext] = {}
        self._connecting: ssl.SSLContext | None = None
        self.expires_s = 0.0  # When the first of its certificates expires.
        self._check()

    def listening(self, client: ClientAuthentication = "none", protocols: Sequence[str] = ()) -> ssl.SSLContext:
        """The context for connections that come in. `protocols` are those of ALPN."""
        wanted = (client, tuple(protocols))
        found = self._listening.get(wanted)
        if found is None:
            found = self._listening[wanted] = _listening_context(self._files, *wanted)
        return found

    def connecting(self) -> ssl.SSLContext:
        """The context for connections that go out, with this identity as the client's."""
        if self._connecting is None:
            files = self._files
            self._connecting = client_context(files.authority, files.certificate, files.key, files.setting)
        return self._connecting

    def reload(self) -> None:
        """Read the files again. If they cannot be used, the contexts stay as they are."""
        self._stamp = self._look()
        kept, connecting = dict(self._listening), self._connecting
        try:
            self._check()
            self._listening = {wanted: _listening_context(self._files, *wanted) for wanted in kept}
            self._connecting = None
            if connecting is not None:
                self.connecting()
        except (LonghallError, OSError, ValueError) as error:  # A file may change again meanwhile.
            self._listening, self._connecting = kept, connecting
            told = {"reason": str(error)}
            _log.error("the certificates could not be read again; the old ones stay in force", extra=told)
        else:
            _log.info("the certificates were read again", extra={"certificate": self._files.certificate})

    def reload_if_changed(self) -> None:
        """Read the files again if one of them has changed."""
        if self._look() != self._stamp:
            self.reload()

    def _check(self) -> None:
        _listening_context(self._files, "none" if self._files.revoked is None else "optional", ())
        self.expires_s = min(expiry_s(pair[0], self._files.setting) for pair in _pairs(self._files))

    def warn_of_expiry(self, now_s: float) -> None:
        """Log a warning if a certificate expires soon or has expired."""
        left_s = self.expires_s - now_s
        if left_s < EXPIRY_WARNING_S:
            what = "a certificate has expired" if left_s < 0 else "a certificate expires soon"
            days = int(left_s // 86_400)
            _log.warning(f"{what}: replace its file", extra={"file": self._files.certificate, "days_left": days})

    def _look(self) -> tuple[object, ...]:
        files = self._files
        paths = [files.certificate, files.key, *(path for path in (files.authority, files.revoked) if path)]
        if files.directory:
            paths += [files.directory, *(path for pair in _in_directory(files.directory) for path in pair)]
        return tuple(_stamp(path) for path in paths)


def _listening_context(files: TlsFiles, client: ClientAuthentication, protocols: tuple[str, ...]) -> ssl.SSLContext:
    pairs = _pairs(files)
    contexts = [_one_listening(files, pair, client, protocols) for pair in pairs]
    first = contexts[0]
    if len(contexts) > 1:
        by_name: dict[str, ssl.SSLContext] = {}
        for (certificate, _), context in zip(pairs, contexts, strict=True):
            for name in server_names(certificate, files.setting):
                by_name.setdefault(name, context)

        def choose(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
            if name is not None:
                connection.context = find_by_name(by_name, name) or context

        first.sni_callback = choose
    return first


def find_by_name(by_name: Mapping[str, ssl.SSLContext], name: str) -> ssl.SSLContext | None:
    """The context whose certificate has this name, exactly or by a wildcard for its first label."""
    name = name.lower().rstrip(".")
    return by_name.get(name) or by_name.get("*." + name.partition(".")[2])


def _one_listening(
    files: TlsFiles, pair: tuple[str, str], client: ClientAuthentication, protocols: tuple[str, ...]
) -> ssl.SSLContext:
    context = _ListeningContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[files.version_min]
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    load_pair(context, *pair, files.setting)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if client != "none":
        if files.authority is None:
            raise refused(files.setting, f"client_authentication is {client}: name the authority of the clients'"
                           " certificates with tls.client_ca")  # fmt: skip
        load_authority(context, files.authority, files.setting)
        if files.revoked is not None:
            load_revoked(context, files.revoked, files.setting)
    context.verify_mode = _VERIFY[client]
    return context


def _pairs(files: TlsFiles) -> list[tuple[str, str]]:
    """All certificates with their keys, the default one first."""
    pairs = [(files.certificate, files.key)]
    if files.directory:
        further = _in_directory(files.directory)
        if not os.path.isdir(files.directory):
            raise refused(files.setting, f"{files.directory} is no directory")
        if len(further) > CERTIFICATES_MAX:
            raise refused(files.setting, f"{files.directory} has more than {CERTIFICATES_MAX} certificates")
        pairs += further
    return pairs


def _in_directory(directory: str) -> list[tuple[str, str]]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".crt"))
    except OSError:
        return []
    return [(os.path.join(directory, name), os.path.join(directory, name[:-4] + ".key")) for name in names]


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def server_names(path: str, setting: str) -> list[str]:
    """The names that a server's certificate is for, in lower case."""
    from cryptography import x509

    certificate = _read(path, setting)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(one.value).lower() for one in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    return [name.lower() for name in names.get_values_for_type(x509.DNSName)]


def expiry_s(path: str, setting: str) -> float:
    """When a certificate expires, in seconds since 1970."""
    return _read(path, setting).not_valid_after_utc.timestamp()


def _read(path: str, setting: str) -> x509.Certificate:
    from cryptography import x509

    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read())
    except (OSError, ValueError) as error:
        raise refused(setting, f"{path} is no certificate in PEM ({error})") from None
