"""A generated day of one queue: sent messages and audit events, with planted losses and repeats that a job must find.

Everything is made of records, so that no day has to pass; the seed is fixed, so that the day is always the same.
"""

from __future__ import annotations

import math
import random
from typing import Final, NamedTuple

from longhall.queues.audit import Audited, audit_record
from longhall.queues.envelope import derive_message_id
from longhall.records.batch import Record

DAY_MS: Final = 24 * 3_600_000
BEGIN_MS: Final = 1_762_732_800_000  # 2025-11-10, midnight UTC.
PARTITIONS: Final = 2
LANES: Final = (40, 41)
HOT: Final = "customer-7"
LEASE_MS: Final = 30_000


class Planted(NamedTuple):
    """The planted messages; places are (partition, offset)."""

    messages: int
    lost: set[tuple[int, int]]
    twice: set[tuple[int, int]]
    after_settle: set[tuple[int, int]]
    died: dict[str, int]
    open: int
    hot: int


class Day(NamedTuple):
    """Records by partition, the audit, and what was planted."""

    sent: list[list[Record]]
    audit: list[Record]
    planted: Planted


class _Maker:
    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.random = random.Random(1177)
        self.sent: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.events: list[Audited] = []

    def send(self, at_ms: int, hot: bool) -> tuple[int, int]:
        key = HOT if hot else f"customer-{100 + self.random.randrange(300)}"
        partition = 0 if hot else self.random.randrange(PARTITIONS)
        body = b"%d:" % at_ms + bytes(self.random.randrange(100, 400))
        self.sent[partition].append(Record(-1, at_ms, key.encode(), body))
        return partition, len(self.sent[partition]) - 1

    def tell(self, kind: str, place: tuple[int, int], time_ms: int, attempt: int = 1, **more: object) -> None:
        partition, offset = place
        record = self.sent[partition][offset]
        self.events.append(
            Audited(
                kind=kind,  # type: ignore[arg-type]
                queue=self.queue,
                time_ms=time_ms,
                message_id=derive_message_id(LANES[partition], offset),
                lane=LANES[partition],
                partition=partition,
                offset=offset,
                attempt=attempt,
                sent_ms=record.timestamp_ms,
                size_bytes=len(record.value or b""),
                **more,  # type: ignore[arg-type]
            )
        )

    def deliver(self, place: tuple[int, int], time_ms: int, attempt: int = 1) -> None:
        consumer = f"worker-{self.random.randrange(4)}"
        self.tell("delivered", place, time_ms, attempt, until_ms=time_ms + LEASE_MS, consumer=consumer)

    def work(self, at_ms: int) -> int:
        """How long a message waits and is worked on: longer around noon."""
        noon = math.exp(-(((at_ms - BEGIN_MS) / DAY_MS - 0.55) ** 2) / 0.004)
        return int(self.random.expovariate(1 / (400 + 4000 * noon))) + 20


def make_day(queue: str, messages: int = 1200) -> Day:
    """Generate the day."""
    maker = _Maker(queue)
    times = sorted(_moment(maker.random) for _ in range(messages - 4))
    fates = ["lost"] * 3 + ["half"] * 2 + ["twice"] * 7 + ["late"] + ["attempts"] * 6 + ["expired"] * 3
    chosen = dict(zip(maker.random.sample(range(10, len(times) - 60), len(fates)), fates, strict=True))
    planted = Planted(messages, set(), set(), set(), {"attempts": 6, "expired": 3}, 4, 0)
    hot = 0
    for number, at_ms in enumerate(times):
        is_hot = number % 5 == 0
        hot += is_hot
        place = maker.send(at_ms, is_hot)
        _live(maker, place, at_ms, chosen.get(number, "settled"), planted)
    for number in range(4):  # The last ones are still there when the records end.
        maker.send(BEGIN_MS + DAY_MS - 4000 + number, False)
    maker.events.sort(key=lambda event: event.time_ms)
    return Day(maker.sent, [audit_record(event) for event in maker.events], planted._replace(hot=hot))


def _moment(chance: random.Random) -> int:
    """More in the afternoon than at night, and a little time before midnight for the last to be settled."""
    while True:
        at = chance.random()
        if chance.random() < 0.35 + 0.65 * math.sin(math.pi * at) ** 2:
            return BEGIN_MS + int(at * (DAY_MS - 1_800_000))


def _live(maker: _Maker, place: tuple[int, int], at_ms: int, fate: str, planted: Planted) -> None:
    """The life of one message."""
    now = at_ms + maker.work(at_ms)
    if fate in ("lost", "half"):
        planted.lost.add(place)
        if fate == "half":
            maker.deliver(place, now)
        return
    if fate == "expired":
        maker.tell("died", place, now + 60_000, 0, reason="expired", target="dead")
        return
    maker.deliver(place, now)
    if fate == "attempts":
        planted.twice.add(place)
        for attempt in (2, 3):
            now += LEASE_MS + 500
            maker.deliver(place, now, attempt)
        maker.tell("died", place, now + LEASE_MS, 3, reason="attempts", target="dead")
        return
    attempt = 1
    if fate == "twice":
        planted.twice.add(place)
        now += LEASE_MS + 200
        attempt = 2
        maker.deliver(place, now, attempt)
    now += maker.work(at_ms)
    maker.tell("settled", place, now, attempt)
    if fate == "late":
        planted.twice.add(place)
        planted.after_settle.add(place)
        maker.deliver(place, now + 100, 2)
