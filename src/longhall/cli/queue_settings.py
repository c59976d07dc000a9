"""The settings of a queue as options of the command line.

One table has the option, the kind and the meaning of every setting. Commands get their parameters from it, and a test
fails for a setting that is not in the table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import Command, replace_parameter
from longhall.node.quantities import parse_duration_ms, parse_size_bytes, show_duration, show_size

Fields = dict[str, object]

_REFUSED: Final = re.compile(r"settings: (?P<what>.+) - at `\$\.(?P<path>[a-z_.]+)`")
_BOUND: Final = re.compile(r"Expected `int` (?P<side><=|>=) (?P<number>\d+)")

DURATION: Final = "DURATION"
SIZE: Final = "SIZE"
COUNT: Final = "COUNT"
FACTOR: Final = "FACTOR"
YES: Final = "yes"  # A flag that turns something on,
NO: Final = "no"  # or off; --unset turns it back.
HOURS: Final = "HOURS"
PAIRS: Final = "NAME=VALUE"
TEXT: Final = "QUEUE"


class Option(NamedTuple):
    """One option: the path of its setting, its flag, the kind of its value, and its help text."""

    path: str
    flag: str
    kind: str
    help: str

    @property
    def parameter(self) -> str:
        return "set_" + self.path.replace(".", "_")

    @property
    def word(self) -> str:
        """The name of the setting in tables."""
        return self.flag.removeprefix("--").removeprefix("no-" if self.kind == NO else "")


OPTIONS: Final = (
    Option("lease_ms", "--lease", DURATION, "How long a received message is hidden from others."),
    Option("delay_ms", "--delay", DURATION, "How long a sent message is hidden before it can be received."),
    Option("wait_ms", "--wait", DURATION, "How long a receiver waits for a message by default."),
    Option("retention_ms", "--retention", DURATION, "How long messages are kept."),
    Option("time_to_live_ms", "--time-to-live", DURATION, "How long a message may wait; 0: until retention ends."),
    Option("message_bytes_max", "--message-bytes", SIZE, "The largest message in one piece."),
    Option("whole_bytes_max", "--whole-bytes", SIZE, "The largest message in parts; 0: none."),
    Option("messages_max", "--messages", COUNT, "The most messages in the queue; 0: no bound."),
    Option("bytes_max", "--bytes", SIZE, "The most bytes in the queue; 0: no bound."),
    Option(
        "when_full",
        "--when-full",
        "wait|refuse|drop-oldest|dead-letter",
        "What happens when it is full: wait, refuse, drop-oldest or dead-letter.",
    ),
    Option("in_flight_max", "--in-flight", COUNT, "The most messages that may be leased at once."),
    Option("priorities", "--priorities", COUNT, "Priority levels; fixed at creation."),
    Option("fifo", "--fifo", YES, "Order within message groups; fixed at creation."),
    Option("fair", "--no-fair", NO, "Do not serve message groups in turn in a queue without fifo."),
    Option(
        "late_stamped",
        "--late-stamped",
        "arrival|head",
        "Where a stamped message goes that is older than one already delivered; fixed at creation.",
    ),
    Option("one_by_one", "--one-by-one", YES, "Deliver a message only when the one before is settled."),
    Option(
        "delivery",
        "--delivery",
        "at-most-once|at-least-once|exactly-once",
        "The delivery guarantee: at-most-once, at-least-once or exactly-once.",
    ),
    Option(
        "deduplication", "--deduplication", "off|id|content", "How repeated sends are recognised: off, id or content."
    ),
    Option(
        "deduplication_scope", "--deduplication-scope", "queue|group", "The scope of deduplication: queue or group."
    ),
    Option("deduplication_window_ms", "--deduplication-window", DURATION, "How long repeated sends are recognised."),
    Option(
        "repeated_sends", "--repeated-sends", "answer|refuse", "Answer a repeated send like the first, or refuse it."
    ),
    Option("filter", "--filter", "FILTER", "For a queue over a topic: only messages that match are in it."),
    Option("settled", "--settled", "free|keep", "Free settled messages soon, or keep them until retention ends."),
    Option(
        "profile",
        "--batching",
        "balanced|throughput|latency",
        "The batching of producers, node and consumers: balanced, throughput or latency.",
    ),
    Option(
        "acknowledge",
        "--acknowledge",
        "one|quorum|all",
        "In a cluster: acknowledge when one host, a quorum, or all in-sync replicas have the message.",
    ),
    Option(
        "placement",
        "--placement",
        "hall|any-host|parts|share|wing:NAME",
        "In a cluster: where the queue is stored, by one leader or by several; fixed at creation.",
    ),
    Option("sealed", "--sealed", "KEY", "The master key under which bodies are sealed; `managed`: that of the node."),
    Option(
        "seal_reuse_ms", "--seal-reuse", DURATION, "How long a data key is used before its provider is asked again."
    ),
    Option(
        "dead_letters.queue", "--dead-letters", TEXT, "The dead-letter queue, for messages that cannot be delivered."
    ),
    Option("dead_letters.attempts_max", "--attempts", COUNT, "Attempts before a message is dead-lettered."),
    Option(
        "dead_letters.on_delete",
        "--no-letters-on-delete",
        NO,
        "Do not dead-letter the messages of a queue that is deleted.",
    ),
    Option(
        "dead_letters.after_delete",
        "--letters-after-delete",
        YES,
        "Dead-letter what arrives for the queue after it is deleted.",
    ),
    Option("retry.first_ms", "--retry-first", DURATION, "The delay of the first retry."),
    Option("retry.factor", "--retry-factor", FACTOR, "The factor between the delays of two retries."),
    Option("retry.longest_ms", "--retry-longest", DURATION, "The longest delay of a retry."),
    Option(
        "retry.lapsed",
        "--retry-lapsed",
        YES,
        "An expired lease is a failure too: the message waits for its retry delay.",
    ),
    Option(
        "retry.sends",
        "--retry-sends",
        YES,
        "A retry queue: what is sent to it has failed elsewhere and comes back after the delay of its attempts.",
    ),
    Option(
        "hours",
        "--hours",
        HOURS,
        "Deliver only in these windows of the day, in UTC or in a time zone: 22:00-06:00,12:00-13:00 Europe/Berlin.",
    ),
    Option(
        "audit",
        "--audit",
        "off|deliveries",
        "Write deliveries, settles, returns and deaths to the audit topic: off or deliveries.",
    ),
    Option("partitions", "--partitions", COUNT, "The least partitions of the queue; fixed at creation."),
    Option("parts_max", "--parts-max", COUNT, "The most partitions of the queue; it grows to them by doubling."),
    Option("grow_at", "--grow-at", COUNT, "The queue grows when its partitions are filled to this percentage."),
    Option(
        "shrink_at",
        "--shrink-at",
        COUNT,
        "The queue shrinks when its partitions are filled to less than this percentage.",
    ),
    Option("shrink_after_ms", "--shrink-after", DURATION, "How long they must have been filled that little."),
    Option("tags", "--tag", PAIRS, "A tag; repeatable."),
)


def with_settings(command: Command) -> Command:
    """Give a command all the options; it gets those that were given as `settings`."""
    return _with_options(command, {})


def with_new_settings(command: Command) -> Command:
    """The same for a command that creates a queue, whose help states the defaults."""
    import msgspec

    from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy

    settings = QueueSettings(dead_letters=DeadLetters(queue=""), retry=RetryPolicy())
    words = show_settings(msgspec.to_builtins(settings))
    return _with_options(command, {name: text for name, text in words.items() if text not in ("-", "")})


def _with_options(command: Command, defaults: dict[str, str]) -> Command:
    options = [
        inspect.Parameter(
            option.parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if option.kind in (YES, NO) else None,
            annotation=_annotation(option, defaults.get(option.word)),
        )
        for option in OPTIONS
    ]
    return replace_parameter(command, "settings", options, _settings_of)


def _settings_of(values: dict[str, Any]) -> Fields:
    given = {option.path: values[option.parameter] for option in OPTIONS}
    return parse_settings_options({path: value for path, value in given.items() if value})


def _annotation(option: Option, default: str | None) -> object:
    metavar = "WORD" if "|" in option.kind else option.kind
    if option.kind in (YES, NO):
        return Annotated[bool, typer.Option(option.flag, help=option.help, rich_help_panel="Settings")]
    word = typer.Option(
        option.flag, metavar=metavar, help=option.help, rich_help_panel="Settings", show_default=default or True
    )
    return Annotated[list[str] | None, word] if option.kind == PAIRS else Annotated[str | None, word]


def parse_settings_options(said: dict[str, Any]) -> Fields:
    """The values of settings by path, parsed from their words. Raises CommandError for a wrong value."""
    options = {option.path: option for option in OPTIONS}
    return {path: _value(options[path], value) for path, value in said.items()}


def _value(option: Option, value: Any) -> object:
    try:
        if option.kind == DURATION:
            return _at_least_nothing(parse_duration_ms(value, unit_required=True))
        if option.kind == SIZE:
            return _at_least_nothing(parse_size_bytes(value, unit_required=True))
        if option.kind == COUNT:
            return _at_least_nothing(int(value))
        if option.kind == FACTOR:
            return float(value)
        if option.kind in (YES, NO):
            return option.kind == YES
        if option.kind == HOURS:
            return _read_hours(value)
        if option.kind == PAIRS:
            return dict(_pair(text) for text in value)
        if "|" in option.kind and value not in option.kind.split("|"):
            raise ValueError(f"choose one of {option.kind.replace('|', ', ')}")
    except ValueError as failure:
        words = f"{value!r} is not a number" if "invalid literal" in str(failure) else str(failure)
        raise CommandError(f"{option.flag}: {words}", Exit.USAGE) from None
    return value


def nest_settings(fields: Fields, current: Fields | None = None) -> Fields:
    """Settings as the API has them: `a.b` within `a`, merged with the current value, and tags with the other tags."""
    found: Fields = {}
    for path, value in fields.items():
        above, dot, name = path.partition(".")
        before = (current or {}).get(above)
        known = dict(before) if isinstance(before, dict) else {}
        if dot:
            within = found.setdefault(above, known)
            assert isinstance(within, dict)
            within[name] = value
        elif isinstance(value, dict) and above == "tags":
            found[above] = {**known, **value}
        else:
            found[above] = value
    letters = found.get("dead_letters")
    if isinstance(letters, dict) and "queue" not in letters:
        raise CommandError("--dead-letters is missing: it names the dead-letter queue", Exit.USAGE)
    return found


def unset_settings(names: list[str]) -> Fields:
    """Settings to reset to their defaults, by their own names or those of their options."""
    paths = {option.path.partition(".")[0] for option in OPTIONS}
    flags = {option.word: option.path.partition(".")[0] for option in OPTIONS}
    fields: Fields = {}
    for name in names:
        path = flags.get(name.removeprefix("--").removeprefix("no-"), name.replace("-", "_"))
        if path not in paths:
            raise CommandError(f"--unset {name}: there is {', '.join(sorted(flags))}", Exit.USAGE)
        fields[path] = None
    return fields


@contextmanager
def refused_by_option() -> Iterator[None]:
    """Say the refusal of a setting with the name of its option, which is what the user wrote."""
    try:
        yield
    except CommandError as error:
        found = _REFUSED.match(str(error))
        option = next((one for one in OPTIONS if found is not None and one.path == found["path"]), None)
        if found is None or option is None:
            raise
        what = found["what"]
        bound = _BOUND.fullmatch(what)
        if bound is not None:
            most = "at most" if bound["side"] == "<=" else "at least"
            what = f"it must be {most} {_words(option, int(bound['number']))}"
        raise CommandError(f"{option.flag}: {what}", error.exit_code) from None


def show_settings(settings: Fields) -> dict[str, str]:
    """All settings in words, by the names of their options."""
    facts: dict[str, str] = {}
    for option in OPTIONS:
        value: object = settings
        for part in option.path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        facts[option.word] = _words(option, value)
    return facts


def _words(option: Option, value: object) -> str:
    if value is None or value == {}:
        return "-"
    if option.kind == DURATION and isinstance(value, int):
        return show_duration(value)
    if option.kind == SIZE and isinstance(value, int):
        return show_size(value)
    if option.kind == HOURS and isinstance(value, dict):
        return _show_hours(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _at_least_nothing(amount: int) -> int:
    if amount < 0:
        raise ValueError("it cannot be unlimited; give an amount")
    return amount


def _read_hours(text: str) -> Fields:
    import msgspec

    from longhall.queues.hours import read_hours

    fields: Fields = msgspec.to_builtins(read_hours(text))
    return fields


def _show_hours(fields: Fields) -> str:
    import msgspec

    from longhall.queues.hours import write_hours
    from longhall.queues.settings import DeliveryHours

    return write_hours(msgspec.convert(fields, DeliveryHours))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r}: write NAME=VALUE")
    return name, value
