"""One request for messages: which are delivered, which must die, and how far the scan moves.

In each lane available messages are delivered first, in the order of offsets; then the scan moves on. The selection
changes no state: its result is events.

- FIFO: one reply has as many messages of a group as possible, in order and without a gap, then those of the next
  group; groups whose messages were not delivered before come first. The look ahead for further messages of a group is
  bounded. The scan passes messages of other groups; they become outstanding. A group with messages in several lanes
  follows the marks, one lane at a time.
- Fair: more candidates than wanted are examined, and groups with fewer messages in flight are delivered first.
- A receiver filter skips messages that do not match: they stay available, or are passed by the scan and become
  outstanding. In a FIFO queue the rest of their group is skipped too.

Every loop is bounded: by the messages wanted, the candidates examined, the deaths, and the messages passed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, final

from longhall.queues.cursor import NO_ROW
from longhall.queues.events import Leased, Passed
from longhall.queues.lanes import Lane
from longhall.queues.leases import READY, Leases
from longhall.queues.marks import NO_LIMIT, Marks
from longhall.queues.outcomes import (
    ATTEMPTS,
    DELAYED,
    EXPIRED,
    GONE,
    LENGTH,
    RETENTION,
    UNREADABLE,
    Candidate,
    Death,
    Given,
    Outcome,
    Status,
)
from longhall.queues.receiver_filter import ReceiverFilter

# Messages of a lane from an offset on that are in memory: (lane, offset, count_max). An empty list is the end of the
# log; None means that the next messages are not in memory.
Peek = Callable[[int, int, int], "list[Candidate] | None"]

LOOKED_AT_MAX: Final = 1024
DEATHS_MAX: Final = 128
_FAIR_FACTOR: Final = 4
_FAIR_MIN: Final = 16
_FIFO_FACTOR: Final = 8  # How far a FIFO request looks ahead for further messages of the groups that it delivers.
_FIFO_MIN: Final = 64
_FIFO_FURTHER_READS: Final = 1  # Of the log, once the reply is full: two stretches of the log stay in memory.
_FILTERED_LOOKED_AT_MAX: Final = 256  # Filters cost more than a check of the header.


@final
class SelectionRules:
    """The settings of a queue that the selection needs."""

    def __init__(self, queue: int, fifo: bool, fair: bool, settles: bool, attempts_max: int, passed_max: int) -> None:
        self.queue = queue
        self.fifo = fifo
        self.fair = fair
        self.settles = settles
        self.attempts_max = attempts_max  # 0: no bound.
        self.passed_max = passed_max


@final
class DeliverySelection:
    """The selection of one request. With `is_dropping` it selects deaths by LENGTH up to the `dropping_*` amounts."""

    def __init__(
        self, rules: SelectionRules, leases: Leases, marks: Marks, peek: Peek, now_ms: int, wanted: int
    ) -> None:
        self.outcome = Outcome(Status.EMPTY)
        self.wanted = wanted
        self.dropping_messages = 0
        self.dropping_bytes = 0
        self.is_dropping = False
        self.receiver_filter: ReceiverFilter | None = None
        self.until = NO_LIMIT  # The offset at which the caller wants the scan to stop.
        self._rules = rules
        self._leases = leases
        self._marks = marks
        self._peek = peek
        self._now_ms = now_ms
        self._looked_at = 0
        self._looked_at_max = LOOKED_AT_MAX
        self._rows: list[int] = []  # Selected in the current lane: the row or NO_ROW, and the candidate.
        self._candidates: list[Candidate] = []
        self._fresh: list[Candidate] = []  # Reached by the scan: selected and passed ones.
        self._passed = 0
        self._position = 0
        self._taken: dict[str, int] = {}  # FIFO: the number of selected outstanding rows of a group,
        self._blocked: set[str] = set()  # and groups of which the scan has passed a message.
        self._in_other_lanes: set[str] = set()  # FIFO: groups with a selected message in an earlier lane.
        self._limit = NO_LIMIT  # The offset at which the scan must stop.
        self._window: list[Candidate] = []
        self._at = 0
        self._wanted = 0
        self._looked_at_before = 0
        self._first_group = 0  # FIFO: the number of selected messages of the group that is delivered first.

    def take_from(self, lane: Lane, first_number: int, deadline_ms: int) -> bool:
        """Select from one lane; False if the request ends here."""
        if self._looked_at:  # An earlier lane was examined.
            if lane.peers:
                self._in_other_lanes.update([candidate.group for candidate in self._candidates])
            self._rows = []
            self._candidates = []
            self._fresh = []
            self._window = []
            self._at = 0
            self._taken = {}
            self._blocked = set()
        self._position = lane.cursor.scan
        self._limit = self._marks.limit(lane.cursor.lane) if lane.peers and not self.is_dropping else NO_LIMIT
        if self.until < self._limit:
            self._limit = self.until
        wanted = self.wanted - len(self.outcome.given)
        window = wanted
        if self.receiver_filter is None and not self.is_dropping:
            if self._rules.fair and lane.groups is not None:
                window = max(wanted * _FAIR_FACTOR, _FAIR_MIN)
            elif self._rules.fifo and wanted > 1:
                window = max(wanted * _FIFO_FACTOR, _FIFO_MIN)
            if window > wanted and self._leases.ready + window > self._rules.passed_max:
                window = wanted
        self._wanted = wanted
        self._first_group = 0
        self._looked_at_before = self._looked_at
        if self.receiver_filter is not None:
            self._looked_at_max = _FILTERED_LOOKED_AT_MAX
            goes_on = self._gather_filtered(lane, window, self.receiver_filter)
        elif self._rules.fifo:
            goes_on = self._gather_groups(lane, wanted)
        else:
            goes_on = self._gather_ready(lane, window)
        if goes_on and len(self._rows) < (wanted if self._rules.fifo else window):
            goes_on = self._gather_scan(lane, window)
        if len(self._rows) > wanted:
            self._choose(lane, self._group_by_group(wanted) if self._rules.fifo else self._in_turns(lane, wanted))
        self._write(lane, first_number + len(self.outcome.given), deadline_ms)
        return goes_on and len(self.outcome.given) < self.wanted and self._looked_at < self._looked_at_max

    # Available rows

    def _gather_ready(self, lane: Lane, window: int) -> bool:
        heap = lane.cursor.ready
        if not heap:
            return True
        kept: list[int] = []
        last = -1
        goes_on = True
        while heap and len(self._rows) < window:
            if self._is_over():
                goes_on = False
                break
            offset = heappop(heap)
            if offset == last:
                continue
            last = offset
            row = lane.cursor.find(offset)
            if row == NO_ROW or not lane.is_available(row):
                continue
            kept.append(offset)
            candidate = self._look(lane, offset, window if heap and heap[0] == offset + 1 else 1)
            if candidate is None:
                goes_on = self._stop_cold(lane, offset)
                break
            if candidate.size_bytes == UNREADABLE:
                self._looked_at += 1  # It stays available; the later ones of its group wait for it.
                continue
            if self._has_died(lane, row, offset, candidate):
                self._looked_at += 1
                continue
            self._gather(row, candidate)
        for offset in kept:
            heappush(heap, offset)
        return goes_on

    def _gather_groups(self, lane: Lane, wanted: int) -> bool:
        """FIFO: the available messages of one group after the other, from the head of the group on."""
        heap = lane.cursor.ready
        kept: list[int] = []
        last = -1
        goes_on = True
        while goes_on and heap and len(self._rows) < wanted:
            if self._is_over():
                goes_on = False
                break
            offset = heappop(heap)
            if offset == last:
                continue
            last = offset
            row = lane.cursor.find(offset)
            if row == NO_ROW or not lane.is_available(row):
                continue
            if lane.peers and self._is_behind(lane, row, offset):
                if self._waits_for_this_reply(lane, row):
                    kept.append(offset)
                continue  # The message that it waits for offers it again.
            kept.append(offset)
            goes_on = self._gather_chain(lane, row, wanted)
        for offset in kept:
            heappush(heap, offset)
        return goes_on

    def _gather_chain(self, lane: Lane, head: int, wanted: int) -> bool:
        """The messages of a group up to the first that is hidden, waits for another lane, or dies."""
        leases = self._leases
        row = head
        while row >= 0 and leases.state[row] == READY and len(self._rows) < wanted:
            offset = leases.offset[row]
            if self._is_over():
                return False
            if row != head and lane.peers and self._is_behind(lane, row, offset):
                return True
            candidate = self._look(lane, offset, wanted)
            if candidate is None:
                return self._stop_cold(lane, offset)
            if candidate.size_bytes == UNREADABLE:
                self._looked_at += 1
                return True
            if self._has_died(lane, row, offset, candidate):
                self._looked_at += 1
                return True
            self._gather(row, candidate)
            self._taken[candidate.group] = self._taken.get(candidate.group, 0) + 1
            row = leases.below[row]
        return True

    def _gather_filtered(self, lane: Lane, window: int, receiver_filter: ReceiverFilter) -> bool:
        """The same for a filter: the look continues where the last one stopped, with one message of a group."""
        number = lane.cursor.lane
        seen: set[int] = set()  # Nothing is applied yet, so examined rows are remembered here.
        while (
            receiver_filter.checked(number) != lane.offers
        ):  # What was left of the last look may be older than what is new.
            recent = lane.offered_since(receiver_filter.checked(number))
            rows = receiver_filter.rows(number, lane.offers, lane.cursor.ready, recent)
            while rows and len(self._rows) < window:
                if self._is_over():
                    return False
                offset = rows.pop()
                row = lane.cursor.find(offset)
                if row == NO_ROW or row in seen or not lane.is_available(row):
                    continue
                if lane.peers and self._is_behind(lane, row, offset):
                    continue
                candidate = self._look(lane, offset, _FILTERED_LOOKED_AT_MAX)
                if candidate is None:
                    rows.append(offset)
                    return self._stop_cold(lane, offset)
                if candidate.size_bytes == UNREADABLE:
                    rows.append(offset)
                    return True
                seen.add(row)
                if self._has_died(lane, row, offset, candidate) or not receiver_filter.wants(number, candidate):
                    self._looked_at += 1
                    continue
                self._gather(row, candidate)
                if self._rules.fifo:
                    self._taken[candidate.group] = 1
            if rows:
                return True
            receiver_filter.looked(number)
            self._window = []  # The next pass begins at a lower offset.
            self._at = 0
        receiver_filter.done.append(number)
        return True

    def _look(self, lane: Lane, offset: int, count: int) -> Candidate | None:
        """The message at this offset; another offset or a negative size if there is none; None if it is cold."""
        window = self._window
        at = self._at
        if at < len(window) and window[at].offset > offset:  # The head of another FIFO group can be further back.
            at = 0 if window[0].offset <= offset else len(window)
        while at < len(window) and window[at].offset < offset:
            at += 1
        self._at = at
        if at == len(window):
            fetched = self._peek(lane.cursor.lane, offset, count)
            if fetched is None:
                return None
            self._window = window = fetched
            self._at = at = 0
        return window[at] if at < len(window) else Candidate(offset, offset + 1, -1)

    # The scan

    def _gather_scan(self, lane: Lane, window: int) -> bool:
        rules = self._rules
        receiver_filter = self.receiver_filter
        is_plain = not rules.fifo and not self.is_dropping and receiver_filter is None and self._limit == NO_LIMIT
        further = _FIFO_FURTHER_READS
        while len(self._rows) < window:
            if self._position >= self._limit:
                return True
            if self._is_over():
                return False
            has_enough = rules.fifo and len(self._rows) >= self._wanted
            if has_enough:
                if further == 0 or self._has_whole_group(window):
                    return True
                further -= 1
            count = window - len(self._rows) if receiver_filter is None else _FILTERED_LOOKED_AT_MAX
            candidates = self._peek(lane.cursor.lane, self._position, count)
            if candidates is None:
                return has_enough or self._stop_cold(lane, self._position)
            if not candidates:
                return True
            for candidate in candidates:
                if len(self._rows) >= window or (rules.fifo and self._has_whole_group(window)):
                    break
                if is_plain and candidate.size_bytes >= 0 and candidate.expires_ms < 0:
                    self._gather(NO_ROW, candidate)
                    self._fresh.append(candidate)
                    self._position = candidate.next_offset
                    continue
                if candidate.offset >= self._limit:
                    self._position = self._limit  # No message is before the limit: the scan may move there.
                    break
                if self._is_over():
                    break
                if candidate.size_bytes == UNREADABLE:
                    return True
                if candidate.size_bytes < 0:
                    self._looked_at += 1
                    self._position = candidate.next_offset
                    continue
                if self._has_died(lane, NO_ROW, candidate.offset, candidate):
                    self._looked_at += 1
                    self._blocked.add(candidate.group)
                elif (not rules.fifo or self._may_follow(lane, candidate)) and (
                    receiver_filter is None or receiver_filter.wants(lane.cursor.lane, candidate)
                ):
                    self._gather(NO_ROW, candidate)
                elif self._passed + self._leases.ready < rules.passed_max:
                    self._looked_at += 1
                    self._passed += 1
                    self._blocked.add(candidate.group)
                else:
                    self.outcome.status = Status.TOO_MANY
                    return True  # Other lanes may have available messages.
                self._fresh.append(candidate)
                self._position = candidate.next_offset
        return True

    def _has_whole_group(self, window: int) -> bool:
        """FIFO: True if the look ahead ends: the first group fills the reply, or `window` messages were examined."""
        if self._first_group >= self._wanted:
            return True
        return len(self._rows) >= self._wanted and self._looked_at - self._looked_at_before >= window

    def _gather(self, row: int, candidate: Candidate) -> None:
        self._looked_at += 1
        self._rows.append(row)
        self._candidates.append(candidate)
        if self._rules.fifo and candidate.group == self._candidates[0].group:
            self._first_group += 1

    def _is_behind(self, lane: Lane, row: int, offset: int) -> bool:
        """FIFO: True if an outstanding message must wait for its group in another lane."""
        groups = lane.groups
        assert groups is not None
        name = groups.name_of[self._leases.group[row]]
        return name in self._in_other_lanes or lane.is_behind(name, self._marks.below(lane.cursor.lane, offset))

    def _waits_for_this_reply(self, lane: Lane, row: int) -> bool:
        """True if it waits only for this reply: if that is not written, no event offers the message again."""
        groups = lane.groups
        return groups is not None and groups.name_of[self._leases.group[row]] in self._in_other_lanes

    def _may_follow(self, lane: Lane, candidate: Candidate) -> bool:
        """FIFO: True if all earlier messages of the group are in the same reply."""
        name = candidate.group
        if name in self._blocked:
            return False
        if lane.peers and (
            name in self._in_other_lanes or lane.is_behind(name, self._marks.below(lane.cursor.lane, candidate.offset))
        ):
            return False
        groups = lane.groups
        if groups is None:
            return True
        group = groups.find(name)
        return group < 0 or groups.rows[group] == self._taken.get(name, 0)

    # Limits and deaths

    def _is_over(self) -> bool:
        if self._looked_at >= self._looked_at_max or len(self.outcome.deaths) >= DEATHS_MAX:
            if self.outcome.status is Status.EMPTY:
                self.outcome.status = Status.MORE
            return True
        return self.is_dropping and self.dropping_messages <= 0 and self.dropping_bytes <= 0

    def _stop_cold(self, lane: Lane, offset: int) -> bool:
        self.outcome.status = Status.COLD
        self.outcome.cold_lane = lane.cursor.lane
        self.outcome.cold_offset = offset
        return False

    def _has_died(self, lane: Lane, row: int, offset: int, candidate: Candidate) -> bool:
        leases = self._leases
        attempts = 0
        first_ms = 0
        if row != NO_ROW:
            attempts = leases.attempts[row]
            first_ms = leases.first_ms[row]
        if candidate.offset != offset or candidate.size_bytes < 0:
            self.outcome.deaths.append(Death(lane.cursor.lane, offset, GONE, attempts, first_ms, None))
            return True
        if candidate.is_over(self._now_ms, attempts):
            reason = RETENTION if candidate.is_outdated else EXPIRED
        elif attempts and 0 < self._rules.attempts_max <= attempts:
            reason = ATTEMPTS
        elif self.is_dropping:
            reason = LENGTH
        elif candidate.due_ms > self._now_ms:
            reason = DELAYED
        else:
            return False
        self.dropping_messages -= 1
        self.dropping_bytes -= candidate.size_bytes
        self.outcome.deaths.append(Death(lane.cursor.lane, offset, reason, attempts, first_ms, candidate))
        return True

    def _group_by_group(self, wanted: int) -> list[int]:
        """FIFO: all messages of the first group, then those of the next, as indexes of the selection."""
        groups: dict[str, list[int]] = {}
        for index, candidate in enumerate(self._candidates):
            groups.setdefault(candidate.group, []).append(index)
        chosen: list[int] = []
        for indexes in groups.values():
            chosen.extend(indexes[: wanted - len(chosen)])
            if len(chosen) == wanted:
                break
        return chosen

    def _in_turns(self, lane: Lane, wanted: int) -> list[int]:
        """Fair: groups with less in flight first, each in its own order, as indexes of the selection."""
        groups = lane.groups
        met: dict[str, int] = {}
        ranks: list[tuple[int, int]] = []
        for index, candidate in enumerate(self._candidates):
            name = candidate.group
            rank = 0
            if name and groups is not None:
                rank = met.get(name, 0)
                group = groups.find(name)
                if group >= 0 and name not in met:
                    rank = groups.hidden[group]
                met[name] = rank + 1
            ranks.append((rank, index))
        ranks.sort()
        return [index for _, index in ranks[:wanted]]

    def _choose(self, lane: Lane, chosen: list[int]) -> None:
        """Reduce the selection to these indexes. Passed messages stay selected for the scan."""
        chosen.sort()
        self._rows = [self._rows[index] for index in chosen]
        self._candidates = [self._candidates[index] for index in chosen]
        # The scan stays before candidates that were only examined, unless a later one is delivered or dies.
        last = self._candidates[-1].offset
        for death in self.outcome.deaths:
            if death.lane == lane.cursor.lane and death.offset > last:
                last = death.offset
        fresh = [candidate for candidate in self._fresh if candidate.offset <= last]
        if len(fresh) < len(self._fresh):
            self._fresh = fresh
            self._position = fresh[-1].next_offset if fresh else lane.cursor.scan

    # Events

    def _write(self, lane: Lane, first_number: int, deadline_ms: int) -> None:
        leases = self._leases
        outcome = self.outcome
        offsets: list[int] = []
        given: list[Given] = []
        scanned = 0
        for index, candidate in enumerate(self._candidates):
            row = self._rows[index]
            attempts = 1
            first_ms = self._now_ms
            if row == NO_ROW:
                scanned += 1
            elif leases.attempts[row]:
                attempts = leases.attempts[row] + 1
                first_ms = leases.first_ms[row]
            offsets.append(candidate.offset)
            given.append(Given(lane.cursor.lane, first_number + index, attempts, first_ms, candidate))
        outcome.given.extend(by_group(given) if self._rules.fifo and len(given) > 1 else given)
        sizes = [candidate.size_bytes for candidate in self._fresh]
        names, owners = owners_of(self._fresh)
        next_offset = self._position if self._position > lane.cursor.scan else -1
        if next_offset >= 0 and (scanned < len(self._fresh) or not offsets):
            outcome.events.append(
                Passed(
                    queue=self._rules.queue,
                    lane=lane.cursor.lane,
                    next_offset=next_offset,
                    offsets=[candidate.offset for candidate in self._fresh],
                    sizes=sizes,
                    names=names,
                    owners=owners,
                )
            )
            next_offset, sizes, names, owners = -1, [], [], []
        if offsets:
            outcome.events.append(
                Leased(
                    queue=self._rules.queue,
                    lane=lane.cursor.lane,
                    offsets=offsets,
                    first_number=first_number,
                    at_ms=self._now_ms,
                    deadline_ms=deadline_ms,
                    next_offset=next_offset,
                    sizes=sizes,
                    names=names,
                    owners=owners,
                    settled=self._rules.settles,
                )
            )


def by_group(given: list[Given]) -> list[Given]:
    """The messages of a FIFO reply, group by group: first the groups that were not delivered before."""
    groups: dict[str, list[Given]] = {}
    for one in given:
        groups.setdefault(one.candidate.group, []).append(one)
    ordered: list[Given] = []
    for again in (False, True):
        for members in groups.values():
            if (members[0].attempts > 1) == again:
                ordered.extend(members)
    return ordered


def owners_of(fresh: list[Candidate]) -> tuple[list[str], list[int]]:
    """The distinct group names, and an index into them for each candidate; both empty without groups."""
    numbers: dict[str, int] = {}
    owners: list[int] = []
    for candidate in fresh:
        number = numbers.get(candidate.group)
        if number is None:
            number = len(numbers)
            numbers[candidate.group] = number
        owners.append(number)
    if len(numbers) == 1 and "" in numbers:
        return [], []
    return list(numbers), owners
