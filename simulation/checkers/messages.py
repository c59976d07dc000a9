"""What consumers and producers of queues know of each message, and what a queue has promised about it."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from simulation.checkers.sends import Outcome

SLACK_S: Final = 0.002  # Hall time is whole milliseconds.
NEVER: Final = float("inf")
ANY: Final = -1  # A count of attempts that nobody can know.


class Law(NamedTuple):
    """One queue's promises, as far as they differ from queue to queue."""

    name: str
    fifo: bool = False
    attempts_max: int = 0  # 0: nothing dies of its attempts.
    dead: str = ""  # Where dead letters go.
    at_most_once: bool = False
    one_by_one: bool = False
    time_to_live_s: float = 0.0
    messages_max: int = 0  # 0: no bound; beyond, the oldest die.
    parcels: bool = False  # It has priorities and takes messages in parts.
    audited: bool = False
    parts_max: int = 1  # More: it grows and shrinks all the time.
    retry_s: float = 0.0  # What is given back waits so long, and twice as long each time.
    placement: str = ""  # In wings: which.

    @property
    def is_spread(self) -> bool:
        """Whether it has several logs: whoever receives may be offered more than it is shown, and gives that back."""
        return self.placement in ("any-host", "parts")

    @property
    def kills(self) -> bool:
        """Whether messages die here before they have used up their attempts."""
        return self.time_to_live_s > 0 or self.messages_max > 0

    def wait_s(self, attempts: int) -> float:
        """How long a message stays hidden that is given back after so many attempts; the last time it dies at once."""
        return 0.0 if attempts >= self.attempts_max else float(self.retry_s * 2 ** (attempts - 1))


@final
class Message:
    """One message: what was tried with it and what was heard. Times are those of the clients.

    `at` is the queue where it was seen last; a stay there begins with its arrival, and attempts count within a stay.
    """

    def __init__(self, key: str, queue: str, group: str, number: int, asked_s: float, delay_s: float) -> None:
        self.key = key
        self.home = queue
        self.at = queue
        self.group = group
        self.number = number
        self.outcome = Outcome.OPEN
        self.asked_s = asked_s
        self.acknowledged_s = NEVER
        self.delay_s = delay_s
        self.message_id = ""
        self.mark = 0  # Of its body, if somebody noted it.
        # Of the stay where it is now:
        self.attempts = 0  # The highest number that was seen.
        self.entered_s = asked_s  # When it can have come there at the earliest.
        self.seen = 0
        # Of its life:
        self.deliveries = 0
        self.heard_s = asked_s  # When something was last heard of it.
        self.leased_from_s = 0.0
        self.leased_until_s = 0.0  # Nobody else may get it before.
        self.settle_tried = False
        self.settled_s = NEVER
        self.purge_possible = False
        self.purged_s = NEVER

    @property
    def due_s(self) -> float:
        return self.asked_s + self.delay_s

    @property
    def may_be_gone(self) -> bool:
        """Whether it need not come any more: somebody tried to settle it, or to purge it."""
        return self.settle_tried or self.purge_possible

    def moved_to(self, queue: str) -> None:
        self.at = queue
        self.attempts = 0
        self.seen = 0
        self.entered_s = self.heard_s

    def __str__(self) -> str:
        return f"{self.key} ({self.outcome.value}, last seen in {self.at})"
