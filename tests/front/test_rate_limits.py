"""Rate limits: which limits a request counts in, who shares a bucket, and what a client in debt is told."""

from __future__ import annotations

import pytest

from longhall.cluster.rpc.operation import Caller
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.directory.rate_limits import (
    BYTES,
    EVERY,
    MANAGE,
    MESSAGES,
    RATE_LIMIT_KIND,
    RECEIVE,
    REQUESTS,
    SEND,
    LimitScope,
    RateLimit,
    check_rate_limit,
    decode_rate_limit,
    encode_rate_limit,
    scope_name,
)
from longhall.errors import Code, LonghallError
from longhall.front import rate_buckets
from longhall.front.rate_buckets import RateBuckets
from longhall.front.rate_limits import RateLimited, RateLimits

ANN = Caller("ann", "10.0.0.1", "acme", "user")
BEN = Caller("ben", "10.0.0.2", "acme", "user")
EVA = Caller("eva", "10.0.0.1", "other", "user")
STRANGER = Caller("ann", "10.0.0.1")  # Claims a name that nobody has checked.


class Limited:
    """Limits with a clock that the test sets."""

    def __init__(self, limits: dict[LimitScope, dict[str, int]]) -> None:
        self.now_ms = 0
        self.directory = Directory()
        self.buckets = RateBuckets()
        self.rates = RateLimits(self.directory, self.buckets, lambda: self.now_ms)
        self.put(limits)

    def put(self, limits: dict[LimitScope, dict[str, int]]) -> None:
        entries = [
            DirectoryEntry(RATE_LIMIT_KIND, scope_name(scope), encode_rate_limit(RateLimit(scope, rates)))
            for scope, rates in limits.items()
        ]
        self.directory.apply(DirectoryChanged(put=entries, removed=[]))

    def uses(self, caller: Caller, operation: str = SEND, queue: str = "jobs", **counts: int) -> int:
        """Charge a request, and return the debt in milliseconds."""
        self.rates.charge(caller, operation, queue, **counts)
        return self.rates.debt_ms(caller, operation, queue)


def test_without_limits_nothing_is_counted_and_one_removed_ends() -> None:
    limited = Limited({})
    assert not limited.rates.active
    limited.put({LimitScope(tenant="acme"): {REQUESTS: 1}})
    assert limited.rates.active
    assert limited.uses(ANN, requests=3) == 2000  # A second's worth is free.
    name = scope_name(LimitScope(tenant="acme"))
    limited.directory.apply(DirectoryChanged(put=[], removed=[(RATE_LIMIT_KIND, name)]))
    assert not limited.rates.active
    assert limited.uses(ANN, requests=3) == 0


@pytest.mark.parametrize(
    ("scope", "shared_by"),
    [
        (LimitScope(tenant="acme"), [ANN, BEN]),
        (LimitScope(tenant=EVERY), [ANN, BEN]),
        (LimitScope(user="ann"), [ANN]),
        (LimitScope(user=EVERY), [ANN]),
        (LimitScope(address="10.0.0.1"), [ANN, EVA, STRANGER]),
        (LimitScope(address=EVERY), [ANN, EVA, STRANGER]),
        (LimitScope(queue="jobs"), [ANN, BEN, EVA, STRANGER]),
        (LimitScope(operation=SEND), [ANN, BEN, EVA, STRANGER]),
        (LimitScope(tenant="acme", user=EVERY, queue="jobs", operation=SEND), [ANN]),
    ],
)
def test_a_bucket_is_shared_by_the_clients_of_its_scope(scope: LimitScope, shared_by: list[Caller]) -> None:
    limited = Limited({scope: {BYTES: 1000}})
    assert limited.uses(ANN, size_bytes=5000) == 4000
    for caller in (ANN, BEN, EVA, STRANGER):
        assert bool(limited.rates.debt_ms(caller, SEND, "jobs")) == (caller in shared_by)


def test_an_anonymous_client_has_a_user_and_a_tenant_of_its_own() -> None:
    limited = Limited({LimitScope(user="ANONYMOUS", tenant="default"): {REQUESTS: 1}})
    assert limited.uses(STRANGER, requests=2) == 1000
    assert limited.uses(ANN, requests=2) == 0


def test_the_most_specific_limit_of_the_same_parts_counts() -> None:
    limited = Limited({LimitScope(user=EVERY): {BYTES: 1000}, LimitScope(user="ann"): {BYTES: 4000, MESSAGES: 1}})
    assert limited.uses(ANN, size_bytes=8000) == 1000
    assert limited.uses(BEN, size_bytes=8000) == 7000


