"""The page of a report: measured values in, one HTML file out, which loads nothing.

The findings come first, in words; the plots below show them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from longhall.pipeline.report.style import STYLE
from longhall.pipeline.report.svg import (
    bars_by_name,
    byte_words,
    columns_over_time,
    count_words,
    lines_over_time,
    moment_words,
    span_words,
)

Facts = dict[str, Any]
_FATES: Final = ("settled", "died", "moved", "open", "purged", "unknown", "lost")


def findings(facts: Facts) -> list[str]:
    """The findings that need attention, a sentence each."""
    found = []
    balance = facts.get("balance")
    if balance:
        if balance["lost"]:
            found.append(f"{_messages(balance['lost'])} lost: sent, not in the queue, and without a fate.")
        if balance["gap_offsets"]:
            found.append(f"{balance['gap_offsets']:,} offsets have neither a message nor an event.")
        if balance["delivered_twice"]:
            found.append(f"{_messages(balance['delivered_twice'])} delivered more than once.")
        if balance["delivered_after_settle"]:
            found.append(f"{_messages(balance['delivered_after_settle'])} delivered again after being settled.")
    for reason, count in facts.get("dead_by_reason", {}).items():
        found.append(f"{count:,} messages died: {reason}.")
    for each in facts["keys"]:
        if each["hot"]:
            found.append(f"The key {each['key']} is hot: {each['messages']:,} messages, {each['share']:.1%} of all.")
    for each in facts["partitions"]:
        if each["skewed"]:
            found.append(
                f"Partition {each['partition']} has {each['messages']:,} messages, far more than an average one."
            )
    full = facts["forecast"]["full_in_days"]
    if full is not None and full < 90:
        found.append(f"At this rate the disk is full in {full:,.0f} days, if everything is kept.")
    return found


def _messages(count: int) -> str:
    return "1 message was" if count == 1 else f"{count:,} messages were"


def page(reports: Sequence[Facts], from_ms: int, until_ms: int, groups: Sequence[Facts], made_ms: int) -> str:
    """The whole file."""
    period = f"{_moment(from_ms)} to {_moment(until_ms)} UTC"
    body = "".join(_section(facts) for facts in reports)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Longhall report, {period}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>Longhall report</h1><p>{period}</p></header>"
        f"{body}{_groups(groups)}"
        f"<footer>Made {_moment(made_ms)} UTC by <code>longhall pipeline report</code>.</footer></main></body></html>\n"
    )


def _section(facts: Facts) -> str:
    kind = "Queue" if facts["is_queue"] else "Topic"
    plots = [_volume(facts)]
    if facts["is_queue"]:
        plots += [_latency(facts), _backlog(facts), _attempts(facts), _dead(facts)]
    plots += [_hot(facts), _skew(facts), _size(facts), _ahead(facts)]
    listed = "".join(f"<li>{escape(each)}</li>" for each in findings(facts))
    listed = f'<ul class="findings">{listed}</ul>' if listed else '<p class="fine">Nothing that needs a look.</p>'
    return (
        f"<section><h2>{kind} {escape(facts['name'])}</h2>{_tiles(facts)}{listed}"
        f'<div class="plots">{"".join(plots)}</div>{_balance(facts)}</section>'
    )


def _tiles(facts: Facts) -> str:
    tiles = [("sent", f"{facts['messages']:,}"), ("bytes", byte_words(facts["size_bytes"]))]
    if facts["is_queue"]:
        whole = facts["latency_whole_ms"]
        tiles += [
            ("settled", f"{sum(facts['settled']):,.0f}"),
            ("died", f"{sum(facts['died']):,.0f}"),
            ("send to settle, median", span_words(whole["p50"]) if whole else "-"),
            ("send to settle, p99", span_words(whole["p99"]) if whole else "-"),
        ]
    tiles.append(("busiest", f"{count_words(facts['forecast']['peak_messages_a_second'])} messages/s"))
    shown = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in tiles)
    return f'<div class="tiles">{shown}</div>'


def _figure(title: str, picture: str, words: str = "") -> str:
    below = f"<p>{escape(words)}</p>" if words else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{picture}{below}</figure>"


def _volume(facts: Facts) -> str:
    step = span_words(facts["step_ms"])
    series = {"sent": facts["sent"]}
    if facts["is_queue"]:
        series |= {"delivered": facts["delivered"], "settled": facts["settled"]}
    return _figure("Volume", lines_over_time(facts["begin_ms"], facts["step_ms"], series, f"messages in {step}"))


def _size(facts: Facts) -> str:
    step = span_words(facts["step_ms"])
    plot = columns_over_time(
        facts["begin_ms"], facts["step_ms"], {"bytes": facts["bytes"]}, f"bytes sent in {step}", byte_words
    )
    return _figure("Bytes", plot)


def _latency(facts: Facts) -> str:
    plot = lines_over_time(facts["begin_ms"], facts["step_ms"], facts["latency_ms"], "from send to settle", span_words)
    whole = facts["latency_whole_ms"]
    words = ", ".join(f"{name} {span_words(value)}" for name, value in whole.items())
    return _figure("Latency from send to settle", plot, f"Whole period: {words}." if words else "Nothing was settled.")


def _backlog(facts: Facts) -> str:
    plot = lines_over_time(
        facts["begin_ms"], facts["step_ms"], {"waiting": facts["backlog"]}, "messages not settled yet"
    )
    return _figure(
        "Lag of the consumers", plot, "Sent and not settled yet; what was there before the period is not counted."
    )


def _attempts(facts: Facts) -> str:
    total = sum(facts["attempts"].values()) or 1
    rows = [
        ("never given out" if attempt == "0" else "1 attempt" if attempt == "1" else f"{attempt} attempts", count,
         f"{count:,} ({count / total:.1%})")
        for attempt, count in facts["attempts"].items()
    ]  # fmt: skip
    return _figure("Attempts until a message left", bars_by_name(rows, "messages") if rows else _nothing())


def _dead(facts: Facts) -> str:
    if not facts["dead_by_reason"]:
        return _figure("Dead letters by reason", _nothing())
    step = span_words(facts["step_ms"])
    plot = columns_over_time(facts["begin_ms"], facts["step_ms"], facts["dead_over_time"], f"deaths in {step}")
    words = ", ".join(f"{reason} {count:,}" for reason, count in facts["dead_by_reason"].items())
    return _figure("Dead letters by reason", plot, f"Whole period: {words}.")


def _hot(facts: Facts) -> str:
    rows = [(each["key"], each["messages"], f"{each['messages']:,} ({each['share']:.1%})") for each in facts["keys"]]
    if not rows:
        return _figure("Keys with most messages", _nothing("No message has a key or a group."))
    marked = [each["key"] for each in facts["keys"] if each["hot"]]
    words = f"{facts['distinct_keys']:,} keys in all" + (f"; hot: {', '.join(marked)}." if marked else "; none is hot.")
    return _figure("Keys with most messages", bars_by_name(rows, "messages", marked), words)


def _skew(facts: Facts) -> str:
    parts = facts["partitions"]
    total = sum(each["messages"] for each in parts) or 1
    rows = [
        (f"partition {each['partition']}", each["messages"], f"{each['messages']:,} ({each['messages'] / total:.1%})")
        for each in sorted(parts, key=lambda each: -each["messages"])[:20]
    ]
    if not rows:
        return _figure("Partitions", _nothing())
    marked = [f"partition {each['partition']}" for each in parts if each["skewed"]]
    return _figure("Partitions", bars_by_name(rows, "messages", marked))


def _ahead(facts: Facts) -> str:
    forecast = facts["forecast"]
    rows = [(f"in {days} days", size, byte_words(size)) for days, _, size in forecast["ahead"]]
    how = f"growing by {forecast['growth_a_day']:+.1%} a day" if forecast["has_trend"] else "no trend: below three days"
    words = (
        f"{count_words(forecast['messages_a_day'])} messages and {byte_words(forecast['bytes_a_day'])} a day; {how}."
    )
    if forecast["disk_free_bytes"]:
        full = forecast["full_in_days"]
        until = "not full within ten years" if full is None else f"full in {full:,.0f} days"
        words += f" {byte_words(forecast['disk_free_bytes'])} are free: {until}, if everything is kept."
    return _figure("Capacity forecast", bars_by_name(rows, "bytes to come", words=byte_words), words)


def _balance(facts: Facts) -> str:
    balance = facts.get("balance")
    if not balance:
        return ""
    names = ("sent", "delivered", *_FATES, "gap_offsets", "delivered_twice", "settled_twice", "delivered_after_settle")
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in names)
    row = "".join(f"<td>{balance[name]:,}</td>" for name in names)
    out = f'<h3>Reconciliation</h3><div class="wide"><table><tr>{head}</tr><tr>{row}</tr></table></div>'
    span = facts["step_ms"] * len(facts["sent"])
    for title, key, time_key in (
        ("Lost", "lost_messages", "sent_ms"),
        ("Delivered more than once", "delivered_twice_messages", "first_delivered_ms"),
    ):
        if balance[key]:
            rows = "".join(
                f"<tr><td><code>{escape(str(each['message_id']))}</code></td><td>{each['partition']}</td>"
                f"<td>{each['offset']}</td><td>{moment_words(each[time_key] or 0, span)}</td>"
                f"<td>{each['deliveries']}</td></tr>"
                for each in balance[key]
            )
            when = "sent" if time_key == "sent_ms" else "first delivered"
            head = f"<tr><th>message</th><th>partition</th><th>offset</th><th>{when}</th><th>deliveries</th></tr>"
            out += f'<h4>{title}</h4><div class="wide"><table>{head}{rows}</table></div>'
    return out


def _groups(groups: Sequence[Facts]) -> str:
    if not groups:
        return ""
    rows = [(f"{each['group']}: {each['topic']}", each["lag"], f"{each['lag']:,}") for each in groups]
    plot = _figure("Lag of consumer groups now", bars_by_name(rows, "messages behind the end"))
    return f'<section><h2>Consumer groups</h2><div class="plots">{plot}</div></section>'


def _nothing(words: str = "Nothing in this period.") -> str:
    return f'<p class="nothing">{escape(words)}</p>'


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
