"""The one place where the wire form of a batch becomes its stored form, and back.

Both forms are the same today: sealing is off and these are the identity. They are two names nevertheless, so that
encryption at rest can come in here alone. What must then still hold: the batch header stays clear, the CRC is of the
stored form (recovery, replication and scrubbing need no key), and `front` seals before the broker sees a body. Nobody
else may assume that what is stored can be sent.
"""

from __future__ import annotations


def seal(wire: bytes) -> bytes:
    """The form in which a batch that came from a client is stored."""
    return wire


def open_sealed(stored: bytes) -> bytes:
    """The form in which stored batches are sent to a client."""
    return stored
