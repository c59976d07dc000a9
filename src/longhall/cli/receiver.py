"""The receiver of `receive`: messages are written first and settled afterwards."""

from __future__ import annotations

import json
import sys
from typing import Final, NamedTuple, final

import msgspec

from longhall.cli.api_client import ApiClient, queue_path
from longhall.cli.exits import CommandError, Exit
from longhall.cli.message_lines import printable
from longhall.console.api.bodies import shown, understood
from longhall.console.api.messages import COUNT_MAX, WAIT_MS_MAX, MessageOut, Received, Results

FOLLOW_WAIT_MS: Final = 20_000
PARTS_A_LEASE: Final = 16  # A message that takes long to read is kept from others meanwhile.
LONGER_MS: Final = 60_000


class ReceiveOptions(NamedTuple):
    """The options of `receive`."""

    limit: int | None
    follow: bool
    wait_ms: int
    lease_ms: int
    keep: bool
    filter: str
    as_json: bool
    ending: bytes


@final
class Receiver:
    """Receives from one queue, or from several by weight."""

    def __init__(self, client: ApiClient, weights: dict[str, int], options: ReceiveOptions) -> None:
        self._client = client
        self._weights = weights
        self._queue = next(iter(weights))
        self._options = options
        self._printable = sys.stdout.isatty() and not options.as_json

    def run(self) -> int:
        """Receive up to the limit or until the queue is empty; returns the number of messages."""
        done = 0
        wait_ms = self._options.wait_ms
        while self._options.limit is None or done < self._options.limit:
            wanted = COUNT_MAX if self._options.limit is None else min(self._options.limit - done, COUNT_MAX)
            got = self._receive(wanted, max(wait_ms, FOLLOW_WAIT_MS if self._options.follow else 0))
            if not got:
                wait_ms -= WAIT_MS_MAX
                if self._options.follow or wait_ms > 0:
                    continue
                break
            self._write(got)
            if not self._options.keep:
                self._settle(got)
            done += len(got)
            wait_ms = 0
        return done

    def _receive(self, count: int, wait_ms: int) -> list[MessageOut]:
        wait_ms = min(wait_ms, WAIT_MS_MAX)
        value: dict[str, object] = {
            "count": count,
            "wait_ms": wait_ms,
            "lease_ms": self._options.lease_ms,
            "filter": self._options.filter,
        }
        path = queue_path(self._queue, "receive")
        if len(self._weights) > 1:
            value["queues"] = self._weights
            path = "receive"
        return self._client.ask("POST", path, Received, value, wait_s=wait_ms / 1000).messages

    def _write(self, messages: list[MessageOut]) -> None:
        out = sys.stdout.buffer
        for message in messages:
            if self._options.as_json:
                if message.parts:
                    message.body = shown(b"".join(self._part(message, at) for at in range(message.parts)))
                out.write(json.dumps(msgspec.to_builtins(message), ensure_ascii=False).encode() + b"\n")
                continue
            if message.parts:
                for at in range(message.parts):
                    out.write(self._part(message, at))
                out.write(self._options.ending)
                continue
            body = understood(message.body) + self._options.ending
            out.write(printable(body) if self._printable else body)
        out.flush()

    def _part(self, message: MessageOut, number: int) -> bytes:
        if number and number % PARTS_A_LEASE == 0:
            changes = [{"receipt": message.receipt, "lease_ms": LONGER_MS}]
            self._client.ask("POST", queue_path(self._queue_of(message), "leases"), Results, {"changes": changes})
        return self._client.take(
            "POST", queue_path(self._queue_of(message), "part"), {"receipt": message.receipt, "number": number}
        )

    def _queue_of(self, message: MessageOut) -> str:
        return message.queue or self._queue

    def _settle(self, messages: list[MessageOut]) -> None:
        by_queue: dict[str, list[str]] = {}
        for message in messages:
            if message.receipt:  # Else it was settled on delivery.
                by_queue.setdefault(self._queue_of(message), []).append(message.receipt)
        for queue, receipts in by_queue.items():
            self._settle_in(queue, receipts)

    def _settle_in(self, queue: str, receipts: list[str]) -> None:
        results = self._client.ask("POST", queue_path(queue, "settle"), Results, {"receipts": receipts}).results
        refused = [result for result in results if result.code]
        if refused:
            raise CommandError(
                f"{len(refused)} of {len(receipts)} were not settled ({refused[0].message}): "
                "their lease ended before they were written; give a longer --lease",
                Exit.REFUSED,
            )
