"""Settings of queues as options: every one of them, in the words that people use."""

from __future__ import annotations

import msgspec
import pytest

from longhall.cli.exits import CommandError, Exit
from longhall.cli.queue_settings import OPTIONS, nest_settings, parse_settings_options, show_settings, unset_settings
from longhall.console.api.settings import shown_settings, understood_settings
from longhall.queues.settings import DeadLetters, DeliveryHours, QueueSettings, RetryPolicy
from tests.cli.conftest import Run


def paths() -> set[str]:
    found: set[str] = set()
    within: dict[str, type[msgspec.Struct]] = {"dead_letters": DeadLetters, "retry": RetryPolicy}
    for name in shown_settings(QueueSettings()):
        shape = within.get(name)
        found |= {name} if shape is None else {f"{name}.{field}" for field in shape.__struct_fields__}
    return found


def test_every_setting_is_an_option() -> None:
    assert {option.path for option in OPTIONS} == paths()
    assert len({option.flag for option in OPTIONS}) == len(OPTIONS)


def test_help_lists_them_all(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("create", "alter", "fork"):
        ended = run("queue", command, "--help")
        assert ended.code == 0
        for option in OPTIONS:
            assert option.flag in ended.out


def test_words_become_settings() -> None:
    said = {
        "lease_ms": "90s",
        "message_bytes_max": "1 MiB",
        "fifo": True,
        "fair": True,
        "dead_letters.queue": "dead",
        "dead_letters.attempts_max": "3",
        "retry.factor": "1.5",
        "hours": "22:00-06:30",
        "tags": ["team=blue", "cost=a=b"],
    }
    settings = understood_settings(nest_settings(parse_settings_options(said)))
    assert settings == QueueSettings(
        lease_ms=90_000,
        message_bytes_max=1 << 20,
        fifo=True,
        fair=False,  # The flag is --no-fair.
        dead_letters=DeadLetters(queue="dead", attempts_max=3),
        retry=RetryPolicy(factor=1.5),
        hours=DeliveryHours(from_minute=22 * 60, to_minute=6 * 60 + 30),
        tags={"team": "blue", "cost": "a=b"},
    )
    words = show_settings(shown_settings(settings))
    assert (words["lease"], words["hours"], words["attempts"]) == ("90 s", "22:00-06:30", "3")


def test_given_settings_are_merged_with_the_current_ones() -> None:
    current = shown_settings(QueueSettings(dead_letters=DeadLetters(queue="dead"), tags={"a": "1"}))
    changed = nest_settings(parse_settings_options({"dead_letters.attempts_max": "3", "tags": ["b=2"]}), current)
    assert understood_settings(changed) == QueueSettings(
        dead_letters=DeadLetters(queue="dead", attempts_max=3), tags={"a": "1", "b": "2"}
    )
    assert unset_settings(["dead-letters", "--retry-first", "lease"]) == {
        "dead_letters": None,
        "retry": None,
        "lease_ms": None,
    }
    assert unset_settings(["fair", "--no-fair", "one_by_one"]) == {"fair": None, "one_by_one": None}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"lease_ms": "soon"}, "--lease"),
        ({"lease_ms": "forever"}, "unlimited"),
        ({"bytes_max": "much"}, "--bytes"),
        ({"messages_max": "many"}, "not a number"),
        ({"when_full": "burst"}, "drop-oldest"),
        ({"hours": "at night"}, "22:00"),
        ({"hours": "25:00-26:00"}, "22:00"),
        ({"tags": ["blue"]}, "NAME=VALUE"),
    ],
)
def test_a_wrong_value_names_its_option(said: dict[str, object], expected: str) -> None:
    with pytest.raises(CommandError, match=expected) as caught:
        parse_settings_options(said)
    assert caught.value.exit_code is Exit.USAGE


def test_attempts_need_a_dead_letter_queue() -> None:
    with pytest.raises(CommandError, match="--dead-letters"):
        nest_settings(parse_settings_options({"dead_letters.attempts_max": "3"}), {"dead_letters": None})
