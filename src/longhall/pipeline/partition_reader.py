"""The read of one task: one range of one partition, from its leader, as record batches.

The next request is in flight while the response before it is decoded. A leader that moved or a broker that restarts is
looked up again until the timeout; nothing is read twice, because reading continues at the next offset. If messages of
the range are deleted, `fail_on_data_loss` decides whether the task fails or continues behind them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, final

from longhall.client.hall import split_address
from longhall.client.refusals import Refused, Unreachable
from longhall.client.security import ClientSecurity, security_of_environment
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages import data
from longhall.doors.kafka.wire.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from longhall.doors.kafka.wire.schema import NO_ID
from longhall.errors import LonghallError
from longhall.names import STORED_FORM
from longhall.pipeline.arrow_table import Shape
from longhall.pipeline.batch_decoder import PartitionDecoder
from longhall.pipeline.broker_connection import BrokerConnection
from longhall.pipeline.fetch_response import VERSION_MIN, FetchedPartition, read_fetch_response
from longhall.pipeline.plan import Range
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.subscription_metadata import Topic
from longhall.records.header import scan_headers
from longhall.records.varint import INT64_MAX, INT64_MIN

FETCH_BYTES: Final = 2 * 1024 * 1024
WAIT_MS: Final = 500
PATIENCE_S: Final = 60.0
GONE_PATIENCE_S: Final = 5.0  # A topic that is unknown may only be unknown yet, to a broker that starts.

_GONE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


class ReadTask(NamedTuple):
    """One range for one task, with everything that it needs to read it."""

    bootstrap: str
    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int
    columns: tuple[str, ...]
    leader: tuple[str, int] | None = None
    read_committed: bool = False
    fail_on_data_loss: bool = True
    first_ms: int = INT64_MIN
    last_ms: int = INT64_MAX
    security: ClientSecurity = ClientSecurity()
    is_stored_form: bool = False  # Sealed messages come as ciphertext; a row of type SEALED_BATCH is a whole batch.


def committed_read_task(
    bootstrap: str, topic: Topic, part: Range, columns: tuple[str, ...], *, is_stored_form: bool = False
) -> ReadTask:
    """A task that reads the committed messages of a range, with the security of the driver's environment."""
    return ReadTask(
        bootstrap=bootstrap,
        topic=part.topic,
        topic_id=topic.id,
        partition=part.partition,
        start=part.start,
        end=part.end,
        columns=columns,
        leader=topic.leaders.get(part.partition),
        read_committed=True,
        security=security_of_environment(),
        is_stored_form=is_stored_form,
    )


def read(work: ReadTask) -> Iterator[Any]:
    """Record batches in the order of their offsets. Raises PipelineError."""
    reading = PartitionReader(work)
    try:
        yield from reading.batches()
    finally:
        reading.close()


