"""The master key, under which secrets that must be recoverable are sealed: those of access keys.

    sealed = version (1), id of the key (8), nonce (12), AES-256-GCM of the secret with its tag

The associated data names what the secret belongs to, so a sealed secret cannot be moved to another user. The key is a
file of 64 hexadecimal digits that only its owner can read. It is read when it is first needed. Without a setting a
standalone node makes it in its data directory; a cluster needs a file that is the same on every node, because each of
them checks signatures. Nobody can use access keys while the file is missing; passwords and tokens do not need it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Final, final

from longhall.errors import Code, LonghallError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FILE: Final = "master.key"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
ID_BYTES: Final = 8
VERSION: Final = 1

_KEY: Final = re.compile(r"\s*([0-9a-fA-F]{64})\s*")


@final
class MasterKey:
    """The key in a file, read once."""

    def __init__(self, path: str, *, makes: bool) -> None:
        """`makes`: the file is made if it is missing. An empty path stands for none."""
        self._path = path
        self._makes = makes
        self._cipher: AESGCM | None = None
        self._id = b""

    def seal(self, secret: bytes, owner: str) -> bytes:
        """The secret, sealed. LonghallError if there is no key."""
        cipher = self._open()
        nonce = os.urandom(NONCE_BYTES)
        head = bytes([VERSION]) + self._id + nonce
        return head + cipher.encrypt(nonce, secret, owner.encode())

    def unseal(self, sealed: bytes, owner: str) -> bytes:
        """The secret. LonghallError if there is no key, or it was sealed under another key or for another owner."""
        from cryptography.exceptions import InvalidTag

        cipher = self._open()
        start = 1 + ID_BYTES + NONCE_BYTES
        if len(sealed) < start or sealed[0] != VERSION:
            raise _refused("a sealed secret has a form that this version does not know")
        if sealed[1 : 1 + ID_BYTES] != self._id:
            raise _refused(
                f"a secret was sealed under another master key than {self._path}: every node needs the same file"
            )
        try:
            return cipher.decrypt(sealed[1 + ID_BYTES : start], sealed[start:], owner.encode())
        except InvalidTag:
            raise _refused("a sealed secret was changed, or belongs to another access key") from None

    def _open(self) -> AESGCM:
        if self._cipher is None:
            # Imported late: most nodes seal nothing, and the library takes tens of milliseconds.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            key = self._read()
            self._id = hashlib.sha256(b"longhall master key " + key).digest()[:ID_BYTES]
            self._cipher = AESGCM(key)
        return self._cipher

    def _read(self) -> bytes:
        if not self._path:
            raise _refused(
                "access keys need a master key, the same on every node: make one with `longhall user master-key "
                "FILE`, copy it to every node, and name it with --master-key FILE"
            )
        try:
            return read_master_key(self._path)
        except FileNotFoundError:
            if not self._makes:
                raise _refused(f"master_key: {self._path} is missing") from None
        make_master_key(self._path)
        return read_master_key(self._path)


def read_master_key(path: str) -> bytes:
    """The key of a file. FileNotFoundError, or LonghallError if the file cannot be used."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise _refused(f"master_key: {path} can be read or changed by others: chmod 600 {path}")
            text = file.read(4 * KEY_BYTES).decode("ascii", errors="replace")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refused(f"master_key: {path}: {error.strerror or error}") from None
    found = _KEY.fullmatch(text)
    if found is None:
        raise _refused(f"master_key: {path} must have {2 * KEY_BYTES} hexadecimal digits and nothing else")
    return bytes.fromhex(found[1])


def make_master_key(path: str) -> None:
    """Make a key that only its owner can read, durable before anything is sealed under it. A file that another process
    has made meanwhile stays.
    """
    beside = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        try:
            os.write(descriptor, os.urandom(KEY_BYTES).hex().encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(beside, path)  # Fails if there is one: no process ever sees half a key, or two keys.
        except FileExistsError:
            pass
        finally:
            os.unlink(beside)
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise _refused(f"master_key: {path}: {error.strerror or error}") from None


def _refused(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, what)
