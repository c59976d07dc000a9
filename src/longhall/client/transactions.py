"""Requests to the transaction coordinator, and administration of transactions.

`Producer` uses the first half. The second half finds and ends transactions that hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, final

from longhall.client.groups import Committed, Membership, Place, topics_of
from longhall.client.refusals import COORDINATOR_MOVED, check
from longhall.doors.kafka.wire.messages import transaction_admin as a
from longhall.doors.kafka.wire.messages import transactions as t
from longhall.doors.kafka.wire.messages.cluster import CoordinatorType
from longhall.doors.kafka.wire.schema import Message

if TYPE_CHECKING:
    from longhall.client.hall import Hall

TIMEOUT_MS: Final = 60_000
_CLIENTS_VERSION_MAX: Final = 3  # Later versions of AddPartitionsToTxn are for brokers among themselves.
_KEEPS_EPOCH_VERSION_MAX: Final = (
    4  # From the next EndTxn and TxnOffsetCommit on, the epoch rises with each transaction.
)

_R = TypeVar("_R", bound=Message)


class Identity(NamedTuple):
    """The producer id and epoch that a hall knows a producer by."""

    producer_id: int
    epoch: int


@final
class Transactions:
    """Requests about transactions, reached as `hall.transactions`."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    # What a producer asks.

    async def identify(
        self, transactional_id: str | None, timeout_ms: int = TIMEOUT_MS, current: Identity | None = None
    ) -> Identity:
        """A new identity. With a transactional id it fences earlier holders and ends their open transactions.

        With its current identity a producer gets the next epoch, and is refused if another producer has fenced it.
        """
        request = t.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        if current is not None:
            request.producer_id, request.producer_epoch = current

        async def attempt() -> Identity:
            if transactional_id is None:
                answer = await self._hall.ask(None, request, t.InitProducerIdResponse)
            else:
                answer = await self._ask(transactional_id, request, t.InitProducerIdResponse)
                self._check(transactional_id, answer.error_code)
            check(answer.error_code)
            return Identity(answer.producer_id, answer.producer_epoch)

        return await self._hall.persist(attempt)

    async def add_partitions(self, transactional_id: str, who: Identity, places: Sequence[Place]) -> None:
        topics: dict[str, t.AddPartitionsToTxnRequestTopic] = {}
        for topic, partition in places:
            topics.setdefault(topic, t.AddPartitionsToTxnRequestTopic(name=topic)).partitions.append(partition)
        request = t.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=list(topics.values()),
        )

        async def attempt() -> None:
            answer = await self._ask(transactional_id, request, t.AddPartitionsToTxnResponse, _CLIENTS_VERSION_MAX)
            for topic in answer.results_by_topic_v3_and_below:
                for part in topic.results_by_partition:
                    self._check(transactional_id, part.partition_error_code)

        await self._hall.persist(attempt)

    async def add_offsets(self, transactional_id: str, who: Identity, group_id: str) -> None:
        request = t.AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=who.producer_id, producer_epoch=who.epoch, group_id=group_id
        )

        async def attempt() -> None:
            answer = await self._ask(transactional_id, request, t.AddOffsetsToTxnResponse)
            self._check(transactional_id, answer.error_code)

        await self._hall.persist(attempt)

    async def commit_offsets(
        self,
        transactional_id: str,
        who: Identity,
        group_id: str,
        offsets: dict[Place, Committed],
        membership: Membership,
        *,
        rising: bool,
    ) -> None:
        request = t.TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            generation_id=membership.generation_id,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            topics=topics_of(offsets, t.TxnOffsetCommitRequestTopic, t.TxnOffsetCommitRequestPartition),
        )

        async def attempt() -> None:
            answer = await self._hall.ask_coordinator(
                CoordinatorType.GROUP,
                group_id,
                request,
                t.TxnOffsetCommitResponse,
                version_max=None if rising else _KEEPS_EPOCH_VERSION_MAX,
            )
            for topic in answer.topics:
                for part in topic.partitions:
                    if part.error_code in COORDINATOR_MOVED:
                        self._hall.forget_coordinator(CoordinatorType.GROUP, group_id)
                    check(part.error_code, f"{topic.name}-{part.partition_index}")

        await self._hall.persist(attempt)

    async def end(self, transactional_id: str, who: Identity, *, commit: bool, rising: bool) -> Identity:
        """Commit or abort; returns the identity for the next transaction."""
        request = t.EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=commit,
        )

        async def attempt() -> Identity:
            answer = await self._ask(
                transactional_id, request, t.EndTxnResponse, None if rising else _KEEPS_EPOCH_VERSION_MAX
            )
            self._check(transactional_id, answer.error_code)
            if answer.producer_id < 0:
                return who
            return Identity(answer.producer_id, answer.producer_epoch)

        return await self._hall.persist(attempt)

    async def _ask(
        self, transactional_id: str, request: Message, expected: type[_R], version_max: int | None = None
    ) -> _R:
        """Send a request to the coordinator of a transactional id, once."""
        return await self._hall.ask_coordinator(
            CoordinatorType.TRANSACTION, transactional_id, request, expected, version_max=version_max
        )

    # What an administrator asks.

    async def list(
        self, states: list[str] | None = None, *, longer_than_ms: int = -1
    ) -> list[a.ListTransactionsResponseTransaction]:
        """The transactions of all brokers, by transactional id."""
        found: dict[str, a.ListTransactionsResponseTransaction] = {}
        request = a.ListTransactionsRequest(state_filters=states or [], duration_filter=longer_than_ms)
        for node_id in self._hall.brokers:

            async def attempt(node_id: int = node_id) -> a.ListTransactionsResponse:
                answer = await self._hall.ask(node_id, request, a.ListTransactionsResponse)
                check(answer.error_code)
                return answer

            rows = (await self._hall.persist(attempt)).transaction_states
            found.update({row.transactional_id: row for row in rows})
        return [found[name] for name in sorted(found)]

    async def describe(self, transactional_id: str) -> a.DescribeTransactionsResponseTransaction:
        async def attempt() -> a.DescribeTransactionsResponseTransaction:
            request = a.DescribeTransactionsRequest(transactional_ids=[transactional_id])
            answer = await self._hall.ask_coordinator(
                CoordinatorType.TRANSACTION, transactional_id, request, a.DescribeTransactionsResponse
            )
            self._check(transactional_id, answer.transaction_states[0].error_code)
            return answer.transaction_states[0]

        return await self._hall.persist(attempt)

    async def abort(self, transactional_id: str) -> None:
        """End a transaction that hangs: the holder of the id is fenced, and its open transaction is aborted."""
        await self.describe(transactional_id)  # Aborting must not create an unknown id.
        await self.identify(transactional_id)

    async def producers(self, topic: str, partition: int) -> Sequence[a.DescribeProducersResponseProducer]:
        """The recent producers of a partition, and where their open transactions began."""
        row = a.DescribeProducersRequestTopic(name=topic, partition_indexes=[partition])
        request = a.DescribeProducersRequest(topics=[row])

        async def attempt() -> Sequence[a.DescribeProducersResponseProducer]:
            leader = await self._hall.leader_of(topic, partition)
            part = (await self._hall.ask(leader, request, a.DescribeProducersResponse)).topics[0].partitions[0]
            check(part.error_code, part.error_message)
            return part.active_producers

        return await self._hall.persist(attempt)

    def _check(self, transactional_id: str, error_code: int) -> None:
        if error_code in COORDINATOR_MOVED:
            self._hall.forget_coordinator(CoordinatorType.TRANSACTION, transactional_id)
        check(error_code, f"transactional id {transactional_id}")
