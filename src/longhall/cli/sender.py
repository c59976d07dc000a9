"""The sender of `send`: many small messages in one request, a large one in parts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, final
from urllib.parse import urlencode

from longhall.cli.api_client import ApiClient, queue_path
from longhall.cli.exits import CommandError, Exit
from longhall.console.api.bodies import Encoded, shown, understood
from longhall.console.api.messages import MessageFields, Sent, SentOne
from longhall.console.api.uploads import Begun

CHUNK_BYTES: Final = 256 * 1024
LINE_BYTES_MAX: Final = 8 * 1024 * 1024
JSON_BYTES_MAX: Final = 1024 * 1024  # Beyond, a message goes as bytes: in JSON it could grow sixfold.
QUERY_BYTES_MAX: Final = 8 * 1024
BATCH_MAX: Final = 100
BATCH_BYTES_MAX: Final = 1024 * 1024
ONE_REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024  # From here on a message goes in parts.

Fields = dict[str, object]
Moved = Callable[[int], None]


@final
class Sender:
    """Sends to one queue. `ids` are those of the acknowledged messages."""

    def __init__(self, client: ApiClient, queue: str, fields: Fields) -> None:
        self.queue = queue
        self.ids: list[str] = []
        self._client = client
        self._fields = fields

    def send_words(self, words: list[str]) -> None:
        """Send each argument as a message."""
        for at in range(0, len(words), BATCH_MAX):
            self._send([{**self._fields, "body": word} for word in words[at : at + BATCH_MAX]], at)

    def send_lines(self, is_json: bool) -> None:
        """Send each line of standard input as a message; available lines are sent together at once."""
        number = 0
        for lines in _lines(sys.stdin.fileno()):
            batch: list[Fields] = []
            for line in lines:
                batch.append(self._understood(line, number + len(batch) + 1, is_json))
            self._send(batch, number)
            number += len(batch)

    def _understood(self, line: bytes, number: int, is_json: bool) -> Fields:
        if not is_json:
            return {**self._fields, "body": shown(line)}
        try:
            given = json.loads(line)
        except ValueError:
            given = None
        if not isinstance(given, dict) or "body" not in given:
            raise CommandError(f"line {number} is not a message: it is not a JSON object with a body", Exit.USAGE)
        # What `receive` writes says more than a sender may say.
        own = {name: given[name] for name in ("body", *MessageFields.__struct_fields__) if name in given}
        chosen = {name: value for name, value in self._fields.items() if value not in ("", {}, -1, 0, False)}
        return {**own, **chosen}

    def _send(self, batch: list[Fields], before: int) -> None:
        body = batch[0]["body"]
        data = understood(body) if len(batch) == 1 and isinstance(body, (str, Encoded)) else b""
        query = _query(batch[0]) if len(data) > JSON_BYTES_MAX else ""
        if query and len(query) <= QUERY_BYTES_MAX:
            sent = self._client.give("POST", f"{queue_path(self.queue, 'messages')}?{query}", data, Sent)
            self.ids.append(sent.messages[0].message_id)
            return
        sent = self._client.ask("POST", queue_path(self.queue, "messages"), Sent, {"messages": batch})
        for at, answer in enumerate(sent.messages, before + 1):
            if answer.code:
                raise CommandError(f"message {at} was refused: {answer.message}", Exit.REFUSED)
            self.ids.append(answer.message_id)

    # Whole files

    def send_file(self, file: Path | None) -> None:
        """Send a file or standard input as one message."""
        with _opened(file) as stream:
            head = stream.read(ONE_REQUEST_BYTES_MAX + 1)
            if len(head) <= ONE_REQUEST_BYTES_MAX:
                self._send([{**self._fields, "body": shown(head)}], len(self.ids))
            else:
                size = 0 if file is None else file.stat().st_size
                self._send_parts(head, stream, size)

    def _send_parts(self, head: bytes, stream: BinaryIO, size: int) -> None:
        begun = self._client.ask("POST", queue_path(self.queue, "uploads"), Begun)
        path = queue_path(self.queue, "uploads", begun.upload_id)
        try:
            with _progress(size) as moved:
                parts = 0
                for part in _parts(head, stream, begun.part_bytes_max):
                    self._client.give("PUT", f"{path}/parts/{parts}", part, dict[str, str])
                    parts += 1
                    moved(len(part))
            done = self._client.ask("POST", path, SentOne, {**self._fields, "parts": parts})
        except BaseException:
            try:
                self._client.ask("DELETE", path, dict[str, str])
            except CommandError:
                pass  # It runs out by itself.
            raise
        self.ids.append(done.message_id)


def _query(fields: Fields) -> str:
    """The fields of a message as the query of a request whose body is the message; empty if they do not fit."""
    pairs: list[tuple[str, object]] = []
    for name, value in fields.items():
        if name == "attributes" and isinstance(value, dict):
            if not all(isinstance(text, str) for text in value.values()):
                return ""
            pairs += [(f"attribute.{attribute}", text) for attribute, text in value.items()]
        elif name != "body" and not isinstance(value, (str, int)):
            return ""
        elif name != "body":
            pairs.append((name, str(value).lower() if isinstance(value, bool) else value))
    return urlencode(pairs)


def _parts(head: bytes, stream: BinaryIO, part_bytes: int) -> Iterator[bytes]:
    rest = head
    while True:
        while len(rest) < part_bytes:
            more = stream.read(part_bytes)
            if not more:
                if rest:
                    yield rest
                return
            rest += more
        yield rest[:part_bytes]
        rest = rest[part_bytes:]


def _lines(descriptor: int) -> Iterator[list[bytes]]:
    """Lines without their ends, as many at once as are available and fit into one request."""
    rest = b""
    while True:
        chunk = os.read(descriptor, CHUNK_BYTES)
        *whole, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            whole, rest = [rest], b""
        batch: list[bytes] = []
        size = 0
        for line in whole:
            if batch and (len(batch) >= BATCH_MAX or size + len(line) > BATCH_BYTES_MAX):
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        if batch:
            yield batch
        if not chunk:
            return
        if len(rest) > LINE_BYTES_MAX:
            raise CommandError(f"a line has more than {LINE_BYTES_MAX} bytes; send it with --file -", Exit.USAGE)


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as stream:
            yield stream
    except OSError as failure:
        raise CommandError(f"{file}: {failure.strerror}") from None


@contextmanager
def _progress(size: int) -> Iterator[Moved]:
    """A progress bar for a large file, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    with Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=size or None)
        yield lambda count: progress.update(task, advance=count)
