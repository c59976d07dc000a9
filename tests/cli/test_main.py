"""The command line as a whole: quick, documented, and one line when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.cli.command_table import COMMANDS, load_command
from longhall.cli.exits import Exit, explain
from longhall.errors import Code, LonghallError
from longhall.node.settings import Settings
from longhall.node.sources import every_setting, load
from tests.cli.conftest import Run


def test_version_as_table_and_json(run: Run) -> None:
    assert "longhall" in run("version").out
    assert set(json.loads(run("version", "-o", "json").out)) == {"longhall", "python", "hot_rooms"}


HEAVY = ("asyncio", "msgspec", "rich", "uvloop", "pydantic", "cramjam", "http.client", "tomllib")


@pytest.mark.parametrize(
    ("words", "alone"),
    [
        (["--help"], ["longhall.cli.main", "longhall.cli.command_table", "longhall.cli.exits"]),
        (["--version"], None),
        (["topic", "--help"], None),
        (["group", "list", "--help"], None),
        (["serve", "--help"], None),
    ],
)
def test_help_imports_what_it_needs(words: list[str], alone: list[str] | None) -> None:
    """The time of a short command is that of its imports, so these are what is kept few."""
    code = (
        f"import sys; sys.argv = ['longhall', *{words!r}]\nfrom longhall.cli.main import main\n"
        f"try:\n main()\nexcept SystemExit:\n pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "print(sorted(name for name in sys.modules if name.startswith('longhall.cli.')))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, heavy, ours = said.stdout.splitlines()
    assert heavy == "[]"
    if alone is not None:
        assert ours == str(sorted(alone))


def test_the_list_of_commands_is_what_the_commands_say_of_themselves() -> None:
    for name, entry in COMMANDS.items():
        command = load_command(name)
        assert command.name == name
        assert (command.help or "").replace("\n", " ").startswith(entry.help.rstrip(".")), name


def test_the_help_uses_the_width_of_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "Create a queue. Durations and sizes may be words:"
    monkeypatch.setenv("COLUMNS", "100")
    assert any(line in each and "256 KiB" in each for each in run("queue", "create", "--help").out.splitlines())
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, run("queue", "list", "--help").out.splitlines())) <= 60


def test_a_misspelt_command_has_suggestions(run: Run) -> None:
    ended = run("queu", "list")
    assert (ended.code, "Did you mean 'queue'?" in ended.err) == (2, True)


def test_brackets_in_the_help_are_shown(run: Run) -> None:
    assert "longhall[spark]" in run("pipeline", "--help").out
    assert "[env: LONGHALL_ADDRESS]" in " ".join(run("topic", "list", "--help").out.split())


def test_the_version_as_an_option(run: Run) -> None:
    ended = run("--version")
    assert (ended.code, ended.out.split()[0]) == (0, "longhall")


def every_command(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below one, with their paths."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from every_command(below, (*path, name))
    else:
        yield path, command


ALL = [each for name in COMMANDS for each in every_command(load_command(name), (name,))]


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_commands_use_the_same_words(path: tuple[str, ...], command: Any) -> None:
    """One option for the address, one word for consent, and every option explains itself."""
    shown = {option: each for each in command.params if not each.hidden for option in each.opts}
    assert not {"--execute", "--apply", "--force", "--bootstrap", "--starting"} & set(shown), path
    if path[0] not in ("serve", "pipeline"):
        assert "--http" not in shown, path
    words = " ".join(each.help or "" for each in shown.values())
    assert "earliest" not in words
    assert "beginning" not in words
    assert [option for option, each in shown.items() if option.startswith("--") and not each.help] == []


def test_every_setting_is_listed(run: Run) -> None:
    listed = run("settings")
    assert listed.code == 0
    rows = json.loads(run("settings", "-o", "json").out)
    assert [row["name"] for row in rows] == [setting.name for setting in every_setting() if not setting.hidden]
    for row in rows:
        assert row["name"] in listed.out


def test_the_printed_settings_file_loads_as_the_defaults(run: Run, tmp_path: Path) -> None:
    text = run("settings", "--toml").out
    assert set(map(str, tomllib.loads(text).values())) == {"{}"}  # Sections, in which every line is a comment.
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


def test_the_help_states_the_defaults(run: Run) -> None:
    served = " ".join(run("serve", "--help").out.split())
    shown = {setting.name: setting.show(setting.default) for setting in every_setting()}
    for name in ("data", "kafka", "sqs", "http", "workers", "durability", "log_level", "log_format"):
        own = served.partition(f" --{name.replace('_', '-')} ")[2].partition(" --")[0]
        assert f"[default: ({shown[name]})]" in own, name
    created = " ".join(run("queue", "create", "--help").out.split())
    assert "[default: (30 s)]" in created.partition(" --lease ")[2].partition(" --")[0]
    assert "[default: (127.0.0.1:8080)]" in created
