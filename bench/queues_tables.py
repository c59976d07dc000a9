"""The section on growing queues, from the stored JSON results."""

from __future__ import annotations

from bench.tables import Result, table

_DEPTHS = {
    "waiting": "plain queue",
    "to-live": "plain queue, a time-to-live on each message",
    "groups": "FIFO queue, a group for each message",
}
_TIMED = {"delayed": "delayed messages", "leases": "leases that end"}


def section(result: Result) -> str:
    on = result["machine"]
    taken = (
        f"Taken {result['taken']} on {on['cores']} cores of {on['processor']}, {on['memory']}, Linux {on['kernel']}; "
        f"Longhall {on['longhall']}, Python {on['python']}."
    )
    words = (
        "Bodies of 100 bytes, one node. Receive rates are of messages received and settled in batches of ten, a "
        "thousand from the deep queue and a thousand that are all the other has, in alternation. A restart lasts until "
        "the node answered a receive. Lateness is from the moment a message was due, by the node's own timestamps, to "
        "its arrival at a long-polling client."
    )
    return "\n\n".join(["## Growing queues", words, tables(result), _targets(result), taken]) + "\n"


def tables(result: Result) -> str:
    parts = result["parts"]
    found = []
    depths = [[title, *_depth_cells(parts[name])] for name, title in _DEPTHS.items() if name in parts]
    if depths:
        head = ["", "messages", "memory, empty / full / after a restart", "receive a second, few / many waiting"]
        found.append(table([*head, "restart: clean, after SIGKILL"], depths))
    if "idle" in parts:
        idle = parts["idle"]
        head = ["", "created a second", "memory, none / all / after a restart", "restart"]
        memory = f"{idle['fresh_mb']:.0f} / {idle['resident_mb']:.0f} / {idle['restarted_mb']:.0f} MB"
        cells = [f"{idle['created_per_second']:,.0f}", memory, f"{idle['restart_clean_seconds']:.2f} s"]
        found.append(table(head, [[f"{idle['queues']:,.0f} idle queues", *cells]]))
    timed = [[title, *_timed_cells(parts[name])] for name, title in _TIMED.items() if name in parts]
    if timed:
        head = ["", "messages", "late by, p50 / p99 / most", "early by at most", "CPU of the node"]
        found.append(table(head, timed))
    if "months" in parts:
        late = parts["months"]
        head = ["", "messages", "memory, before / with them / after a restart", "restart: clean, after SIGKILL", "kept"]
        memory = f"{late['before_mb']:.0f} / {late['after_mb']:.0f} / {late['restarted_mb']:.0f} MB"
        restarts = f"{late['restart_clean_seconds']:.2f} s, {late['restart_killed_seconds']:.2f} s"
        cells = [f"{late['messages']:,.0f}", memory, restarts, f"{late['delayed_after_restarts']:,.0f}"]
        found.append(table(head, [["delayed by three months", *cells]]))
    if "straggler" in parts:
        passed = parts["straggler"]
        head = ["", "passed", "on disk, most / in the end"]
        disk = f"{passed['most_mb']:,.0f} / {passed['kept_mb']:,.0f} MB"
        title = f"filled and drained for {passed['seconds'] / 60:.0f} minutes, one message never settled"
        found.append(table(head, [[title, f"{passed['passed_mb']:,.0f} MB", disk]]))
    return "\n\n".join(found)


def _depth_cells(figures: Result) -> list[str]:
    memory = f"{figures['empty_mb']:.0f} / {figures['full_mb']:.0f} / {figures['restarted_mb']:.0f} MB"
    rates = (
        f"{figures['shallow_receive_per_second']:,.0f} / {figures['deep_receive_per_second']:,.0f}: "
        f"**{figures['deep_to_shallow']:.2f}**"
    )
    restarts = f"{figures['restart_clean_seconds']:.2f} s, {figures['restart_killed_seconds']:.2f} s"
    return [f"{figures['messages']:,.0f}", memory, rates, restarts]


def _timed_cells(figures: Result) -> list[str]:
    late = f"{figures['late_p50_ms']:.0f} / {figures['late_p99_ms']:.0f} / {figures['late_most_ms']:.0f} ms"
    early, cpu = f"{figures['early_most_ms']:.0f} ms", f"{figures['cpu_seconds']:.1f} s"
    return [f"{figures['messages']:,.0f}", late, early, cpu]


def _targets(result: Result) -> str:
    parts = result["parts"]
    rows = []
    for name, title in _DEPTHS.items():
        if name not in parts:
            continue
        figures = parts[name]
        more = figures["full_mb"] - figures["empty_mb"]
        rows += [
            [f"{title}: memory within 100 MB of the empty queue's", f"{more:.0f} MB", _held(more <= 100)],
            [
                f"{title}: receive rate at least 0.9 of that with few waiting",
                f"{figures['deep_to_shallow']:.2f}",
                _held(figures["deep_to_shallow"] >= 0.9),
            ],
            [
                f"{title}: restart within 10 s",
                f"{figures['restart_clean_seconds']:.2f} s",
                _held(figures["restart_clean_seconds"] <= 10),
            ],
        ]
    if "idle" in parts:
        idle = parts["idle"]
        rows += [
            ["idle queues: under 300 MB", f"{idle['resident_mb']:.0f} MB", _held(idle["resident_mb"] < 300)],
            [
                "idle queues: created at 1,000 a second",
                f"{idle['created_per_second']:,.0f}",
                _held(idle["created_per_second"] >= 1000),
            ],
        ]
    for name, title in _TIMED.items():
        if name in parts:
            late = parts[name]["late_p99_ms"]
            rows.append([f"{title}: p99 within 50 ms", f"{late:.0f} ms", _held(late <= 50)])
    if "months" in parts:
        kept = parts["months"]
        held = kept["delayed_after_restarts"] == kept["messages"] and kept["available_after_restarts"] == 0
        rows.append(["delayed by three months: kept", f"{kept['delayed_after_restarts']:,.0f}", _held(held)])
    if "straggler" in parts:
        kept = parts["straggler"]["kept_mb"]
        rows.append(["a message never settled: the disk is not kept", f"{kept:,.0f} MB", _held(kept <= 100)])
    return table(["target", "measured", ""], rows)


def _held(reached: bool) -> str:
    return "reached" if reached else "**missed**"
