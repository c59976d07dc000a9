"""Selectors of STOMP and JMS as selectors of the hall."""

from __future__ import annotations

import pytest

from longhall.doors.stomp.errors import StompError
from longhall.doors.stomp.selectors import selector_of, selects
from longhall.queues.messages import Delivery
from longhall.queues.selector import compile_selector


def _selects(selector: str, **fields: object) -> bool:
    attributes = {name: ("String", str(value).encode()) for name, value in fields.items()}
    delivery = Delivery(message_id="", receipt="", body=b"", attributes=attributes, priority=7, correlation_id="c1")
    return selects(compile_selector(selector_of(selector)), delivery)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("color = 'red'", True),
        ("color <> 'red'", False),
        ("size > 3 AND size <= 4", True),
        ("NOT size = 4 OR color IN ('blue', 'red')", True),
        ("color LIKE 'r_d'", True),
        ("color NOT LIKE '%d'", False),
        ("size BETWEEN 1 AND 3", False),
        ("weight IS NULL", True),
        ("weight = 1", False),
        ("NOT weight = 1", False),  # Unknown, as in SQL.
        ("JMSPriority = 7 AND priority > 6", True),
        ("JMSCorrelationID = 'c1' AND \"correlation-id\" = 'c1'", True),
        ("JMSType IS NULL", True),
    ],
)
def test_which_messages_match(selector: str, matches: bool) -> None:
    assert _selects(selector, color="red", size=4) is matches


@pytest.mark.parametrize("selector", ["color =", "color ~ 1", "JMSDestination = 'a'", "(a = 1", "a = 1 b"])
def test_what_is_none_is_refused(selector: str) -> None:
    with pytest.raises(StompError) as caught:
        selector_of(selector)
    assert caught.value.message == "Invalid selector"
