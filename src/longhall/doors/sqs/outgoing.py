"""A message on its way into a queue, as this door knows it."""

from __future__ import annotations

from longhall.queues.messages import Attribute, Outgoing


class ExtendedOutgoing(Outgoing, kw_only=True):
    """A message some of whose attributes are for us. The answer digests them as they were sent."""

    sent: dict[str, Attribute]
    answers: str = ""  # The receipt of the message that this one is the answer to.
