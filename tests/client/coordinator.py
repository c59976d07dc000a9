"""The coordinator of the scripted broker: a group of one member, and transactions that record their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longhall.doors.kafka.wire.messages import commits, groups, transactions
from longhall.doors.kafka.wire.schema import Message

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 11, 12, 13, 14
ADD_PARTITIONS, ADD_OFFSETS, END_TRANSACTION, COMMIT_OFFSETS = 24, 25, 26, 28


class ScriptedCoordinator:
    def __init__(self) -> None:
        self.generation = 0
        self.members = 0
        self.committed: dict[tuple[str, int], int] = {}
        self.heartbeats = 0
        self.left: list[str] = []
        self.steps: list[object] = []  # Of transactions, in order.

    def serve(self, api_key: int, version: int, request: Any, error: int) -> Message | None:
        answers: dict[int, Callable[[int, Any, int], Message]] = {
            OFFSET_COMMIT: self._commit,
            OFFSET_FETCH: self._fetch,
            JOIN_GROUP: self._join,
            SYNC_GROUP: self._sync,
            HEARTBEAT: self._beat,
            LEAVE_GROUP: self._leave,
            ADD_PARTITIONS: self._add_partitions,
            ADD_OFFSETS: self._add_offsets,
            END_TRANSACTION: self._end,
            COMMIT_OFFSETS: self._commit_in_transaction,
        }
        return answers[api_key](version, request, error) if api_key in answers else None

    def _join(self, version: int, request: groups.JoinGroupRequest, error: int) -> Message:
        if error:
            return groups.JoinGroupResponse(error_code=error)
        if not request.member_id:
            self.members += 1
            return groups.JoinGroupResponse(error_code=79, member_id=f"member-{self.members}")
        self.generation += 1
        member = groups.JoinGroupResponseMember(member_id=request.member_id, metadata=request.protocols[0].metadata)
        return groups.JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=request.protocols[0].name,
            leader=request.member_id,
            member_id=request.member_id,
            members=[member],
        )

    def _sync(self, version: int, request: groups.SyncGroupRequest, error: int) -> Message:
        if error:
            return groups.SyncGroupResponse(error_code=error)
        return groups.SyncGroupResponse(assignment=request.assignments[0].assignment)

    def _beat(self, version: int, request: groups.HeartbeatRequest, error: int) -> Message:
        self.heartbeats += 1
        return groups.HeartbeatResponse(error_code=error)

    def _leave(self, version: int, request: groups.LeaveGroupRequest, error: int) -> Message:
        self.left += [member.member_id for member in request.members]
        return groups.LeaveGroupResponse()

    def _commit(self, version: int, request: commits.OffsetCommitRequest, error: int) -> Message:
        topics = []
        for topic in request.topics:
            rows = []
            for part in topic.partitions:
                if not error:
                    self.committed[topic.name, part.partition_index] = part.committed_offset
                rows.append(
                    commits.OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                )
            topics.append(commits.OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return commits.OffsetCommitResponse(topics=topics)

    def _fetch(self, version: int, request: commits.OffsetFetchRequest, error: int) -> Message:
        by_topic: dict[str, list[commits.OffsetFetchResponseGroupTopicPartition]] = {}
        for (topic, partition), offset in self.committed.items():
            by_topic.setdefault(topic, []).append(
                commits.OffsetFetchResponseGroupTopicPartition(partition_index=partition, committed_offset=offset)
            )
        topics = [
            commits.OffsetFetchResponseGroupTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()
        ]
        group = commits.OffsetFetchResponseGroup(
            group_id=request.groups[0].group_id, topics=[] if error else topics, error_code=error
        )
        return commits.OffsetFetchResponse(groups=[group])

    def _add_partitions(self, version: int, request: transactions.AddPartitionsToTxnRequest, error: int) -> Message:
        topics = []
        for topic in request.v3_and_below_topics:
            rows = []
            for partition in topic.partitions:
                if not error:
                    self.steps.append(("add", topic.name, partition))
                rows.append(
                    transactions.AddPartitionsToTxnResponsePartition(
                        partition_index=partition, partition_error_code=error
                    )
                )
            topics.append(transactions.AddPartitionsToTxnResponseTopic(name=topic.name, results_by_partition=rows))
        return transactions.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _add_offsets(self, version: int, request: transactions.AddOffsetsToTxnRequest, error: int) -> Message:
        self.steps.append(("add offsets", request.group_id))
        return transactions.AddOffsetsToTxnResponse(error_code=error)

    def _commit_in_transaction(self, version: int, request: transactions.TxnOffsetCommitRequest, error: int) -> Message:
        self.steps.append(("offsets", request.group_id, request.generation_id))
        return transactions.TxnOffsetCommitResponse()

    def _end(self, version: int, request: transactions.EndTxnRequest, error: int) -> Message:
        if not error:
            self.steps.append("commit" if request.committed else "abort")
        if version < 5:
            return transactions.EndTxnResponse(error_code=error)
        return transactions.EndTxnResponse(
            error_code=error, producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
        )
