"""Every refusal has its number at the Kafka door."""

from __future__ import annotations

from longhall.doors.kafka.errors import ERROR_OF, error_of, fenced_as
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.errors import Code


def test_the_table_has_every_code() -> None:
    assert set(ERROR_OF) == set(Code)
    assert all(error_of(code) == number for code, number in ERROR_OF.items())


def test_no_refusal_looks_like_success() -> None:
    assert error_of(None) == 0
    assert ErrorCode.NONE not in ERROR_OF.values()
    assert all(-1 <= number <= 130 for number in ERROR_OF.values())


def test_old_clients_know_a_fenced_producer_by_its_epoch() -> None:
    assert fenced_as(Code.PRODUCER_FENCED, False) is Code.INVALID_PRODUCER_EPOCH
    assert fenced_as(Code.PRODUCER_FENCED, True) is Code.PRODUCER_FENCED
    assert fenced_as(None, False) is None
    assert fenced_as(Code.UNKNOWN_TOPIC, False) is Code.UNKNOWN_TOPIC
