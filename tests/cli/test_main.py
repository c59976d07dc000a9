"""The command line as a whole: quick, documented, and one line when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from longhall.cli.exits import Exit, explain
from longhall.errors import Code, LonghallError
from longhall.node.settings import Settings
from longhall.node.sources import every_setting, load
from tests.cli.conftest import Run


def test_version_as_table_and_json(run: Run) -> None:
    assert "longhall" in run("version").out
    assert set(json.loads(run("version", "-o", "json").out)) == {"longhall", "python", "hot_rooms"}


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv=['longhall','version']\nimport longhall.cli.main\n" + (
        "print([m for m in ('asyncio','msgspec','rich','uvloop','pydantic','cramjam') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_every_setting_is_listed(run: Run) -> None:
    listed = run("settings")
    assert listed.code == 0
    rows = json.loads(run("settings", "-o", "json").out)
    assert [row["name"] for row in rows] == [setting.name for setting in every_setting() if not setting.hidden]
    for row in rows:
        assert row["name"] in listed.out


def test_the_printed_settings_file_loads_as_the_defaults(run: Run, tmp_path: Path) -> None:
    text = run("settings", "--toml").out
    assert tomllib.loads(text) == {"cleaner": {}}
    spoken = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    file = tmp_path / "all.toml"
    file.write_text(spoken)
    assert load(str(file)).settings == Settings()


def test_settings_show_the_values_of_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("shards = 3\n")
    rows = {row["name"]: row for row in json.loads(run("settings", "--settings", str(file), "-o", "json").out)}
    assert rows["shards"]["value"] == 3
    assert rows["shards"]["default"] == 8


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("serve", "--kafka", "10.0.0.1:9092"), "--insecure"),
        (("serve", "--set", "shards"), "NAME=VALUE"),
        (("serve", "--set", "shrads=3"), "did you mean shards?"),
        (("serve", "--set", "retention-ms=soon"), "2 weeks"),
        (("serve", "--settings", "/nowhere/longhall.toml"), "No such file"),
        (("serve", "--log-level", "loud"), "debug | info"),
        (("serve", "--workers", "0"), "workers"),
        (("serve", "--workers", "65"), "workers"),
        (("serve", "--workers", "2", "--coordinator", "zk://127.0.0.1:1"), "--workers"),
        (("serve", "--workers", "2", "--kafka", "127.0.0.1:65535"), "ports"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line(run: Run, words: tuple[str, ...], expected: str) -> None:
    ended = run(*words)
    assert ended.code == Exit.USAGE
    assert ended.out == ""
    assert ended.err.startswith("longhall: ")
    assert ended.err.count("\n") == 1
    assert expected in ended.err


def test_an_unknown_command_or_option_is_a_usage_error(run: Run) -> None:
    assert run("sevre").code == Exit.USAGE
    assert run("serve", "--bogus").code == Exit.USAGE


def test_every_error_code_has_a_message_and_an_exit_code() -> None:
    for code in Code:
        ending = explain(LonghallError(code))
        assert str(ending)
        assert ending.exit_code in (Exit.REFUSED, Exit.TIMED_OUT)
    assert explain(LonghallError(Code.TIMED_OUT)).exit_code is Exit.TIMED_OUT
