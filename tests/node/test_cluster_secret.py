"""The files with which a node shows who it is: who may read them, what is wrong with them, when they are read again."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from longhall.cluster.rpc.authentication import NO_SECRET
from longhall.errors import Code, LonghallError
from longhall.node import cluster_secret
from longhall.node.cluster_secret import SecretFile, coordinator_of
from longhall.node.files import make_private
from longhall.node.settings import Settings

OLD, NEW = "o" * 64, "n" * 64


def written(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(LonghallError) as caught:
        SecretFile(path)
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_a_file_there_is_no_secret() -> None:
    file = SecretFile(None)
    file.reload()
    assert file.secrets.accepted == (NO_SECRET,)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_secret_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "secret", OLD, mode)
    assert refusal(path) == f"cluster_secret: {path} can be read or changed by others: chmod 600 {path}"


def test_a_file_without_a_secret_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(str(tmp_path / "absent"))
    assert "longhall cluster secret make" in refusal(written(tmp_path / "secret", "guess\n"))


def test_the_first_secret_is_offered_and_all_are_accepted(tmp_path: Path) -> None:
    file = SecretFile(written(tmp_path / "secret", f"{NEW}\n{OLD}\n"))
    assert file.secrets.offered == NEW.encode()
    assert file.secrets.accepted == (NEW.encode(), OLD.encode())


async def test_a_file_that_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_secret, "LOOK_S", 0.001)
    path = tmp_path / "secret"
    file = SecretFile(written(path, OLD))
    watching = asyncio.ensure_future(file.watch())
    os.replace(written(tmp_path / "next", f"{NEW}\n{OLD}\n"), path)
    for _ in range(10_000):
        await asyncio.sleep(0.001)
        if file.secrets.offered == NEW.encode():
            break
    watching.cancel()
    assert file.secrets.accepted == (NEW.encode(), OLD.encode())


def test_a_bad_file_later_leaves_the_secrets_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "secret"
    file = SecretFile(written(path, OLD))
    for text, mode in (("guess", 0o600), (NEW, 0o644)):
        written(path, text, mode)
        file.reload()
        assert file.secrets.accepted == (OLD.encode(),)
    path.unlink()
    file.reload()
    assert file.secrets.accepted == (OLD.encode(),)
    assert caplog.messages == ["the cluster secret could not be read again; the old one holds"] * 3
    assert OLD not in caplog.text


def test_a_node_that_lets_in_others_without_a_secret_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    SecretFile(written(tmp_path / "secret", f"none\n{OLD}\n"))
    assert caplog.messages == ["the cluster secret file has `none`: nodes without a secret are let in"]


def test_what_zookeeper_is_shown(tmp_path: Path) -> None:
    url = "zk://zoo1:2181/hall"
    assert coordinator_of(Settings(coordinator=url)).password == ""
    path = written(tmp_path / "auth", "digest:alice:wonder:land\n")
    address = coordinator_of(Settings(coordinator=url, coordinator_auth=path))
    assert (address.user, address.password, address.hosts, address.root) == (
        "alice",
        "wonder:land",
        "zoo1:2181",
        "/hall",
    )


@pytest.mark.parametrize(
    ("text", "mode"),
    [("digest:alice:wonderland", 0o644), ("alice:wonderland", 0o600), ("sasl:alice:wonderland", 0o600), ("", 0o600)],
)
def test_what_cannot_be_shown_to_zookeeper_is_refused_and_not_repeated(tmp_path: Path, text: str, mode: int) -> None:
    path = written(tmp_path / "auth", text, mode)
    with pytest.raises(LonghallError) as refused:
        coordinator_of(Settings(coordinator="zk://zoo1:2181", coordinator_auth=path))
    assert str(refused.value).startswith(f"coordinator_auth: {path}")
    assert "wonderland" not in str(refused.value)


def test_files_are_made_private(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("closed", 0o400)):
        written(tmp_path / name, "", mode)
    make_private(str(tmp_path), ["open", "closed", "absent"])
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("open", "closed")] == [0o600, 0o400]
