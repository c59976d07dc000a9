"""A publication and its outcome: a message for an exchange, and the queues that it reached."""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.queues.messages import Outgoing


class Publication(msgspec.Struct, array_like=True):
    """One message for an exchange. `keys` are its routing key and those of CC and BCC; nobody changes them."""

    exchange: str
    keys: list[str]
    message: Outgoing


class Published(msgspec.Struct, array_like=True, omit_defaults=True):
    """The answer to one publication."""

    routed: int = 0  # The number of queues.
    code: Code | None = None
    reason: str = ""
