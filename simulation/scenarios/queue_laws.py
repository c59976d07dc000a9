"""The queues of the scenarios, by their guarantees, and the settings with which a node gives these guarantees."""

from __future__ import annotations

import json
from typing import Final

from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy
from simulation.checkers.messages import Law
from simulation.scenarios.large_messages import LIMIT_BYTES, PRIORITIES, WHOLE_BYTES_MAX
from simulation.scenarios.sqs_client import arn_of

ATTEMPTS_MAX: Final = 3
TIME_TO_LIVE_S: Final = 12.0
PART_MESSAGES: Final = 600
MASTER_KEY: Final = "house"  # Of sealed queues.

PLAIN: Final = Law("plain")
ORDERED: Final = Law("ordered.fifo", fifo=True)
POISON: Final = Law("poison", attempts_max=ATTEMPTS_MAX, dead="dead")
TRIED: Final = Law("tried", attempts_max=ATTEMPTS_MAX, dead="dead", retry_s=1.5, lapses=True)
DEAD: Final = Law("dead")
REVIVED: Final = Law("revived")
SHORT: Final = Law("short", time_to_live_s=TIME_TO_LIVE_S, messages_max=60, attempts_max=1000, dead="expired")
EXPIRED: Final = Law("expired")
STRICT: Final = Law("strict", one_by_one=True)
ONCE: Final = Law("once", at_most_once=True)
PURGED: Final = Law("purged")
RANKED: Final = Law("ranked", attempts_max=ATTEMPTS_MAX, dead="ranked-dead", parcels=True)
STAMPED: Final = Law("stamped", attempts_max=ATTEMPTS_MAX, dead="ranked-dead", stamped=True)
RANKED_DEAD: Final = Law("ranked-dead")
AUDITED: Final = Law("audited", audited=True)
COLOURED: Final = Law("coloured")
LINES: Final = Law("lines.fifo", fifo=True, attempts_max=ATTEMPTS_MAX, dead="lines-dead.fifo")
LINES_DEAD: Final = Law("lines-dead.fifo", fifo=True)
WIDE: Final = Law("wide.fifo", fifo=True, parts_max=8)
BROAD: Final = Law("broad.fifo", fifo=True, parts_max=4, attempts_max=ATTEMPTS_MAX, dead="broad-dead.fifo")
BROAD_DEAD: Final = Law("broad-dead.fifo", fifo=True)
SPREAD: Final = Law("spread", parts_max=4)
KEYED: Final = Law("keyed.fifo", fifo=True, parts_max=8)
NEAR: Final = Law("near", placement="any-host")
APART: Final = Law("apart.fifo", fifo=True, placement="parts")
SHARED: Final = Law("shared", placement="share")
URGENT: Final = Law("urgent", placement="any-host")
USUAL: Final = Law("usual")
USUAL_LINES: Final = Law("usual.fifo", fifo=True)
SEALED: Final = Law("sealed", attempts_max=ATTEMPTS_MAX, dead="sealed-dead", retry_s=1.5, sealed=True)
SEALED_DEAD: Final = Law("sealed-dead")  # In clear by itself: its letters keep the seal of their source.
SEALED_LINES: Final = Law("sealed.fifo", fifo=True, sealed=True)
SINGLE: Final = Law("single", one_by_one=True)


def attributes_of(law: Law) -> dict[str, str]:
    """The SQS attributes with which a client creates such a queue, in wings or where the cluster puts it."""
    attributes = {"LonghallPlacement": law.placement} if law.placement else {}
    if law.dead:
        policy = {"deadLetterTargetArn": arn_of(law.dead), "maxReceiveCount": law.attempts_max}
        attributes["RedrivePolicy"] = json.dumps(policy)
    if law.one_by_one:
        attributes["LonghallOneByOne"] = "true"
    if law.fifo:
        attributes["FifoQueue"] = "true"
    if law.fifo and law.placement:
        attributes["DeduplicationScope"] = "messageGroup"
    return attributes


def settings_of(law: Law) -> QueueSettings:
    return QueueSettings(
        fifo=law.fifo,
        deduplication="id" if law.fifo else "off",
        delivery="at-most-once" if law.at_most_once else "at-least-once",
        one_by_one=law.one_by_one,
        late_stamped="head" if law.stamped else "arrival",
        priorities=PRIORITIES if law.parcels else 1,
        message_bytes_max=LIMIT_BYTES if law.parcels else 256 * 1024,
        whole_bytes_max=WHOLE_BYTES_MAX if law.parcels else 0,
        audit="deliveries" if law.audited else "off",
        time_to_live_ms=int(law.time_to_live_s * 1000),
        messages_max=law.messages_max or (PART_MESSAGES * law.parts_max if law.parts_max > 1 else 0),
        when_full="dead-letter" if law.messages_max else "wait",
        parts_max=law.parts_max,
        # It grows at 18 messages, at 36 and at 72, and shrinks below 48, 24 and 12.
        grow_at=3 if law.parts_max > 1 else 80,
        shrink_at=1,
        shrink_after_ms=2_000,
        retry=RetryPolicy(first_ms=int(law.retry_s * 1000), lapsed=law.lapses) if law.retry_s else None,
        sealed=MASTER_KEY if law.sealed else "",
        dead_letters=DeadLetters(queue=law.dead, attempts_max=law.attempts_max) if law.dead else None,
    )
