"""The oracle of answers: whoever asked is answered once, and what is answered is settled, in one step."""

from __future__ import annotations

from typing import final

from simulation.checkers.violation import demand


@final
class AnswerOracle:
    """All questions of a run, by their keys."""

    def __init__(self) -> None:
        self.asked: dict[str, bool] = {}  # Whether it was acknowledged.
        self.answered: set[str] = set()  # An answer to these was acknowledged.
        self._heard: dict[str, str] = {}  # By question: the message id of the answer.

    def asking(self, key: str) -> None:
        self.asked[key] = False

    def acknowledged(self, key: str) -> None:
        self.asked[key] = True

    def came(self, key: str, asked_s: float, answered_s: float | None) -> None:
        """A question was given out; `answered_s` is when an answer to it was acknowledged, if one was."""
        demand(key in self.asked, f"{key} came, and nobody asked it")
        demand(
            answered_s is None or asked_s <= answered_s,
            f"the question {key} came after its answer had been acknowledged",
        )

    def heard(self, key: str, message_id: str) -> None:
        """An answer arrived."""
        demand(key in self.asked, f"an answer to {key} came, and nobody asked it")
        known = self._heard.setdefault(key, message_id)
        demand(known == message_id, f"{key} was answered twice: {known} and {message_id}")

    def account(self) -> None:
        """Both queues are empty."""
        for key, acknowledged in self.asked.items():
            demand(not acknowledged or key in self._heard, f"the question {key} is gone, and nobody heard an answer")
