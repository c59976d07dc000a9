"""The client's side of SASL: a user proves its password by SCRAM, or shows a token by PLAIN.

The password does not leave this process; a token does, because only its hash is stored on the other side.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
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
TOKEN_PREFIX: Final = "lht_"  # Of tokens, as nodes make them.


class Login(NamedTuple):
    """A user and its password or token."""

    user: str
    password: str


async def log_in(connection: Connection, login: Login) -> None:
    """Authenticate a new connection. Refused if the login is wrong."""
    mechanism = PLAIN if login.password.startswith(TOKEN_PREFIX) else SHA_256
    answer = await connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    check(answer.error_code)
    if mechanism == PLAIN:
        await _step(connection, f"\0{login.user}\0{login.password}".encode())
        return
    nonce = secrets.token_hex(18)
    bare = f"n={login.user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = (await _step(connection, f"n,,{bare}".encode())).decode()
    fields = dict(part.split("=", 1) for part in first.split(",") if "=" in part)
    if not fields.get("r", "").startswith(nonce) or not fields.get("i", "").isdigit():
        raise LonghallError(Code.INVALID_REQUEST, f"{connection.name} does not speak SCRAM")
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{bare},{first},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", login.password.encode(), b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = await _step(connection, f"{without_proof},p={b64encode(proof).decode()}".encode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
    if not hmac.compare_digest(last, b"v=" + b64encode(expected)):
        raise LonghallError(Code.INVALID_REQUEST, f"{connection.name} does not know the password of the user")


async def _step(connection: Connection, token: bytes) -> bytes:
    answer = await connection.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
    check(answer.error_code, answer.error_message)
    return answer.auth_bytes
