"""The records of an audit topic: what happened to the messages of a queue, one JSON object a record.

    kind        written with                   reason                              until_ms
    delivered   a lease                        -                                   the end of the lease
    settled     a settle; an at-most-once      "answered" if a reply settled it,   -
                delivery                       else empty
    returned    a give-back                    -                                   when it is available again
    died        a death                        attempts, expired, retention,       -
                                               length, gone, rejected, deleted;
                                               `target`: the dead letters
    moved       an operator's request          redriven, edited; `target`: where   -
    purged      a purge                        -                                   -
    rewound     a rewind                       -                                   -

The key is the message id. `purged` and `rewound` describe a lane and have no message id: `offset` is the first offset
that is left, or the first that is delivered again. The end of a lease is not an event and has no record: the next
`delivered` record of the message, after `until_ms`, implies it. The message itself is in the queue's own topic; `lane`
(the partition id) and `offset` locate it there, `sent_ms` and `size_bytes` save the look-up. Fields are only added;
readers ignore fields that they do not know.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from longhall.records.record import Record

SUFFIX: Final = ".deliveries"
VERSION: Final = 1

Kind = Literal["delivered", "settled", "returned", "died", "moved", "purged", "rewound"]


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """One record of an audit topic, as its JSON body."""

    version: int = VERSION
    kind: Kind
    queue: str
    time_ms: int
    message_id: str = ""
    lane: int
    partition: int = 0  # The lane as Kafka numbers it; -N: the lane of priority N, which the topic does not show.
    offset: int
    attempt: int = 0  # Deliveries so far, this one included; 0: never delivered.
    reason: str = ""
    consumer: str = ""  # The consumer, as far as its door knows it.
    sent_ms: int = 0
    size_bytes: int = 0
    group: str = ""
    until_ms: int = 0
    target: str = ""


def audit_record(audited: Audited) -> Record:
    """The record that is written to the audit topic."""
    key = audited.message_id.encode() or None
    return Record(-1, audited.time_ms, key, msgspec.json.encode(audited), ())
