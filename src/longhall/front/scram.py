"""SCRAM (RFC 5802, RFC 7677): the keys of a password, and the server's side of an exchange.

    client  n,,n=USER,r=NONCE                 the user, with `=2C` and `=3D` for comma and equals sign
    server  r=NONCE+OURS,s=SALT,i=ITERATIONS
    client  c=biws,r=NONCE+OURS,p=PROOF       the proof that the client knows the password
    server  v=SIGNATURE                       the proof that the server knows the keys

An unknown user gets a salt that looks like any other and fails at the proof, so an exchange does not reveal which
users exist. While two passwords of a user are valid, both have the same salt: the proof decides between them. Passwords
are used as their UTF-8 bytes, as Kafka's clients do. Channel binding is not supported. This module does no I/O.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Final, final

from longhall.directory.accounts import ScramKey

ITERATIONS: Final = 4_096
SALT_BYTES: Final = 16
MESSAGE_BYTES_MAX: Final = 4_096
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_FIRST: Final = re.compile(r"([ny]|p=[^,]*),(a=[^,]*)?,(m=[^,]*,)?n=([^,]*),r=([\x21-\x2b\x2d-\x7e]+)(,.*)?", re.DOTALL)
_FINAL: Final = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[^p][^,]*)*),p=([A-Za-z0-9+/=]+)")
_ESCAPE: Final = re.compile(r"=(2C|3D)?")

KeysOf = Callable[[str], Sequence[ScramKey]]


class ScramFailure(Exception):
    """The exchange has failed: the message is malformed, or the proof is wrong."""


def derive_key(mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramKey:
    """The keys that a server stores of a password."""
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return key_of_salted(mechanism, salted, salt, iterations)


def key_of_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramKey:
    """The same from a salted password, as administrators of Kafka send it."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramKey(mechanism, salt, iterations, stored_key, hmac.digest(salted, b"Server Key", name))


def key_of_password(keys: Sequence[ScramKey], password: str) -> ScramKey | None:
    """The first of some keys that was derived from this password. Takes the time of `iterations` for each salt."""
    derived: dict[tuple[str, bytes, int], bytes] = {}
    for key in keys:
        salted = (key.mechanism, key.salt, key.iterations)
        if salted not in derived:
            derived[salted] = derive_key(key.mechanism, password, key.salt, key.iterations).stored_key
        if hmac.compare_digest(derived[salted], key.stored_key):
            return key
    return None


@final
class ScramExchange:
    """One exchange: `first` and `final` each take a message of the client and return the answer."""

    def __init__(self, mechanism: str, nonce: str, keys_of: KeysOf) -> None:
        """`keys_of` returns the valid keys of a user, the newest first, and made-up keys for an unknown user."""
        self.mechanism = mechanism
        self.user = ""
        self.initial = ""  # The first message without its header: a part of what is signed.
        self._nonce = nonce
        self._keys_of = keys_of
        self._keys: list[ScramKey] = []
        self._header = ""
        self._reply = ""

    def first(self, message: bytes) -> bytes:
        """The answer to the first message."""
        found = _FIRST.fullmatch(_text(message))
        if found is None:
            raise ScramFailure("the first message is malformed")
        binding, authorised, mandatory, name, nonce, _ = found.groups()
        if binding.startswith("p=") or mandatory is not None:
            raise ScramFailure("channel binding and mandatory extensions are not supported")
        self.user = _unescape(name)
        if authorised is not None and _unescape(authorised[2:]) not in ("", self.user):
            raise ScramFailure("a client acts for itself only")
        self._header = f"{binding},{authorised or ''},"
        self.initial = message.decode()[len(self._header) :]
        keys = self._keys_of(self.user)
        newest = keys[0]
        self._keys = [key for key in keys if (key.salt, key.iterations) == (newest.salt, newest.iterations)]
        self._nonce = nonce + self._nonce
        self._reply = f"r={self._nonce},s={b64encode(newest.salt).decode()},i={newest.iterations}"
        return self._reply.encode()

    def final(self, message: bytes) -> bytes:
        """The answer to the last message. ScramFailure if the proof is wrong."""
        found = _FINAL.fullmatch(_text(message))
        if found is None:
            raise ScramFailure("the last message is malformed")
        without_proof, binding, nonce, proof_text = found.groups()
        binding_expected = b64encode(self._header.encode()).decode()
        if binding != binding_expected or not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise ScramFailure("the last message does not belong to this exchange")
        try:
            proof = b64decode(proof_text, validate=True)
        except binascii.Error:
            raise ScramFailure("the proof is malformed") from None
        signed = f"{self.initial},{self._reply},{without_proof}".encode()
        matched = [key for key in self._keys if self._proves(key, signed, proof)]  # All of them, in equal time.
        if not matched:
            raise ScramFailure("the proof is wrong")
        signature = hmac.digest(matched[0].server_key, signed, HASHES[self.mechanism])
        return b"v=" + b64encode(signature)

    def _proves(self, key: ScramKey, signed: bytes, proof: bytes) -> bool:
        name = HASHES[self.mechanism]
        signature = hmac.digest(key.stored_key, signed, name)
        if len(proof) != len(signature):
            return False
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(name, client_key).digest(), key.stored_key)


def made_up_key(mechanism: str, user: str, secret: bytes) -> ScramKey:
    """The key of a user that does not exist: nobody has its password, and its salt is always the same."""
    name = HASHES[mechanism]
    salt = hmac.digest(secret, f"salt {mechanism} {user}".encode(), "sha256")[:SALT_BYTES]
    stored = hmac.digest(secret, f"key {mechanism} {user}".encode(), name)
    return ScramKey(mechanism, salt, ITERATIONS, stored, stored)


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramFailure("the message is too long")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramFailure("the message is not UTF-8") from None


def _unescape(name: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found[1] is None:
            raise ScramFailure("the name of the user is malformed")
        return "," if found[1] == "2C" else "="

    return _ESCAPE.sub(replaced, name)
