"""Members of a Kafka share group on a queue that SQS clients consume too: the oracle of queues judges both.

A member accepts, releases, renews and abandons what it acquires. It holds a record only as long as its connection: the
node returns what it held when that closes. So when a request fails, nothing is certain of what it holds from then on.
Nodes of these scenarios are killed, and one that stops or is deposed does not return what members held: a connection
that a node closes by itself ends no lease.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, TypeVar, final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.doors.kafka.wire.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from longhall.doors.kafka.wire.messages.share_records import (
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
    ShareFetchResponse,
    ShareFetchResponsePartition,
)
from longhall.records.batch import parse_header, read_records
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand
from simulation.scenarios.consumers import Habits
from simulation.scenarios.producers import key_of
from simulation.scenarios.run_context import RunContext

LOCK_S: Final = 4.0
PATIENCE_MS: Final = 1000
GROUP_RESOURCE: Final = 32
ACCEPT: Final = 1
RELEASE: Final = 2
RENEW: Final = 4
INVALID_RECORD_STATE: Final = 121
# NOT_LEADER, REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE, NOT_ENOUGH_REPLICAS with and without an append: the leader
# changes, and whether an acknowledgement was committed is not known.
_UNDECIDED: Final = (6, 7, 15, 19, 20)
# SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH: the session has ended.
_SESSION_ENDED: Final = (122, 123)

_R = TypeVar("_R", ShareFetchResponse, ShareAcknowledgeResponse)

Held = tuple[int, str, int]  # Offset, key and ticket.


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def configure_group(context: RunContext, group: str) -> None:
    """Give a group the length of its locks, however long the node takes to answer."""
    hall = await context.connect(f"administrator of {group}")
    name = "share.record.lock.duration.ms"
    config = IncrementalAlterConfigsRequestConfig(name=name, value=str(int(LOCK_S * 1000)))
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    while True:
        try:
            answer = await hall.ask(None, request, IncrementalAlterConfigsResponse)
        except (Refused, Unreachable):
            await asyncio.sleep(0.2)
            continue
        demand(not answer.responses[0].error_code, f"{group} cannot be configured: {answer.responses[0]}")
        return


class _SessionEnded(Exception):
    """The node does not know the session, or an answer is missing: it is opened again."""


@final
class ShareClient:
    """One member of a share group, on one queue of one partition."""

    def __init__(
        self, context: RunContext, oracle: QueueOracle, name: str, group: str, queue: str, habits: Habits
    ) -> None:
        self._context = context
        self._oracle = oracle
        self._name = name
        self._group = group
        self._queue = queue
        self._habits = habits
        self._chance: random.Random = context.stream(name)
        self._hall: Hall | None = None
        self._line = ""
        self._epoch = 0
        self._topic_id = b""
        self._held: dict[str, int] = {}  # Key to ticket of everything that it may hold.

    async def run(self, pause_s: float) -> None:
        hall = self._hall = await self._context.connect(self._name)
        chance = self._chance
        while not self._context.closing:
            await self._context.rest(chance.expovariate(1 / pause_s))
            try:
                if not self._topic_id:
                    self._topic_id = (await hall.topic(self._queue)).topic_id
                held = await self._fetch(chance.randint(1, 10), chance.choice((0, 500)))
                await self._handle(held)
            except (Refused, Unreachable, _SessionEnded):
                await asyncio.sleep(chance.uniform(0.05, 0.3))
        self._end_session()
        hall.close()

    # Requests

    async def _fetch(self, count: int, wait_ms: int) -> list[Held]:
        asked_s = _now_s()
        topics = []
        if self._epoch == 0:
            self._line = self._of_hall().new_line()
            parts = [ShareFetchRequestPartition(partition_index=0)]
            topics = [ShareFetchRequestTopic(topic_id=self._topic_id, partitions=parts)]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=count,
            batch_size=count,
            share_acquire_mode=self._chance.choice((0, 1)),
            topics=topics,
        )
        try:
            answer = await self._ask(request, ShareFetchResponse, wait_ms)
        except Unreachable:
            self._oracle.unanswered(self._queue, count, _now_s())
            self._end_session()
            raise
        self._check_session(answer.error_code)
        self._epoch += 1
        rows = [row for topic in answer.responses for row in topic.partitions]
        if not rows:
            return []
        if rows[0].error_code:
            self._end_session()
            raise _SessionEnded
        return self._received(rows[0], asked_s)

    def _received(self, row: ShareFetchResponsePartition, asked_s: float) -> list[Held]:
        counts = {
            offset: acquired.delivery_count
            for acquired in row.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        found: list[tuple[int, str, int]] = []
        data = row.records or b""
        at = 0
        while at < len(data):
            for record in read_records(data, at):
                if record.offset in counts:
                    key = key_of((record.value or b"").decode())
                    found.append((record.offset, key, counts.pop(record.offset)))
            at += parse_header(data, at).size_bytes
        demand(not counts, f"{self._queue}: {sorted(counts)} were acquired, and no batch of the answer has them")
        told = [(key, self._id_of(key), attempts) for _, key, attempts in found]
        tickets = self._oracle.received(self._queue, told, asked_s, _now_s(), LOCK_S)
        held = [(offset, key, ticket) for (offset, key, _), ticket in zip(found, tickets, strict=True)]
        self._held.update((key, ticket) for _, key, ticket in held)
        return held

    def _id_of(self, key: str) -> str:
        """The id that SQS shows, which share members do not see."""
        message = self._oracle.messages.get(key)
        return message.message_id if message is not None else ""

    async def _acknowledge(self, offsets: list[int], kind: int) -> int:
        batches = [
            AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset in offsets
        ]
        parts = [ShareAcknowledgeRequestPartition(partition_index=0, acknowledgement_batches=batches)]
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._epoch,
            is_renew_ack=kind == RENEW,
            topics=[ShareAcknowledgeRequestTopic(topic_id=self._topic_id, partitions=parts)],
        )
        answer = await self._ask(request, ShareAcknowledgeResponse, 0)
        self._check_session(answer.error_code)
        self._epoch += 1
        return answer.responses[0].partitions[0].error_code

    async def _ask(self, request: ShareFetchRequest | ShareAcknowledgeRequest, expected: type[_R], wait_ms: int) -> _R:
        node = await self._of_hall().leader_of(self._queue, 0)
        return await self._of_hall().ask(node, request, expected, line=self._line, timeout_ms=wait_ms + PATIENCE_MS)

    def _check_session(self, error_code: int) -> None:
        expected = (0, *_SESSION_ENDED, *_UNDECIDED)
        demand(error_code in expected, f"{self._queue}: a share session gave error {error_code}")
        if error_code:
            self._end_session()
            raise _SessionEnded

    def _end_session(self) -> None:
        """The node returns what the member holds when it sees that the connection is closed."""
        now_s = _now_s()
        for key, ticket in self._held.items():
            self._oracle.changing(key, ticket, now_s)
        self._held = {}
        self._epoch = 0
        self._of_hall().close_line(self._line)

    def _of_hall(self) -> Hall:
        assert self._hall is not None
        return self._hall

    # Habits

    async def _handle(self, held: list[Held]) -> None:
        """Accept, release and renew by habit, some of it late; what is left is abandoned."""
        kinds: dict[int, list[Held]] = {ACCEPT: [], RELEASE: [], RENEW: []}
        late: list[Held] = []
        habits = self._habits
        for one in held:
            chance = self._chance.random()
            if chance < habits.settle:
                kinds[ACCEPT].append(one)
            elif chance < habits.settle + habits.give_back:
                kinds[RELEASE].append(one)
            elif chance < habits.settle + habits.give_back + habits.extend:
                kinds[RENEW].append(one)
            elif chance < habits.settle + habits.give_back + habits.extend + habits.late:
                late.append(one)
        try:
            for kind, some in kinds.items():
                if some:
                    await self._acknowledge_some(some, kind)
            if late:
                await asyncio.sleep(self._chance.uniform(3.0, 9.0))
                await self._acknowledge_some(late, ACCEPT)
        except Unreachable:
            self._end_session()
            raise

    async def _acknowledge_some(self, some: list[Held], kind: int) -> None:
        oracle = self._oracle
        now_s = _now_s()
        law = oracle.laws[self._queue]
        certain = all(now_s + PATIENCE_MS / 1000 < oracle.messages[key].leased_until_s for _, key, _ in some)
        current = {key: oracle.is_current(key, ticket) for _, key, ticket in some}
        until_s = now_s + (LOCK_S if kind == RENEW else law.wait_s(oracle.messages[some[0][1]].attempts))
        for _, key, ticket in some:
            if kind == ACCEPT:
                oracle.settling(key, ticket)
            else:
                oracle.changing(key, ticket, until_s)
        error_code = await self._acknowledge([offset for offset, _, _ in some], kind)
        if error_code in _UNDECIDED:
            self._end_session()
            raise _SessionEnded
        demand(error_code in (0, INVALID_RECORD_STATE), f"{self._queue}: acknowledging gave error {error_code}")
        demand(
            not (error_code and certain and all(current.values())),
            f"{self._queue}: records that {self._name} holds were not acknowledged: {some}",
        )
        if error_code:
            return
        for _, key, ticket in some:
            if kind == ACCEPT:
                oracle.settled_now(key, ticket, _now_s())
            else:
                oracle.changed(key, ticket, until_s, was_current=current[key])
