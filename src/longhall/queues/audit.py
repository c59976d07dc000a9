"""The records of an audit topic: everything that happened to the messages of a queue, as JSON, one object a record.

    kind        written with                   reason                              until_ms
    delivered   a lease                        -                                   the end of the lease
    settled     a settle; a delivery at most   "answered" if an answer stood for   -
                once                           it, else empty
    returned    a give-back                    -                                   when it is available again
    died        a death                        attempts, expired, length, gone,    -
                                               deleted; `target`: the dead letters
    moved       an operator's hand             redriven, edited; `target`: where   -
    purged      a purge                        -                                   -
    rewound     a rewind                       -                                   -

The key is the message id. `purged` and `rewound` tell of a lane and have no message id: `offset` is the first that is
not gone, or the first that is given out again. The end of a lease is no event, so it is no record: the next `delivered`
of that message, after `until_ms`, tells of it. What was sent stands in the queue's own topic; `lane` (the id of the
partition) and `offset` name the place there, `sent_ms` and `size_bytes` save the look-up. Fields are only added;
readers pass over what they do not know.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from longhall.records.record import Record

SUFFIX: Final = ".deliveries"
VERSION: Final = 1

Kind = Literal["delivered", "settled", "returned", "died", "moved", "purged", "rewound"]


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """One record."""

    version: int = VERSION
    kind: Kind
    queue: str
    time_ms: int
    message_id: str = ""
    lane: int
    partition: int = 0  # The lane as Kafka numbers it; -N: the lane of priority N, which the topic does not show.
    offset: int
    attempt: int = 0  # How often it has been given out, this time included; 0: never.
    reason: str = ""
    consumer: str = ""  # Whoever asked, as far as its door knows.
    sent_ms: int = 0
    size_bytes: int = 0
    group: str = ""
    until_ms: int = 0
    target: str = ""


def audit_record(audited: Audited) -> Record:
    """As it stands in the topic."""
    key = audited.message_id.encode() or None
    return Record(-1, audited.time_ms, key, msgspec.json.encode(audited), ())
