"""Precedence of addresses and profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhall.cli.exits import CommandError, Exit
from longhall.cli.profiles import DEFAULT_ADDRESS, DEFAULT_HTTP, HttpTarget, find_address, find_http


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "longhall").mkdir()
    (tmp_path / "longhall" / "config.toml").write_text(text)


def test_precedence_of_flags_environment_and_profiles(tmp_path: Path, environment: dict[str, str]) -> None:
    assert find_address(None, None, environment) == DEFAULT_ADDRESS
    write(
        tmp_path,
        'default = "a"\n[profiles.a]\naddress = "a:1"\n[profiles.b]\naddress = "b:1"\n[profiles.c]\naddress = "c:1"\n',
    )
    assert find_address(None, None, environment) == "a:1"
    environment["LONGHALL_PROFILE"] = "b"
    assert find_address(None, None, environment) == "b:1"
    environment["LONGHALL_ADDRESS"] = "d:1"
    assert find_address(None, None, environment) == "d:1"
    assert find_address(None, "c", environment) == "c:1"
    assert find_address("e:1", "c", environment) == "e:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no profile 'x'"),
        ('[profiles.y]\naddress = "y:1"\n', "there is y"),
        ("[profiles.x]\n", "needs an address"),
        ('[profiles.x]\naddress = "x:1"\nadress = "y:1"\n', "profiles.x.adress"),
        ("profiles = [", "config.toml"),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, environment: dict[str, str], text: str, expected: str) -> None:
    write(tmp_path, text)
    with pytest.raises(CommandError, match=expected) as caught:
        find_address(None, "x", environment)
    assert caught.value.exit_code is Exit.USAGE


def test_the_http_address_has_the_same_precedence(tmp_path: Path, environment: dict[str, str]) -> None:
    assert find_http(None, None, environment) == HttpTarget(DEFAULT_HTTP)
    write(
        tmp_path,
        'default = "a"\n[profiles.a]\naddress = "a:1"\nhttp = "a:2"\naccess_key = "A"\nsecret = "s"\n'
        '[profiles.b]\naddress = "b:1"\n',
    )
    assert find_http(None, None, environment) == HttpTarget("a:2", "A", "s")
    assert find_http("c:2", "a", environment) == HttpTarget("c:2", "A", "s")
    assert find_http("c:2", None, environment) == HttpTarget("c:2")  # The secrets of a profile go to no other address.
    with pytest.raises(CommandError, match="needs http"):
        find_http(None, "b", environment)
    environment["LONGHALL_HTTP_ADDRESS"] = "d:2"
    assert find_http(None, None, environment) == HttpTarget("d:2")
    environment["LONGHALL_ACCESS_KEY"], environment["LONGHALL_SECRET"] = "B", "t"
    assert find_http("c:2", None, environment) == HttpTarget("c:2", "B", "t")
