"""Oracles of topic state: offsets of groups, last values of keys, existing topics, and the start set by retention."""

from __future__ import annotations

from typing import Final, final

from simulation.checkers.sends import Outcome, Place, Send
from simulation.checkers.violation import demand

RECORD_OVERHEAD_BYTES: Final = 100  # The most that a batch of one record takes beyond its value.


@final
class OffsetOracle:
    """One group's offset of one partition, committed by one client that only moves forward."""

    def __init__(self, group: str, place: Place) -> None:
        self.group = group
        self.place = place
        self.acknowledged = -1
        self.tried = -1

    def committing(self, offset: int) -> None:
        assert offset >= self.tried, "the committer only moves forward"
        self.tried = offset

    def committed(self, offset: int) -> None:
        self.acknowledged = max(self.acknowledged, offset)

    def found(self, offset: int, acknowledged_before: int) -> None:
        """The group's offset was read after `acknowledged_before` had been acknowledged; -1 if it had none."""
        who = f"group {self.group} on {self.place}"
        demand(offset >= acknowledged_before, f"{who}: {acknowledged_before} was acknowledged, {offset} was found")
        demand(offset <= self.tried, f"{who}: {offset} was found and only {self.tried} ever committed")


@final
class MembershipOracle:
    """A group with changing members: one owner for each partition and generation, and no reader starts before a
    commit.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self._owners: dict[tuple[int, tuple[str, int]], str] = {}
        self._done: dict[tuple[str, int], int] = {}

    def assigned(self, generation: int, member: str, places: list[tuple[str, int]]) -> None:
        for place in places:
            owner = self._owners.setdefault((generation, place), member)
            who = f"group {self.group}, generation {generation}"
            demand(owner == member, f"{who}: {place} belongs to {owner} and to {member}")

    def done(self) -> dict[tuple[str, int], int]:
        """The offsets that the group is known to have committed."""
        return dict(self._done)

    def committed(self, offsets: dict[tuple[str, int], int]) -> None:
        for place, offset in offsets.items():
            self._done[place] = max(self._done.get(place, 0), offset)

    def began(self, place: tuple[str, int], offset: int, done_before: dict[tuple[str, int], int]) -> None:
        """A member's first record of a partition, and the offsets that were committed before it joined."""
        least = done_before.get(place, 0)
        demand(offset >= least, f"group {self.group}: {place} was committed up to {least} and read from {offset}")


@final
class OwnershipOracle:
    """A group with server-side assignment: no partition is read by two members at once, and epochs only grow.

    A member that has not heard from its coordinator for a while may have lost its session without knowing; nothing is
    held against the group on its behalf after `SILENCE_S_MAX`, which is shorter than a session under any drift.
    """

    SILENCE_S_MAX: Final = 20.0

    def __init__(self, group: str) -> None:
        self.group = group
        self.assignments = 0  # The number of partitions that members took.
        self._readers: dict[tuple[bytes, int], str] = {}
        self._epochs: dict[str, int] = {}
        self._heard_at: dict[str, float] = {}

    def heard(self, member: str, epoch: int, sent_at: float) -> None:
        """The member got an answer to a heartbeat that it sent at this time."""
        before = self._epochs.get(member, 0)
        demand(epoch >= before, f"group {self.group}: the epoch of {member} went from {before} to {epoch}")
        self._epochs[member] = epoch
        self._heard_at[member] = sent_at

    def took(self, member: str, places: frozenset[tuple[bytes, int]], now: float) -> None:
        for place in places:
            self.assignments += 1
            reader = self._readers.get(place)
            if reader is not None and reader != member:
                silent_s = now - self._heard_at[reader]
                demand(
                    silent_s > self.SILENCE_S_MAX,
                    f"group {self.group}: partition {place[1]} was given to {member} and is read by {reader}",
                )
            self._readers[place] = member

    def gave_up(self, member: str, places: frozenset[tuple[bytes, int]]) -> None:
        for place in places:
            if self._readers.get(place) == member:
                del self._readers[place]

    def stopped(self, member: str) -> None:
        """The member reads nothing any more: it died, left, or was fenced. It may join again with a new epoch."""
        self.gave_up(member, frozenset(self._readers))
        self._epochs.pop(member, None)


