"""Credentials: the file, the lookup by access key, and the HTTP Basic scheme."""

from __future__ import annotations

from base64 import b64encode

import pytest

from longhall.errors import Code, LonghallError
from longhall.front.credentials import CREDENTIALS_MAX, Credentials, read_credentials
from longhall.front.identity import principal_of_key
from tests.front.authentication import of_file

SECRET = "wJalrXUtnFEMI/K7MDENG"
FILE = f"[alice]\naws_access_key_id = AKIA1\naws_secret_access_key = {SECRET}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[a]\naws_access_key_id = x\n",
        "[a]\naws_access_key_id = x\naws_secret_acess_key = hidden\n",
        "[a]\naws_access_key_id = x y\naws_secret_access_key = hidden\n",
        "[a]\naws_access_key_id = x\naws_secret_access_key =\n",
        FILE + FILE.replace("alice", "bob"),
        FILE + FILE,
        FILE + "aws_secret_access_key = hidden\n",
    ],
)
def test_a_malformed_file_of_credentials_is_refused(text: str) -> None:
    with pytest.raises(LonghallError) as caught:
        read_credentials(text)
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert "hidden" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_of_credentials() -> None:
    text = "# who\n[alice]\naws_access_key_id=A\naws_secret_access_key=s%x=1\n\n[default]\n" + FILE.partition("\n")[2]
    assert read_credentials(text) == {"A": "s%x=1", "AKIA1": SECRET}


def test_the_number_of_credentials_is_bounded() -> None:
    text = "".join(f"[p{n}]\naws_access_key_id = A{n}\naws_secret_access_key = s\n" for n in range(CREDENTIALS_MAX + 1))
    with pytest.raises(LonghallError) as caught:
        read_credentials(text)
    assert str(CREDENTIALS_MAX) in str(caught.value)


def basic(text: str) -> bytes:
    return b"Basic " + b64encode(text.encode())


def test_the_basic_scheme() -> None:
    known = of_file({"AKIA1": SECRET, "bob": "with:colon and é"})
    assert known.of_header(basic(f"AKIA1:{SECRET}"), "") == principal_of_key("AKIA1")
    assert known.of_header(basic("bob:with:colon and é").replace(b"Basic", b" bAsIc "), "") == principal_of_key("bob")
    for wrong in (f"AKIA1:{SECRET}x", "AKIA1:", "AKIA1", f"AKIA2:{SECRET}", ":", "", "stranger:"):
        assert known.of_header(basic(wrong), wrong) is None, wrong
    for wrong_header in (
        None,
        b"",
        b"Basic",
        b"Basic ===",
        b"Basic \xff",
        b"Basic /w==",
        b"Bearer " + basic("a:b")[6:],
    ):
        assert known.of_header(wrong_header, "") is None, wrong_header


def test_replaced_credentials_apply_at_once() -> None:
    known = Credentials({"a": "1"})
    assert (known.secret("a"), known.secret("b"), len(known)) == ("1", None, 1)
    known.replace({"b": "2", "c": "3"})
    assert (known.secret("a"), known.secret("b"), len(known)) == (None, "2", 2)
