"""The producer of `produce`: lines are read in a thread, sent as they arrive, and counted when acknowledged."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from longhall.cli.exits import CommandError
from longhall.cli.message_lines import Message
from longhall.client.hall import Hall
from longhall.client.producer import Options, Producer
from longhall.client.refusals import Unreachable
from longhall.world.real.clock import RealClock

if TYPE_CHECKING:
    from longhall.client.backlog import Sent

CHUNK_BYTES: Final = 256 * 1024
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
CHUNKS_MAX: Final = 4


@dataclass(slots=True)
class Outcome:
    """The result so far."""

    topic: str
    messages: int = 0  # Acknowledged, or sent if no acknowledgement was requested.
    sent: int = 0
    bytes: int = 0
    failure: str | None = None


async def produce_lines(
    hall: Hall, outcome: Outcome, files: list[Path], understand: Callable[[bytes, int], Message], options: Options
) -> None:
    """Send every line. The first failure ends the reading; batches in flight are still awaited."""
    topic = outcome.topic
    producer = Producer(hall, RealClock(), options)

    def placed(number: int, size: int, sent: asyncio.Future[Sent]) -> None:
        failure = sent.exception()
        if failure is None:
            outcome.messages += 1
            outcome.bytes += size
        elif outcome.failure is None:
            words = "has no acknowledgement" if isinstance(failure, Unreachable) else "was refused"
            outcome.failure = f"line {number} {words}: {failure}"

    number = 0
    try:
        async for line in _lines(files):
            number += 1
            message = understand(line, number)
            sent = await producer.send(
                topic,
                message.value,
                key=message.key,
                headers=message.headers,
                partition=message.partition,
                timestamp_ms=message.timestamp_ms,
            )
            outcome.sent += 1
            size = len(message.value or b"")
            sent.add_done_callback(functools.partial(placed, number, size))
            if outcome.failure is not None:
                break
    except CommandError as failure:
        outcome.failure = outcome.failure or str(failure)
    await producer.close()
    await asyncio.sleep(0)  # The callbacks of the last batch.


async def _lines(files: list[Path]) -> AsyncIterator[bytes]:
    """Lines without their ends; what follows the last end is a line as well."""
    sources: list[Path | None] = [*files] or [None]
    for file in sources:
        rest = bytearray()
        async for chunk in _Chunks(file).read():
            rest += chunk
            *whole, last = rest.split(b"\n")
            for line in whole:
                yield bytes(line)
            rest = bytearray(last)
            if len(rest) > LINE_BYTES_MAX:
                raise CommandError(f"{file or 'standard input'} has a line of more than {LINE_BYTES_MAX} bytes")
        if rest:
            yield bytes(rest)


@final
class _Chunks:
    """Reads a file in a thread of its own, a few chunks ahead at most.

    The thread is a daemon on the bare descriptor: an idle terminal must block neither the loop nor the exit.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(CHUNKS_MAX)
        threading.Thread(target=self._work, name="longhall-lines", daemon=True).start()

    async def read(self) -> AsyncIterator[bytes]:
        while chunk := await self._queue.get():
            if isinstance(chunk, OSError):
                raise CommandError(f"{self._file or 'standard input'}: {chunk.strerror}")
            yield chunk

    def _work(self) -> None:
        try:
            if self._file is None:
                self._pump(sys.stdin.fileno())
            else:
                with self._file.open("rb") as stream:
                    self._pump(stream.fileno())
        except OSError as failure:
            self._put(failure)

    def _pump(self, descriptor: int) -> None:
        while chunk := os.read(descriptor, CHUNK_BYTES):
            if not self._put(chunk):
                return
        self._put(b"")

    def _put(self, chunk: bytes | OSError) -> bool:
        try:
            asyncio.run_coroutine_threadsafe(self._queue.put(chunk), self._loop).result()
        except BaseException:
            return False  # The loop has ended, and the reader of the lines with it.
        return True
