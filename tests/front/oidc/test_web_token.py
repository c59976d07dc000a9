"""Tokens of an identity provider: which are accepted, and that everything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.front.oidc.web_keys import ALGORITHMS, WebKeySet, read_key_set
from longhall.front.oidc.web_token import SKEW_MS, Expected, InvalidToken, VerifiedToken, read_head, verify
from tests.front.oidc.issuer import AUDIENCE, ISSUER, SigningKey, claims, text

NOW_S = 1_700_000_000
EXPECTED = Expected(ISSUER, AUDIENCE, "sub")
KEY = SigningKey("ES256")
KEYS = read_key_set({"keys": [KEY.public()]})


def check(
    token: str, keys: WebKeySet = KEYS, now_ms: int = NOW_S * 1000, expected: Expected = EXPECTED
) -> VerifiedToken:
    return verify(token, read_head(token), keys, expected, now_ms)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_algorithm_verifies_its_own_signature_and_no_other(algorithm: str) -> None:
    key, other = SigningKey(algorithm), SigningKey(algorithm)
    keys = read_key_set({"keys": [key.public()]})
    assert check(key.token(claims(NOW_S)), keys) == VerifiedToken("alice", (NOW_S + 600) * 1000)
    with pytest.raises(InvalidToken, match="signature"):
        check(other.token(claims(NOW_S)), keys)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://other.example.org"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "another"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": ["another", "third"]}, "audience"),
        ({"exp": None}, "no end"),
        ({"exp": NOW_S - 61}, "has ended"),
        ({"exp": "tomorrow"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"nbf": NOW_S + 61}, "not valid yet"),
        ({"sub": None}, "names no user"),
        ({"sub": ""}, "names no user"),
        ({"sub": 7}, "names no user"),
        ({"sub": "x" * 256}, "names no user"),
    ],
)
def test_claims_that_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        check(KEY.token(claims(NOW_S, **changed)))


def test_claims_that_are_accepted() -> None:
    assert check(KEY.token(claims(NOW_S, aud=["another", AUDIENCE]))).user == "alice"
    late_ms = (NOW_S + 600) * 1000 + SKEW_MS - 1
    assert check(KEY.token(claims(NOW_S)), now_ms=late_ms).user == "alice"
    named = KEY.token(claims(NOW_S, preferred_username="bob"))
    assert check(named, expected=Expected(ISSUER, AUDIENCE, "preferred_username")).user == "bob"


def test_an_unsigned_token_and_one_signed_with_a_public_key_are_refused() -> None:
    for header in ({"alg": "none"}, {"alg": "HS256"}, {"alg": "RS256x"}, {}):
        parts = [text(json.dumps({**header, "typ": "JWT"}).encode()), text(json.dumps(claims(NOW_S)).encode())]
        with pytest.raises(InvalidToken, match="algorithm"):
            read_head(".".join([*parts, text(b"")]))


def test_a_key_verifies_only_with_its_own_algorithm() -> None:
    key = SigningKey("RS256")
    restricted = read_key_set({"keys": [key.public(alg="RS512")]})
    with pytest.raises(InvalidToken):
        check(key.token(claims(NOW_S)), restricted)
    assert not read_key_set({"keys": [KEY.public()]}).candidates("one", "ES384")


def test_key_sets_that_are_refused() -> None:
    weak = SigningKey("RS256", bits=1024)
    refused: list[Any] = [[], [weak.public()], [KEY.public(use="enc")], ["x"], None]
    for keys in refused:
        with pytest.raises(ValueError, match="key set"):
            read_key_set({"keys": keys})
    with pytest.raises(ValueError, match="at most 64"):
        read_key_set({"keys": [KEY.public()] * 65})


def test_headers_that_are_refused() -> None:
    for header in ({"crit": ["exp"]}, {"typ": "logout+jwt"}, {"kid": 5}):
        with pytest.raises(InvalidToken):
            read_head(KEY.token(claims(NOW_S), **header))
    with pytest.raises(InvalidToken, match="too long"):
        read_head("eyJ" + "x" * 17_000 + "..")


@given(st.integers(0, 1 << 20), st.integers(0, 255))
def test_a_changed_token_is_refused(at: int, byte: int) -> None:
    token = KEY.token(claims(NOW_S)).encode()
    at %= len(token)
    changed = token[:at] + bytes([byte]) + token[at + 1 :]
    if changed == token:
        return
    try:
        found = check(changed.decode("latin-1"))
    except InvalidToken:
        return
    # The last character of base64 has bits that mean nothing; the content is the same.
    assert (found, at) == (VerifiedToken("alice", (NOW_S + 600) * 1000), len(token) - 1)
