"""The stored form of a secret that an administrator gives or asks for. No room below sees the secret in clear."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final, final

from longhall.directory.accounts import MECHANISMS, ScramKey
from longhall.errors import Code, LonghallError
from longhall.front.authenticator import PASSWORD_CHARACTERS_MAX, TOKEN_PREFIX, Authenticator, digest_of
from longhall.front.scram import ITERATIONS, SALT_BYTES, derive_key
from longhall.world.ports import Entropy

PASSWORD_CHARACTERS_MIN: Final = 8
TOKEN_BYTES: Final = 32
_KEY_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # As in AWS's ids.


@final
class AccountSecrets:
    """Derives, seals, hashes and generates secrets."""

    def __init__(self, authenticator: Authenticator, entropy: Entropy) -> None:
        self._authenticator = authenticator
        self._entropy = entropy

    def new_password(self) -> str:
        """A random password."""
        return urlsafe_b64encode(self._entropy.bytes(18)).decode()

    def new_token(self) -> tuple[str, str]:
        """A random token, and what is stored of it."""
        token = TOKEN_PREFIX + urlsafe_b64encode(self._entropy.bytes(TOKEN_BYTES)).decode().rstrip("=")
        return token, digest_of(token)

    def new_access_key(self) -> tuple[str, str]:
        """A random access key and its secret."""
        letters = "".join(_KEY_LETTERS[byte & 31] for byte in self._entropy.bytes(16))
        return f"LHAK{letters}", b64encode(self._entropy.bytes(30)).decode()

    def scram_keys(self, password: str, user: str = "") -> list[ScramKey]:
        """The keys of a new password. With those of a known user they share the salt, so that both passwords can be
        valid for a time.
        """
        check_password_form(password)
        known = self._authenticator.directory.accounts.users.get(user)
        return [self._derive(mechanism, password, known.scram if known is not None else ()) for mechanism in MECHANISMS]

    def _derive(self, mechanism: str, password: str, known: Sequence[ScramKey]) -> ScramKey:
        last = [key for key in known if key.mechanism == mechanism][-1:]
        salt = last[0].salt if last else self._entropy.bytes(SALT_BYTES)
        return derive_key(mechanism, password, salt, last[0].iterations if last else ITERATIONS)

    def seal(self, access_key: str, secret: str) -> bytes:
        """The secret of an access key, sealed."""
        return self._authenticator.master_key.seal(secret.encode(), access_key)


def check_password_form(password: str) -> None:
    """Raises INVALID_REQUEST for a password that is too short, too long, or no text."""
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX or "\0" in password:
        raise LonghallError(
            Code.INVALID_REQUEST,
            f"a password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters, and no NUL",
        )
    if password.startswith(TOKEN_PREFIX):
        raise LonghallError(Code.INVALID_REQUEST, f"a password does not begin with {TOKEN_PREFIX}: tokens do")
