"""The files of credentials and keys: who may read it, what is wrong with it, and that a bad one later does no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longhall.errors import Code, LonghallError
from longhall.node.credentials import Known
from longhall.node.files import FILE_BYTES_MAX

FILE = "[alice]\naws_access_key_id = A\naws_secret_access_key = one\n"


def written(directory: Path, data: str | bytes = FILE, mode: int = 0o600) -> str:
    file = directory / "credentials"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    file.chmod(mode)
    return str(file)


def secret(known: Known) -> str | None:
    assert known.credentials is not None
    return known.credentials.secret("A")


def refusal(path: str) -> str:
    with pytest.raises(LonghallError) as caught:
        Known(path, None)
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_file_that_is_kept_to_oneself(tmp_path: Path, mode: int) -> None:
    assert secret(Known(written(tmp_path, mode=mode), None)) == "one"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602, 0o666])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    assert "chmod 600" in refusal(written(tmp_path, mode=mode))


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "No such file" in refusal(str(tmp_path / "absent"))
    assert "directory" in refusal(str(tmp_path)).lower()
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "no file" in refusal(str(tmp_path / "pipe"))
    assert "UTF-8" in refusal(written(tmp_path, b"\xff\xfe"))
    assert "larger" in refusal(written(tmp_path, b"#" * (FILE_BYTES_MAX + 1)))
    assert "[alice]" in refusal(written(tmp_path, "[alice]\naws_access_key_id = A\n"))


def test_it_is_read_again_and_a_bad_one_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path)
    held = Known(path, None)
    written(tmp_path, FILE.replace("one", "two"))
    held.reload()
    assert secret(held) == "two"
    written(tmp_path, "nonsense")
    held.reload()
    assert secret(held) == "two"
    assert "the old ones stay in force" in caplog.text
    assert "two" not in caplog.text


KEYS = """
[providers.disk]
kind = "file"
path = "{path}"

[keys]
"alias/Mine" = {{ provider = "disk", id = "mine" }}
"""


def keys_file(directory: Path, text: str = KEYS) -> str:
    masters = directory / "masters"
    masters.write_text(f"mine = {'ab' * 32}\n")
    masters.chmod(0o600)
    return written(directory, text.format(path=masters))


def test_a_file_of_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held = Known(None, keys_file(tmp_path))
    assert held.credentials is None
    assert held.keys is not None
    assert "alias/Mine" in held.keys
    assert "alias/mine" not in held.keys
    keys_file(tmp_path, KEYS.replace("alias/Mine", "alias/other"))
    held.reload()
    assert "alias/other" in held.keys
    assert "alias/Mine" not in held.keys
    written(tmp_path, "nonsense")
    held.reload()
    assert "alias/other" in held.keys
    assert "the old ones stay in force" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[keys]\n",
        "[providers]\n[keys]\na = {{ provider = 'none' }}\n",
        "[providers.a]\nkind = 'oracle'\n[keys]\n",
        "[providers.a]\nkind = 'file'\npath = 'x'\ncolour = 'red'\n[keys]\n",
        "[providers.a]\nkind = 'file'\npath = '/nowhere/at/all'\n[keys]\n",
        "managed = 'a'\n[providers]\n[keys]\n",
        "[providers.a]\nkind = 'vault-transit'\nendpoint = 'ftp://x'\ntoken_file = 'x'\n[keys]\n",
    ],
)
def test_files_of_keys_that_are_not_understood(tmp_path: Path, text: str) -> None:
    with pytest.raises(LonghallError) as caught:
        Known(None, keys_file(tmp_path, text))
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert str(caught.value).startswith("keys: ")


def test_a_file_of_keys_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = keys_file(tmp_path)
    os.chmod(path, 0o644)
    with pytest.raises(LonghallError, match="chmod 600"):
        Known(None, path)
