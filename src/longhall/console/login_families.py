"""Logins among the metrics, by door: how many succeeded, failed, or were refused unseen after earlier failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from longhall.console.metrics import Family, labels


class LoginCounts(Protocol):
    """The counters of logins, each by door."""

    logins: Counter[str]
    failed: Counter[str]
    shut_out: Counter[str]


def login_families(counts: LoginCounts) -> Iterator[Family]:
    """The metrics of logins; none before the first one."""
    outcomes = (("accepted", counts.logins), ("refused", counts.failed), ("shut-out", counts.shut_out))
    samples = [
        ("", labels(("door", door), ("outcome", outcome)), count)
        for outcome, by_door in outcomes
        for door, count in sorted(by_door.items())
    ]
    if samples:
        yield Family("longhall_logins_total", "counter", "Logins of clients, by door and outcome.", samples)


def identity_provider_families(reads: Counter[str]) -> Iterator[Family]:
    """The metric of the identity provider: how often its keys were read."""
    samples = [("", labels(("outcome", outcome)), count) for outcome, count in sorted(reads.items())]
    description = "Reads of the identity provider's public keys, by outcome."
    yield Family("longhall_identity_provider_reads_total", "counter", description, samples)
