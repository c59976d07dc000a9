"""Log lines: their fields survive, no value forges a line, and a stalled reader stalls nobody."""

from __future__ import annotations

import io
import json
import logging
import threading

import pytest

from longhall.node import logs

logger = logging.getLogger("longhall.broker")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_text_lines_carry_time_level_room_event_and_fields(stream: io.StringIO) -> None:
    output = logs.configure(stream=stream)
    logger.info("segment rolled", extra={"topic": "orders", "partition": 3, "took": 0.1234567})
    logger.debug("not asked for")
    output.close()
    time, level, room, line = stream.getvalue().split(maxsplit=3)
    assert time.endswith("Z")
    assert (level, room, line) == ("info", "broker", "segment rolled topic=orders partition=3 took=0.123457\n")


def test_json_lines_parse(stream: io.StringIO) -> None:
    output = logs.configure("debug", "json", stream)
    logger.debug("client left", extra={"address": ("127.0.0.1", 5), "client_id": 'a"\nb'})
    try:
        raise ValueError("torn")
    except ValueError:
        logger.exception("round failed")
    output.close()
    left, failed = (json.loads(line) for line in stream.getvalue().splitlines())
    assert left["event"] == "client left"
    assert left["client_id"] == 'a"\nb'
    assert left["address"] == ["127.0.0.1", 5]
    assert failed["level"] == "error"
    assert "ValueError: torn" in failed["error"]


def test_no_client_can_forge_a_line(stream: io.StringIO) -> None:
    output = logs.configure(stream=stream)
    logger.warning("odd\nname", extra={"client_id": "x\n2026 info broker all is well", "empty": "", "tail": "a=b"})
    output.close()
    assert stream.getvalue().count("\n") == 1
    assert r'client_id="x\n2026 info broker all is well" empty="" tail="a=b"' in stream.getvalue()


def test_a_stalled_reader_does_not_stall_the_node(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_LINES_MAX", 8)
    gate = threading.Event()

    class Stalled(io.StringIO):
        def write(self, text: str) -> int:
            gate.wait(30)
            return stream.write(text)

    output = logs.configure(stream=Stalled())
    for number in range(100):
        logger.info("line", extra={"number": number})
    assert output.dropped_count >= 90
    gate.set()
    output.close()
    assert "number=0\n" in stream.getvalue()
