"""Every refusal has a reply code at the AMQP door, and its text fits a short string."""

from __future__ import annotations

from longhall.doors.amqp.errors import (
    CLOSES_CHANNEL,
    NAMES,
    REPLY_OF,
    TEXT_BYTES_MAX,
    AmqpError,
    error_of,
    precondition,
)
from longhall.errors import Code, LonghallError


def test_the_table_has_every_code() -> None:
    assert set(REPLY_OF) == set(Code)
    assert set(REPLY_OF.values()) <= set(NAMES)


def test_an_error_names_itself_and_fits() -> None:
    error = precondition("ü" * 300)
    assert error.text.startswith("PRECONDITION_FAILED - ")
    assert len(error.short_text.encode()) <= TEXT_BYTES_MAX
    assert error_of(LonghallError(Code.UNKNOWN_QUEUE, "gone")).reply == 404


def test_only_four_errors_close_the_channel_alone() -> None:
    assert {reply for reply in NAMES if AmqpError(reply, "").closes_channel} == CLOSES_CHANNEL == {403, 404, 405, 406}
