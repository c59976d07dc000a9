"""The client's side of SASL: a user proves its password by SCRAM, or shows a token by PLAIN.

With SCRAM the password does not leave this process; a token does, because only its hash is stored on the other side. A
dialogue does no I/O: asynchronous and blocking connections carry out the same one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, NamedTuple

from longhall.client.refusals import check
from longhall.doors.kafka.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from longhall.errors import Code, LonghallError

if TYPE_CHECKING:
    from longhall.client.connection import Connection

PLAIN: Final = "PLAIN"
SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
MECHANISMS: Final = (PLAIN, SHA_256, SHA_512)
TOKEN_PREFIX: Final = "lht_"  # Of tokens, as nodes make them.

_HASHES: Final = {SHA_256: "sha256", SHA_512: "sha512"}

Dialogue = Generator[bytes, bytes, None]  # Yields what the client sends, and gets what the broker answers.


class Login(NamedTuple):
    """A user and its password or token. Without a mechanism, a token is shown and a password is proved."""

    user: str
    password: str
    mechanism: str = ""

    def __repr__(self) -> str:
        return f"Login(user={self.user!r}, mechanism={self.chosen_mechanism})"

    @property
    def chosen_mechanism(self) -> str:
        """The SASL mechanism to name."""
        if self.mechanism:
            return self.mechanism
        return PLAIN if self.password.startswith(TOKEN_PREFIX) else SHA_256

    def dialogue(self, broker: str) -> Dialogue:
        """The steps of the mechanism. LonghallError if the broker does not keep to it."""
        if self.chosen_mechanism == PLAIN:
            return _plain(self)
        return _scram(self, _HASHES[self.chosen_mechanism], broker)


async def log_in(connection: Connection, login: Login) -> None:
    """Authenticate a new connection. Refused if the login is wrong."""
    request = SaslHandshakeRequest(mechanism=login.chosen_mechanism)
    check((await connection.call(request, SaslHandshakeResponse)).error_code)
    steps = login.dialogue(connection.name)
    token: bytes | None = next(steps)
    while token is not None:
        answer = await connection.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        check(answer.error_code, answer.error_message)
        token = next_token(steps, answer.auth_bytes)


def next_token(steps: Dialogue, answer: bytes) -> bytes | None:
    """What the client sends after this answer; None if the dialogue is over."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def _plain(login: Login) -> Dialogue:
    yield f"\0{login.user}\0{login.password}".encode()


def _scram(login: Login, digest: str, broker: str) -> Dialogue:
    nonce = secrets.token_hex(18)
    bare = f"n={login.user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode()
    fields = dict(part.split("=", 1) for part in first.split(",") if "=" in part)
    if not fields.get("r", "").startswith(nonce) or not fields.get("i", "").isdigit():
        raise LonghallError(Code.INVALID_REQUEST, f"{broker} does not speak SCRAM")
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{bare},{first},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac(digest, login.password.encode(), b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = yield f"{without_proof},p={b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(last, b"v=" + b64encode(expected)):
        raise LonghallError(Code.INVALID_REQUEST, f"{broker} does not know the password of the user")
