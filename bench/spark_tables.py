"""The section on reading through Spark, from the stored JSON results."""

from __future__ import annotations

from statistics import median

from bench.tables import Result, table

READERS = {"longhall": "Longhall", "parquet": "native Parquet", "kafka": "Spark's Kafka connector"}
# The targets: line, other reader, least ratio.
TARGETS = (("1 KB", "parquet", 0.7), ("100 B", "parquet", 0.5), ("1 KB", "kafka", 1.0), ("100 B", "kafka", 1.0))


def section(result: Result) -> str:
    on = result["machine"]
    words = (
        "All rows of a topic with two partitions into Spark's `noop` sink, on `local[2]`, the broker beside it. "
        "Parquet holds the same rows, written by Spark with its defaults. Values are random bytes. Cells are medians "
        f"over {result['settings']['rounds']} rounds, ratios medians of the ratios within each round."
    )
    taken = (
        f"Taken {result['taken']} on {on['cores']} cores of {on['processor']}, {on['memory']}, Linux {on['kernel']}; "
        f"Longhall {on['longhall']}, Python {on['python']}, Spark {on['spark']}, Java {on['java']}."
    )
    return "\n\n".join(["## Reading through Spark", words, tables(result), _targets(result), taken]) + "\n"


def tables(result: Result) -> str:
    rows = []
    for line, found in result["reading"].items():
        cells = [_cell(found, name) for name in READERS]
        rows.append([line, *cells, _ratio(found, "parquet"), _ratio(found, "kafka"), _broker(found)])
    titles = ["reading, columns", *READERS.values(), "to Parquet", "to the connector", "broker's CPU"]
    jobs = table(["job, messages", "rate", "broker's CPU"], [_job(*each) for each in result.get("jobs", {}).items()])
    return "\n\n".join([table(titles, rows), jobs, decoding_table(result)])


def _job(line: str, figures: list[Result]) -> list[str]:
    megabytes = median(each["megabytes_per_second"] for each in figures)
    rate = median(each["rows_per_second"] for each in figures)
    share = median(each["broker_cpu_seconds"] / each["seconds"] for each in figures)
    return [line, f"{rate / 1e3:,.0f} k rows/s, {megabytes:,.0f} MB/s", f"{share:.2f} of a core"]


def decoding_table(result: Result) -> str:
    found = result["decoding"]["rows_per_cpu_second"]
    rows = [[name, f"{rate / 1e3:,.0f}"] for name, rate in found.items()]
    form = "compiled" if result["decoding"]["compiled"] else "plain Python"
    return table([f"decoding alone, {form}", "thousand rows a CPU second"], rows)


def ratios(found: Result, to: str) -> float | None:
    """The median over rounds of the ratio of our rate to another reader's."""
    if to not in found or "longhall" not in found:
        return None
    pairs = zip(found["longhall"], found[to], strict=True)
    return float(median(mine["rows_per_second"] / other["rows_per_second"] for mine, other in pairs))


def _cell(found: Result, name: str) -> str:
    if name not in found:
        return "-"
    rows = median(each["rows_per_second"] for each in found[name])
    megabytes = median(each["megabytes_per_second"] for each in found[name])
    return f"{rows / 1e3:,.0f} k rows/s, {megabytes:,.0f} MB/s"


def _ratio(found: Result, to: str) -> str:
    value = ratios(found, to)
    return "-" if value is None else f"{value:.2f}x"


def _broker(found: Result) -> str:
    share = median(each["broker_cpu_seconds"] / each["seconds"] for each in found["longhall"])
    return f"{share:.2f} of a core"


def _targets(result: Result) -> str:
    rows = []
    for size, beside, least in TARGETS:
        for line, found in result["reading"].items():
            value = ratios(found, beside) if line.startswith(f"{size},") else None
            if value is not None:
                held = "yes" if value >= least else "**no**"
                rows.append([f"{line}: at least {least} of {READERS[beside]}", f"{value:.2f}x", held])
    return table(["target", "reached", "held"], rows)
