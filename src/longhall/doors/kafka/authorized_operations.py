"""The operations that a client may do, as the bits of Kafka's `authorized_operations`.

The Kafka door has no access control: every client that reaches it may do everything. So the answer is the set of all
operations that Kafka knows for the kind of resource; a client that did not ask gets none.
"""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -(1 << 31)

READ: Final = 3
WRITE: Final = 4
CREATE: Final = 5
DELETE: Final = 6
ALTER: Final = 7
DESCRIBE: Final = 8
CLUSTER_ACTION: Final = 9
DESCRIBE_CONFIGS: Final = 10
ALTER_CONFIGS: Final = 11
IDEMPOTENT_WRITE: Final = 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


OF_CLUSTER: Final = _bits(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
OF_TOPIC: Final = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
OF_GROUP: Final = _bits(READ, DELETE, DESCRIBE)
