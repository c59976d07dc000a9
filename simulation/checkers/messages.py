"""What clients know of each message of a queue, and the guarantees of the queue."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from simulation.checkers.sends import Outcome

SLACK_S: Final = 0.002  # Hall time has whole milliseconds.
NEVER: Final = float("inf")
ANY: Final = -1  # A number of attempts that cannot be known.


class Law(NamedTuple):
    """The guarantees of one queue, as far as queues differ in them."""

    name: str
    fifo: bool = False
    attempts_max: int = 0  # 0: no limit of attempts.
    dead: str = ""  # The dead-letter queue.
    at_most_once: bool = False
    one_by_one: bool = False
    time_to_live_s: float = 0.0
    messages_max: int = 0  # 0: no bound. Beyond it the oldest messages are dead-lettered.
    parcels: bool = False  # The queue has priorities and takes large messages in parts.
    audited: bool = False
    parts_max: int = 1  # Above 1: the queue grows and shrinks all the time.
    retry_s: float = 0.0  # Delay after a message is given back; it doubles with each attempt.
    stamped: bool = False  # Messages have stamps, and late ones go to the head.
    lapses: bool = False  # The same delay follows the end of a lease.
    placement: str = ""  # The placement in wings, if any.
    sealed: bool = False

    @property
    def is_spread(self) -> bool:
        """True if the queue has several logs: a receiver may be offered more than it gets, and the rest is given
        back.
        """
        return self.placement in ("any-host", "parts")

    @property
    def kills(self) -> bool:
        """True if messages can die here before they have used up their attempts."""
        return self.time_to_live_s > 0 or self.messages_max > 0

    def wait_s(self, attempts: int) -> float:
        """How long a message stays hidden when it is given back after so many attempts; the last time it dies at
        once.
        """
        return 0.0 if attempts >= self.attempts_max else float(self.retry_s * 2 ** (attempts - 1))


@final
class Message:
    """One message: what clients tried with it and what they were told. Times are those of the clients.

    `at` is the queue where it was last seen. A stay begins when the message arrives there; attempts count within a
    stay.
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
        self.mark = 0  # Checksum of the body, if it was recorded.
        # Of the current stay:
        self.attempts = 0  # The highest attempt number that a client saw.
        self.entered_s = asked_s  # The earliest time at which it can have arrived.
        self.seen = 0
        # Of the message:
        self.deliveries = 0
        self.heard_s = asked_s  # When a client last received it.
        self.leased_from_s = 0.0
        self.leased_until_s = 0.0  # No other client may receive it before.
        self.settle_tried = False
        self.settled_s = NEVER
        self.purge_possible = False
        self.purged_s = NEVER

    @property
    def due_s(self) -> float:
        return self.asked_s + self.delay_s

    @property
    def may_be_gone(self) -> bool:
        """True if it need not be delivered any more: a client tried to settle it or to purge the queue."""
        return self.settle_tried or self.purge_possible

    def moved_to(self, queue: str) -> None:
        self.at = queue
        self.attempts = 0
        self.seen = 0
        self.entered_s = self.heard_s

    def __str__(self) -> str:
        return f"{self.key} ({self.outcome.value}, last seen in {self.at})"
