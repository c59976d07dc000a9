"""JSON Web Tokens (RFC 7519) in their compact form, as access tokens of an identity provider (RFC 9068).

    HEADER "." CLAIMS "." SIGNATURE      each base64url without padding; the signature covers the two before it

A token is valid if one of the provider's keys signed it and its claims say: this issuer (`iss`), this audience (`aud`),
not ended (`exp`, required), begun (`nbf`), and a user in the chosen claim. Nothing of a token is believed before its
signature is verified, but for the header, which only chooses the key.

This module asks nobody for keys: an unknown key is the provider's matter (`identity_provider`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from longhall.front.oidc.web_keys import ALGORITHMS, WebKeySet, decode_base64url, is_signed

TOKEN_CHARACTERS_MAX: Final = 16 * 1024
USER_CHARACTERS_MAX: Final = 255
SKEW_MS: Final = 60_000  # By how much the clocks of the provider and of this node may differ.
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")


class Expected(NamedTuple):
    """What the claims of a token must say."""

    issuer: str
    audience: str
    user_claim: str


class VerifiedToken(NamedTuple):
    """The user that a valid token names, when it ends, and the log-in that it belongs to, if it is an ID token."""

    user: str
    until_ms: int
    nonce: str = ""


class TokenHead(NamedTuple):
    """What the header of a token says of its signature."""

    algorithm: str
    key_id: str


class InvalidToken(Exception):
    """A token that is not accepted. The reason is for the log alone, not for clients."""


def is_web_token(text: str) -> bool:
    """True if this has the form of a JSON Web Token: three parts, of which the first is a JSON object."""
    return text.startswith("eyJ") and text.count(".") == 2


def read_head(token: str) -> TokenHead:
    """The header of a token. InvalidToken if it is malformed, or asks for something that is not supported."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise InvalidToken("the token is too long")
    if not is_web_token(token):
        raise InvalidToken("this is not a JSON Web Token")
    header = _decode(token.split(".")[0], "header")
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if algorithm not in ALGORITHMS:
        raise InvalidToken("the algorithm is not accepted")
    if "crit" in header:
        raise InvalidToken("the header has critical extensions")
    if str(header.get("typ", "jwt")).lower() not in _TYPES:
        raise InvalidToken("the token is of another type")
    if not isinstance(key_id, str):
        raise InvalidToken("the key id is not a string")
    return TokenHead(algorithm, key_id)


def verify(token: str, head: TokenHead, keys: WebKeySet, expected: Expected, now_ms: int) -> VerifiedToken:
    """The user of a token that is valid now; InvalidToken otherwise."""
    signed, _, signature_text = token.rpartition(".")
    try:
        signature = decode_base64url(signature_text)
    except ValueError:
        raise InvalidToken("the signature is malformed") from None
    candidates = keys.candidates(head.key_id, head.algorithm)
    if not any(is_signed(key, head.algorithm, signature, signed.encode()) for key in candidates):
        raise InvalidToken("the signature is wrong")
    return _checked(_decode(signed.split(".")[1], "claims"), expected, now_ms)


def _checked(claims: Mapping[str, Any], expected: Expected, now_ms: int) -> VerifiedToken:
    if claims.get("iss") != expected.issuer:
        raise InvalidToken("the token is of another issuer")
    audience = claims.get("aud")
    if expected.audience not in (audience if isinstance(audience, list) else [audience]):
        raise InvalidToken("the token is for another audience")
    until_ms = _time_ms(claims, "exp")
    if until_ms is None:
        raise InvalidToken("the token has no end")
    if now_ms >= until_ms + SKEW_MS:
        raise InvalidToken("the token has ended")
    begins_ms = _time_ms(claims, "nbf")
    if begins_ms is not None and now_ms < begins_ms - SKEW_MS:
        raise InvalidToken("the token is not valid yet")
    user = claims.get(expected.user_claim)
    if not isinstance(user, str) or not 0 < len(user) <= USER_CHARACTERS_MAX:
        raise InvalidToken(f"the claim '{expected.user_claim}' names no user")
    nonce = claims.get("nonce", "")
    return VerifiedToken(user, until_ms, nonce if isinstance(nonce, str) else "")


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise InvalidToken(f"the claim '{name}' is not a time")
    return int(value * 1000)


def _decode(part: str, name: str) -> Mapping[str, Any]:
    try:
        decoded = json.loads(decode_base64url(part))
    except (ValueError, RecursionError):
        raise InvalidToken(f"the {name} is malformed") from None
    if not isinstance(decoded, dict):
        raise InvalidToken(f"the {name} is not an object")
    return decoded
