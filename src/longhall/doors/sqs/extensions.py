"""What this door takes beyond the service, in places where every SDK lets it pass.

    message attribute `longhall.priority`      a Number: the level of the message; the receiver sees it again
    an element of `MessageAttributeNames`      `longhall.filter=` and a selector or a policy: only what fits is
                                               received, and the rest stays for others
    queue attributes `LonghallPriorities`,     how many levels a queue has, from 1 to 255, chosen when it is made;
    `LonghallSettled`                          whether it keeps what is deleted until retention ends: `free` or `keep`

Whoever names none of these meets the service as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, SqsError
from longhall.queues.messages import Attribute, Outgoing

PRIORITY: Final = "longhall.priority"
PRIORITY_MAX: Final = 254
FILTER: Final = "longhall.filter="

_LEVEL = re.compile(rb"[0-9]{1,3}")


class ExtendedOutgoing(Outgoing, kw_only=True):
    """A message some of whose attributes are for us. The answer digests them as they were sent."""

    sent: dict[str, Attribute]


def extended(message: Outgoing) -> Outgoing:
    """The message with what its attributes say to us taken out of them. Raises SqsError."""
    attribute = message.attributes.get(PRIORITY)
    if attribute is None:
        return message
    data_type, value = attribute
    if data_type != "Number" or _LEVEL.fullmatch(value) is None or int(value) > PRIORITY_MAX:
        raise SqsError(
            INVALID_PARAMETER, f"The message attribute '{PRIORITY}' must be a Number from 0 to {PRIORITY_MAX}."
        )
    others = {name: other for name, other in message.attributes.items() if name != PRIORITY}
    return ExtendedOutgoing(body=message.body, attributes=others, priority=int(value), sent=message.attributes)


def sent_attributes(message: Outgoing) -> dict[str, Attribute]:
    """The attributes as the sender named them."""
    return message.sent if isinstance(message, ExtendedOutgoing) else message.attributes


def filter_in(names: Sequence[str]) -> str:
    """The filter among the names of attributes that a receiver asks for; empty if there is none. Raises SqsError."""
    found = [name for name in names if name.startswith(FILTER)]
    if len(found) > 1:
        raise SqsError(INVALID_PARAMETER, "A request can have one filter.")
    return found[0].removeprefix(FILTER) if found else ""
