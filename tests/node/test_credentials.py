"""The file of credentials: who may read it, what is wrong with it, and that a bad one later does no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longhall.errors import Code, LonghallError
from longhall.node.credentials import FILE_BYTES_MAX, load_credentials, reload_credentials

FILE = "[alice]\naws_access_key_id = A\naws_secret_access_key = one\n"


def written(directory: Path, data: str | bytes = FILE, mode: int = 0o600) -> str:
    file = directory / "credentials"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    file.chmod(mode)
    return str(file)


def refusal(path: str) -> str:
    with pytest.raises(LonghallError) as caught:
        load_credentials(path)
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_file_that_is_kept_to_oneself(tmp_path: Path, mode: int) -> None:
    assert load_credentials(written(tmp_path, mode=mode)).secret("A") == "one"


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
    held = load_credentials(path)
    written(tmp_path, FILE.replace("one", "two"))
    reload_credentials(path, held)
    assert held.secret("A") == "two"
    written(tmp_path, "nonsense")
    reload_credentials(path, held)
    assert held.secret("A") == "two"
    assert "the old ones hold" in caplog.text
    assert "two" not in caplog.text
