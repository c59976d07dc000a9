"""Structured logs: an event in plain words and its fields, as text for people or JSON for machines.

Rooms below `node` log with the standard library and know nothing of this module:

    logging.getLogger("longhall.log").info("segment rolled", extra={"topic": "orders", "partition": 3})

The event is a constant sentence and everything that varies is a field, so that events can be counted and searched.
Values that came from a client are quoted, so a client cannot forge a line. A reader of the log that stalls never stalls
the node: a thread writes the lines from a bounded queue; lines that do not fit are counted and dropped.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Final, TextIO, final

QUEUE_LINES_MAX: Final = 10_000
CLOSE_SECONDS_MAX: Final = 2.0

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z info    log      segment rolled topic=orders partition=3`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        line = (
            f"{_time(record)} {record.levelname.lower():<7} {_room(record):<8} {_one_line(record.getMessage())}{fields}"
        )
        trouble = _trouble(record)
        return line if trouble is None else f"{line}\n{trouble}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, room, event, then the fields; `error` holds a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "room": _room(record),
            "event": record.getMessage(),
            **_fields(record),
        }
        trouble = _trouble(record)
        if trouble is not None:
            line["error"] = trouble
        return json.dumps(line, default=str, ensure_ascii=False)


@final
class LogOutput:
    """The path from loggers to a stream; `close` writes the queued lines."""

    def __init__(self, level: str, style: str, stream: TextIO, fields: Mapping[str, object]) -> None:
        self._lines: queue.Queue[logging.LogRecord | None] = queue.Queue(QUEUE_LINES_MAX)
        self._handler = _BoundedHandler(self._lines, fields, as_json=style == "json")
        self._stream_handler = logging.StreamHandler(stream)
        self._stream_handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
        self._logger = logging.getLogger("longhall")
        self._logger.setLevel(level.upper())
        self._logger.propagate = False
        self._logger.addHandler(self._handler)
        # A daemon thread, so that a stream without a reader does not block the exit of the process.
        self._writer = threading.Thread(target=self._write, name="longhall-logs", daemon=True)
        self._writer.start()

    @property
    def dropped_count(self) -> int:
        """The number of lines that were dropped because the reader of the log was too slow."""
        return self._handler.dropped_count

    def close(self) -> None:
        """Accept no more lines and write the queued ones, within a bounded time."""
        self._logger.removeHandler(self._handler)
        self._logger.propagate = True
        try:
            self._lines.put(None, timeout=CLOSE_SECONDS_MAX)
        except queue.Full:
            return
        self._writer.join(CLOSE_SECONDS_MAX)

    def _write(self) -> None:
        while (record := self._lines.get()) is not None:
            self._stream_handler.handle(record)


def configure(
    level: str = "info",
    style: str = "text",
    stream: TextIO | None = None,
    *,
    fields: Mapping[str, object] | None = None,
) -> LogOutput:
    """Send all logs under the logger "longhall" to `stream` (default: standard error). Every line has these fields."""
    return LogOutput(level, style, sys.stderr if stream is None else stream, fields or {})


def tell(message: str, level: int = logging.INFO) -> None:
    """A line for the person who started the node. Where the logs are JSON it is one of them, and nothing else is."""
    logger = logging.getLogger("longhall")
    if any(isinstance(handler, _BoundedHandler) and handler.as_json for handler in logger.handlers):
        logger.getChild("node").log(level, message)
    else:
        print(f"longhall: {message}", file=sys.stdout if level <= logging.INFO else sys.stderr, flush=True)


class _BoundedHandler(logging.handlers.QueueHandler):
    def __init__(
        self, lines: queue.Queue[logging.LogRecord | None], fields: Mapping[str, object], as_json: bool
    ) -> None:
        super().__init__(lines)
        self.as_json = as_json
        self.dropped_count = 0
        self._fields = fields

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # The writer is a thread of this process, so the record needs no flattening; but its arguments may change
        # under it, so the sentence is made now.
        record.message = record.msg = record.getMessage()
        record.args = None
        vars(record).update(self._fields)
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped_count += 1


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _room(record: logging.LogRecord) -> str:
    return record.name.removeprefix("longhall.")


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _quoted(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _trouble(record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[1] is None:
        return None
    return "".join(traceback.format_exception(record.exc_info[1])).rstrip()