def test_a_request_counts_in_all_its_limits_and_the_longest_debt_decides() -> None:
    limited = Limited({LimitScope(tenant="acme"): {REQUESTS: 10}, LimitScope(queue="jobs"): {MESSAGES: 2}})
    assert limited.uses(ANN, messages=6) == 2000
    assert limited.uses(ANN, RECEIVE, "other", requests=14) == 500
    assert limited.uses(EVA, MANAGE, "", messages=100) == 0  # It has no queue.


def test_time_pays_the_debt_and_a_minute_is_the_longest() -> None:
    limited = Limited({LimitScope(user="ann"): {BYTES: 1000}})
    assert limited.uses(ANN, size_bytes=3000) == 2000
    limited.now_ms = 1500
    assert limited.rates.debt_ms(ANN, SEND, "jobs") == 500
    assert limited.uses(ANN, size_bytes=1_000_000) == 60_000


def test_a_door_that_refuses_tells_which_limit_and_how_long() -> None:
    limited = Limited({LimitScope(user="ann"): {BYTES: 1000, REQUESTS: 5}})
    limited.rates.admit("sqs", ANN, SEND, "jobs")
    limited.rates.charge(ANN, SEND, "jobs", size_bytes=3500)
    with pytest.raises(RateLimited) as refused:
        limited.rates.admit("sqs", ANN, SEND, "jobs")
    assert refused.value.code is Code.OVER_QUOTA
    assert refused.value.wait_ms == 2500
    assert "bytes_a_second user=ann" in str(refused.value)
    assert limited.rates.throttled == {("sqs", SEND): 1}


def test_what_is_left_is_that_of_the_tightest_limit() -> None:
    limited = Limited({LimitScope(user="ann"): {BYTES: 1000, REQUESTS: 5}})
    limited.rates.charge(ANN, SEND, "jobs", size_bytes=100, requests=3)
    allowance = limited.rates.allowance(ANN, SEND, "jobs")
    assert allowance is not None
    assert (allowance.bucket, allowance.a_second, allowance.left) == ("requests_a_second user=ann", 5, 2)
    assert limited.rates.allowance(EVA, SEND, "jobs") is None


def test_the_table_of_buckets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_buckets, "BUCKETS_MAX", 3)
    limited = Limited({LimitScope(address=EVERY): {REQUESTS: 1}})
    for number in range(10):
        assert limited.uses(Caller("", f"10.1.0.{number}"), requests=2) == 1000
    assert len(limited.buckets) == 3
    assert limited.rates.debt_ms(Caller("", "10.1.0.9"), SEND, "jobs") == 1000
    assert limited.rates.debt_ms(Caller("", "10.1.0.0"), SEND, "jobs") == 0


@pytest.mark.parametrize(
    "scope",
    [
        LimitScope(tenant="acme"),
        LimitScope(user=EVERY, operation=SEND),
        LimitScope(user="*", queue="a,b=c/%"),
        LimitScope("Grüße", "ann", "jobs", MANAGE, "::1"),
    ],
)
def test_a_scope_survives_its_entry(scope: LimitScope) -> None:
    found = decode_rate_limit(scope_name(scope), encode_rate_limit(RateLimit(scope, {BYTES: 5})))
    assert found == RateLimit(scope, {BYTES: 5})


@pytest.mark.parametrize(
    "limit",
    [
        RateLimit(LimitScope(), {BYTES: 1}),
        RateLimit(LimitScope(tenant="acme"), {}),
        RateLimit(LimitScope(tenant="acme"), {BYTES: 0}),
        RateLimit(LimitScope(tenant="acme"), {"speed": 1}),
        RateLimit(LimitScope(tenant="t" * 257), {BYTES: 1}),
        RateLimit(LimitScope(tenant="€" * 200), {BYTES: 1}),
        RateLimit(LimitScope(operation="eat"), {BYTES: 1}),
        RateLimit(LimitScope(address="10.0.0.0/8"), {BYTES: 1}),
        RateLimit(LimitScope(address="host.example"), {BYTES: 1}),
    ],
)
def test_a_limit_that_means_nothing_is_refused(limit: RateLimit) -> None:
    with pytest.raises(LonghallError) as refused:
        check_rate_limit(limit)
    assert refused.value.code is Code.INVALID_REQUEST


def test_an_entry_of_a_newer_version_is_no_limit() -> None:
    assert decode_rate_limit("region=north", encode_rate_limit(RateLimit(LimitScope(), {BYTES: 5}))) is None
    assert decode_rate_limit("user=ann", b"\xc1") is None
