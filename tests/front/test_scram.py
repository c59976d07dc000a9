"""SCRAM against the examples of its standards, and against what a client must not get away with."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.directory.accounts import MECHANISMS, SHA_256, SHA_512, ScramKey
from longhall.front.scram import (
    ScramExchange,
    ScramFailure,
    derive_key,
    key_of_password,
    key_of_salted,
    made_up_key,
)

# RFC 7677, section 3.
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(*keys: ScramKey, mechanism: str = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, NONCE, lambda user: keys)


def test_the_example_of_rfc_7677() -> None:
    scram = exchange(derive_key(SHA_256, "pencil", SALT))
    assert scram.first(FIRST) == SERVER_FIRST
    assert scram.user == "user"
    assert scram.final(FINAL) == SERVER_FINAL


def test_a_changed_proof_nonce_or_binding_fails() -> None:
    for wrong in (
        FINAL.replace(b"p=dHz", b"p=eHz"),
        FINAL.replace(b"r=rOp", b"r=sOp"),
        FINAL.replace(b"c=biws", b"c=eSws"),
        FINAL[:-8] + b"====",
        FINAL + b"A",
        b"",
        b"\xff",
        FINAL * 100,
    ):
        scram = exchange(derive_key(SHA_256, "pencil", SALT))
        scram.first(FIRST)
        with pytest.raises(ScramFailure):
            scram.final(wrong)


@pytest.mark.parametrize(
    "first",
    [b"", b"n,,", b"n,,n=user", b"p=tls-unique,,n=user,r=abc", b"n,,m=x,n=user,r=abc", b"n,a=other,n=user,r=abc",
     b"n,,n=a=4,r=abc", b"n,,n=user,r=a b", b"\xff,,n=user,r=abc", b"n,,n=user,r=" + b"x" * 5000],
)  # fmt: skip
def test_a_malformed_first_message_fails(first: bytes) -> None:
    with pytest.raises(ScramFailure):
        exchange(derive_key(SHA_256, "pencil", SALT)).first(first)


def test_names_are_unescaped() -> None:
    scram = exchange(derive_key(SHA_256, "pencil", SALT))
    scram.first(b"n,,n=CN=3Da=2CO=3Db,r=abc")
    assert scram.user == "CN=a,O=b"


def test_while_two_passwords_are_valid_both_prove_it() -> None:
    new, old = derive_key(SHA_256, "brush", SALT), derive_key(SHA_256, "pencil", SALT)
    scram = exchange(new, old)
    scram.first(FIRST)
    assert scram.final(FINAL) == SERVER_FINAL
    alone = exchange(new)
    alone.first(FIRST)
    with pytest.raises(ScramFailure):
        alone.final(FINAL)


def test_an_unknown_user_gets_a_salt_as_any_other_and_fails_at_the_proof() -> None:
    key = made_up_key(SHA_512, "nobody", b"secret")
    assert key == made_up_key(SHA_512, "nobody", b"secret") != made_up_key(SHA_512, "somebody", b"secret")
    scram = exchange(key, mechanism=SHA_512)
    first = scram.first(FIRST)
    assert b",s=" + b64encode(key.salt) + b",i=4096" in first
    with pytest.raises(ScramFailure):
        scram.final(FINAL.replace(FINAL[-44:], b64encode(bytes(64))))


@given(st.text(max_size=20), st.binary(min_size=8, max_size=32), st.sampled_from(MECHANISMS))
def test_a_key_knows_its_password_and_no_other(password: str, salt: bytes, mechanism: str) -> None:
    key = derive_key(mechanism, password, salt, 2)
    assert key_of_password([key], password) is key
    assert key_of_password([key], password + "x") is None
    assert password.encode() not in key.stored_key + key.server_key or len(password) < 3


def test_a_salted_password_makes_the_same_key() -> None:
    import hashlib

    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", SALT, 4096)
    assert key_of_salted(SHA_512, salted, SALT, 4096) == derive_key(SHA_512, "pencil", SALT)
