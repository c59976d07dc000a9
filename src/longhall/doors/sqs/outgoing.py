"""An outgoing message with the extensions of this door."""

from __future__ import annotations

from longhall.queues.messages import Attribute, Outgoing


class ExtendedOutgoing(Outgoing, kw_only=True):
    """A message with extension attributes. The digest in the result covers them as they were sent."""

    sent: dict[str, Attribute]
    answers: str = ""  # The receipt of the message that this one is the answer to.