@final
class PartitionReader:
    """The state of one task: the connection to the leader, if any, and the decoder, which has the next offset."""

    def __init__(self, work: ReadTask) -> None:
        self._work = work
        self._opening = PartitionDecoder(
            Shape(work.columns, work.topic, work.partition),
            work.start,
            work.end,
            work.first_ms,
            work.last_ms,
            takes_sealed=work.is_stored_form,
        )
        self._line: BrokerConnection | None = None
        self._hint = work.leader
        self._asked_for = -1  # The offset of the request under way.
        self._deadline = 0.0

    def batches(self) -> Iterator[Any]:
        self._deadline = time.monotonic() + PATIENCE_S
        while self._opening.next_offset < self._work.end:
            before = self._opening.next_offset
            try:
                answer = self._next_answer()
                if answer.error_code == 0 and answer.end > answer.begin:
                    self._ask_ahead(answer)
                    yield from self._opening.open(answer.frame, answer.aborted, answer.begin, answer.end)
                else:
                    self._explain(answer)
            except (Unreachable, Refused) as failure:
                self._again(failure)
            except LonghallError as failure:
                raise PipelineError(f"{self._place()} at {self._opening.next_offset}: {failure}") from failure
            if self._opening.next_offset > before:
                self._deadline = time.monotonic() + PATIENCE_S

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        self._asked_for = -1

    def _next_answer(self) -> FetchedPartition:
        """The response for the next offset: the one in flight, or a new request."""
        offset = self._opening.next_offset
        if self._line is None:
            self._line = self._connect()
            if self._work.is_stored_form and not self._line.gives_stored_form:
                raise PipelineError(
                    f"{self._line.name} cannot give sealed messages of {self._work.topic} as ciphertext; upgrade it, "
                    "or archive them in clear with --open"
                )
        if self._asked_for != offset:
            if self._line.waiting:
                self._line.receive_frame()  # It began elsewhere than reading has come to.
            self._ask(offset)
        self._asked_for = -1
        return read_fetch_response(*self._line.receive_frame())

    def _ask(self, offset: int) -> None:
        work = self._work
        assert self._line is not None
        part = data.FetchRequestPartition(
            partition=work.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        request = data.FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(work.read_committed),
            rack_id=STORED_FORM if work.is_stored_form else "",
            topics=[data.FetchRequestTopic(topic=work.topic, topic_id=work.topic_id, partitions=[part])],
        )
        self._line.send(request, VERSION_MIN, VERSION_MIN if work.topic_id == NO_ID else None)
        self._asked_for = offset

    def _ask_ahead(self, answer: FetchedPartition) -> None:
        """Send the next request before this response is decoded, so that broker and task work at the same time."""
        headers = scan_headers(answer.frame, answer.begin, answer.end)
        if headers and headers[-1].next_offset < self._work.end:
            self._ask(headers[-1].next_offset)
        elif not headers:
            raise PipelineError(f"{self._place()} at {self._opening.next_offset}: not one whole batch was sent")

    def _explain(self, answer: FetchedPartition) -> None:
        """Handle a response without records: there is nothing yet, or it is deleted."""
        offset = self._opening.next_offset
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if answer.log_start_offset > offset:
                self._lose(offset, min(answer.log_start_offset, self._work.end), "were deleted before they were read")
            else:
                self._lose(offset, self._work.end, "are not there any more; was the topic recreated or cut off?")
        elif answer.error_code in _GONE and time.monotonic() > self._deadline - PATIENCE_S + GONE_PATIENCE_S:
            self._lose(offset, self._work.end, "are gone: the topic was deleted or recreated")
        elif answer.error_code:
            raise Refused(answer.error_code, self._place(), retriable=True if answer.error_code in _GONE else None)
        elif time.monotonic() > self._deadline:
            self._lose(offset, self._work.end, f"did not come within {PATIENCE_S:.0f} s")

    def _lose(self, first: int, until: int, words: str) -> None:
        if self._work.fail_on_data_loss:
            raise PipelineError(
                f"{self._place()}: offsets {first} to {until - 1} {words}; "
                "set the option failOnDataLoss to false to go on without them"
            )
        self._opening.skip_to(until)

    def _again(self, failure: LonghallError) -> None:
        """After a retriable failure: close the connection, wait, and look up the leader."""
        self.close()
        self._hint = None
        if not failure.retriable or time.monotonic() > self._deadline:
            unreachable = isinstance(failure, Unreachable)
            words = f"no broker answers at {self._work.bootstrap}" if unreachable else self._place()
            raise PipelineError(f"{words}: {str(failure).rstrip('.')}") from failure
        time.sleep(0.1)

    def _connect(self) -> BrokerConnection:
        if self._hint is not None:
            return BrokerConnection.open(*self._hint, self._work.security)
        failure: Unreachable | None = None
        for address in self._work.bootstrap.split(","):
            try:
                with BrokerConnection.open(*split_address(address.strip()), self._work.security) as line:
                    return BrokerConnection.open(*self._leader(line), self._work.security)
            except Unreachable as each:
                failure = each
        assert failure is not None
        raise failure

    def _leader(self, line: BrokerConnection) -> tuple[str, int]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._work.topic)], allow_auto_topic_creation=False)
        answer = line.call(request, MetadataResponse)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for part in (part for topic in answer.topics for part in topic.partitions):
            if part.partition_index == self._work.partition and part.leader_id in brokers:
                return brokers[part.leader_id]
        # The response of this broker has the reason: the topic is deleted, or it does not lead.
        return split_address(line.name)

    def _place(self) -> str:
        return f"{self._work.topic}-{self._work.partition}"