@final
class TransactionalOffsetOracle:
    """A group's offset that moves with transactions: transaction N commits offset N, or none of it is visible."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._least = -1
        self._possible: set[int] = {-1}

    def ended(self, number: int, outcome: Outcome, commit: bool) -> None:
        if not commit:
            return
        if outcome is Outcome.ACKNOWLEDGED:
            self._least = number
            self._possible = {number}
        elif outcome is Outcome.UNKNOWN:
            self._possible.add(number)

    def found(self, offset: int) -> None:
        possible = sorted(self._possible)
        demand(offset in possible, f"group {self.group}: offset {offset} was found, possible are {possible}")


@final
class KeyOracle:
    """The keys of a compacted partition: the newest acknowledged value of each is never compacted away."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._versions: dict[bytes, list[tuple[bytes | None, Send]]] = {}

    def writing(self, key: bytes, value: bytes | None, send: Send) -> None:
        self._versions.setdefault(key, []).append((value, send))

    def settle(self, latest: dict[bytes, bytes | None]) -> None:
        """Check the values that a reader of the whole partition has at the end, by key."""
        for key, versions in self._versions.items():
            acknowledged = [at for at, (_, send) in enumerate(versions) if send.outcome is Outcome.ACKNOWLEDGED]
            if not acknowledged:
                continue
            last = acknowledged[-1]
            allowed = [value for value, send in versions[last:] if send.outcome is not Outcome.REFUSED]
            demand(
                latest.get(key) in allowed,
                f"{self.place}, key {key!r}: {latest.get(key)!r:.40} is not its last value {allowed[0]!r:.40}",
            )


@final
class RetentionOracle:
    """A partition with retention by age or size: it deletes no message that the limits still protect."""

    def __init__(self, place: Place, *, retention_ms: int | None = None, retention_bytes: int | None = None) -> None:
        self.place = place
        self.retention_ms = retention_ms
        self.retention_bytes = retention_bytes

    def settle(self, sends: list[Send], start_offset: int, now_ms: int) -> None:
        kept_bytes = 0
        kept_from_ms = now_ms
        for send in sends:
            if send.outcome is not Outcome.ACKNOWLEDGED:
                continue
            age_ms = now_ms - send.timestamp_ms
            if self.retention_ms is not None and age_ms < self.retention_ms:
                demand(send.offset >= start_offset, f"{send} is {age_ms} ms old and was deleted")
            if send.offset >= start_offset:
                kept_bytes += _bytes_of(send)
                kept_from_ms = min(kept_from_ms, send.timestamp_ms)
        for send in sends:  # What was never answered may be stored, and counts then.
            if send.outcome is Outcome.UNKNOWN and send.timestamp_ms >= kept_from_ms:
                kept_bytes += _bytes_of(send)
        if self.retention_bytes is not None and start_offset > 0:
            sentence = f"{self.place} begins at {start_offset} and keeps {kept_bytes} of {self.retention_bytes} bytes"
            demand(kept_bytes >= self.retention_bytes, sentence)


def _bytes_of(send: Send) -> int:
    return sum(len(value) + RECORD_OVERHEAD_BYTES for value in send.values)


@final
class TopicOracle:
    """The topics that exist: an acknowledged creation is listed, an acknowledged deletion is not."""

    def __init__(self) -> None:
        self._expected: dict[str, bool | None] = {}  # None: the last request got no answer.

    def unsure(self, name: str) -> None:
        self._expected[name] = None

    def created(self, name: str) -> None:
        self._expected[name] = True

    def deleted(self, name: str) -> None:
        self._expected[name] = False

    def settle(self, names: set[str]) -> None:
        for name, expected in self._expected.items():
            if expected is not None:
                word = "created and is not there" if expected else "deleted and is there"
                demand((name in names) == expected, f"topic {name} was {word}")
