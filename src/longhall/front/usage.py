"""The usage of one process that leaves no entry in a log: requests, connections, and records that Kafka clients fetch.

It is counted as it happens and reported every few seconds, each report once. A process that is killed loses what it has
not reported. What entries of a log used is counted by the leader (`broker/usage/usage_meter.py`), which loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from longhall.broker.usage.usage_records import UsageRecord, encode_records
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.service.queue_operations import QueueOperation

ROWS_MAX: Final = 20_000  # Beyond them usage is counted without the resource.
REPORT_ROWS_MAX: Final = 2_000
REQUESTS: Final = "requests."  # A meter for each request class: this prefix and its name.
CONNECTION_SECONDS: Final = "connection_seconds"
MESSAGES_FETCHED: Final = "messages_fetched"
BYTES_FETCHED: Final = "bytes_fetched"

Key = tuple[str, str, str, str]
RequestKey = tuple[str, str, str, str, type[Operation[Any]]]


@final
class ProcessUsage:
    """The counts of this process that are not reported yet."""

    def __init__(self, source: str, now_ms: Callable[[], int]) -> None:
        """`source`: a random name of this run of the process."""
        self.source = source
        self.number = 0  # Of the last report.
        self._now_ms = now_ms
        self._rows: dict[Key, dict[str, int]] = {}
        self._requests: dict[RequestKey, int] = {}  # Of the service; they become rows when they are reported.
        self._start_ms = now_ms()

    def count(self, operation: Operation[Any], caller: Caller) -> None:
        """A client asks for an operation of the service."""
        if caller.door:
            resource = operation.queue if isinstance(operation, QueueOperation) else ""
            user = caller.identity if caller.kind else ""
            key = (caller.tenant, user, caller.door, resource, type(operation))
            found = self._requests.get(key)
            if found is not None:
                self._requests[key] = found + 1
            elif len(self._requests) < ROWS_MAX:
                self._requests[key] = 1
            else:
                self._add(caller.tenant, user, caller.door, "", REQUESTS + type(operation).__name__, 1)

    def count_request(self, tenant: str, user: str, name: str) -> None:
        """A Kafka client sends a request of this API."""
        self._add(tenant, user, "kafka", "", REQUESTS + name, 1)

    def count_fetched(self, tenant: str, user: str, topic: str, messages: int, size_bytes: int) -> None:
        """A Kafka client gets record batches."""
        self._add(tenant, user, "kafka", topic, MESSAGES_FETCHED, messages)
        self._add(tenant, user, "kafka", topic, BYTES_FETCHED, size_bytes)

    def count_connection(self, tenant: str, user: str, door: str, seconds: int) -> None:
        """A client was connected for this time."""
        self._add(tenant, user, door, "", CONNECTION_SECONDS, seconds)

    def take(self) -> tuple[int, list[bytes]] | None:
        """The next report: its number and its records; None if there is nothing to report."""
        requests, self._requests = self._requests, {}
        for (tenant, user, door, resource, kind), count in requests.items():
            self._add(tenant, user, door, resource, REQUESTS + kind.__name__, count)
        if not self._rows:
            return None
        now_ms = self._now_ms()
        self.number += 1
        keys = list(self._rows)[:REPORT_ROWS_MAX]
        records = [
            UsageRecord(
                version=1,
                id=f"{self.source}-{self.number}-{at}",
                start_ms=self._start_ms,
                end_ms=now_ms,
                tenant=key[0],
                user=key[1],
                door=key[2],
                resource=key[3],
                usage=self._rows.pop(key),
            )
            for at, key in enumerate(keys)
        ]
        self._start_ms = now_ms
        return self.number, encode_records(records)

    def _add(self, tenant: str, user: str, door: str, resource: str, meter: str, count: int) -> None:
        key = (tenant or DEFAULT_TENANT, user, door, resource)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= ROWS_MAX:
                key = (key[0], user, door, "")
            row = self._rows.setdefault(key, {})
        row[meter] = row.get(meter, 0) + count
