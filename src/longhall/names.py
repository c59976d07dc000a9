"""The words that every room shares: names, numbers with a meaning, and what a legal name is.

A name never becomes a path: files are called after internal ids, so nothing here is about escaping.
"""

from __future__ import annotations

import re
from typing import Final, NewType

TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)  # 16 random bytes, given once; a recreated topic has another one.
GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
TransactionalId = NewType("TransactionalId", str)

PartitionNumber = NewType("PartitionNumber", int)  # Within its topic, from 0.
PartitionId = NewType("PartitionId", int)  # Within the hall, never reused; names the partition's directory.
ShardId = NewType("ShardId", int)

Offset = NewType("Offset", int)  # Within a partition.
Sequence = NewType("Sequence", int)  # Within a shard.
Position = NewType("Position", int)  # A byte in the write-ahead log, counted since the first one ever written.
Epoch = NewType("Epoch", int)
ProducerId = NewType("ProducerId", int)

CATALOGUE_SHARD: Final = ShardId(0)
OUTBOX_SHARD: Final = ShardId(1)  # The shard of all outboxes of a group.
USAGE_SHARD: Final = ShardId(1)  # The shard of the usage of a group that is not in the usage topic yet.
NAME_LENGTH_MAX: Final = 249
INTERNAL_PREFIX: Final = "__longhall_"  # Topics that Longhall keeps for itself; lists and patterns pass over them.
ARCHIVE_GROUP: Final = GroupId("longhall.archive")  # Its offsets say how far topics are archived.
JOB_GROUP_PREFIX: Final = "longhall."  # Groups in which jobs remember how far they are: that never gets too old.
SETTLE_GROUP: Final = "longhall.settle."  # Offsets of these groups are settles of the queue that follows.
AUDIT_TOPIC: Final = "longhall.audit"
USAGE_TOPIC: Final = "longhall.usage"
SYSTEM_TOPICS: Final = frozenset({AUDIT_TOPIC, USAGE_TOPIC})  # Clients read them; only Longhall writes or changes them.
STORED_FORM: Final = "longhall.stored"  # The feature, and the rack of consumers who want batches as they are stored.
SEALED: Final = "longhall.sealed"  # The configurations of sealed topics: the master key,
SEAL_KEYS: Final = "longhall.seal.keys"  # and the data keys.

_LEGAL = re.compile(r"[A-Za-z0-9._-]+")


def is_legal_name(name: str) -> bool:
    """Kafka's rule for topics, which the names of queues obey as well."""
    return len(name) <= NAME_LENGTH_MAX and name not in (".", "..") and _LEGAL.fullmatch(name) is not None
