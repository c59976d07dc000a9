"""The oracle of request and reply: each question is answered once, and its answer settles it in the same step."""

from __future__ import annotations

from typing import final

from simulation.checkers.violation import demand


@final
class AnswerOracle:
    """All questions of a run, by their keys."""

    def __init__(self) -> None:
        self.asked: dict[str, bool] = {}  # True if the send of the question was acknowledged.
        self.answered: set[str] = set()  # Questions whose answer was acknowledged to the sender of the answer.
        self._heard: dict[str, str] = {}  # Message id of the received answer, by question.

    def asking(self, key: str) -> None:
        self.asked[key] = False

    def acknowledged(self, key: str) -> None:
        self.asked[key] = True

    def came(self, key: str, asked_s: float, answered_s: float | None) -> None:
        """A question was delivered; `answered_s` is when an answer to it was acknowledged, or None."""
        demand(key in self.asked, f"{key} was delivered and never sent")
        demand(
            answered_s is None or asked_s <= answered_s,
            f"the question {key} was delivered after its answer had been acknowledged",
        )

    def heard(self, key: str, message_id: str) -> None:
        """An answer was received."""
        demand(key in self.asked, f"an answer to {key} was received, which was never sent")
        known = self._heard.setdefault(key, message_id)
        demand(known == message_id, f"{key} was answered twice: {known} and {message_id}")

    def account(self) -> None:
        """Check at the end, when both queues are empty, that every acknowledged question has an answer."""
        for key, acknowledged in self.asked.items():
            demand(not acknowledged or key in self._heard, f"the question {key} is gone, and no answer was received")
