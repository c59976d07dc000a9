"""Selectors of SUBSCRIBE: the hall's own selectors (`queues/selector.py`), with the names of STOMP and JMS.

name in a selector                        field of the message
JMSPriority, priority                     $priority
JMSCorrelationID, correlation-id          $correlation
JMSType                                   type
JMSMessageID, amqp-message-id             message-id, the publisher's own
JMSTimestamp                              timestamp
other names that begin with JMS           refused: no message has such a field
"""

from __future__ import annotations

from typing import Final

from longhall.doors.stomp.errors import StompError
from longhall.errors import LonghallError
from longhall.queues.envelope import Fields
from longhall.queues.filters import CORRELATION, PRIORITY, Filter
from longhall.queues.messages import Delivery
from longhall.queues.selector import compile_selector, rename_fields

_FIELDS: Final = {
    "JMSPriority": PRIORITY,
    "priority": PRIORITY,
    "JMSCorrelationID": CORRELATION,
    "correlation-id": CORRELATION,
    "JMSType": "type",
    "JMSMessageID": "message-id",
    "amqp-message-id": "message-id",
    "JMSTimestamp": "timestamp",
}


def selector_of(text: str) -> str:
    """The selector in the names of the hall. StompError if it is none."""
    try:
        renamed = rename_fields(text, _field)
        compile_selector(renamed)
    except LonghallError as error:
        raise StompError("Invalid selector", f"{error}\n") from None
    return renamed


def _field(name: str) -> str:
    field = _FIELDS.get(name)
    if field is None and name.startswith("JMS"):
        raise StompError("Invalid selector", f"no message has the field {name}\n")
    return field or name


def selects(selector: Filter, delivery: Delivery) -> bool:
    """True if the selector matches a delivery."""
    fields = Fields(delivery.body, delivery.key, delivery.sent_ms)
    fields.attributes = delivery.attributes
    fields.group = delivery.group
    fields.priority = delivery.priority
    fields.correlation_id = delivery.correlation_id
    return selector.matches(fields)
