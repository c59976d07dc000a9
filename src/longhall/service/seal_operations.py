"""The operations on the data keys of sealed topics and queues. The catalogue's leader carries them out; none of them
has a key in clear.
"""

from __future__ import annotations

from longhall.broker import sealing
from longhall.broker.hall import Hall
from longhall.broker.seal_keys import KeyRing, WrappedKey
from longhall.cluster.rpc.operation import Operation
from longhall.service.local import LocalBroker


class ReadKeyRing(Operation[KeyRing]):
    """The data keys of a topic or queue, by name or by topic id. UNKNOWN_TOPIC if there is none."""

    name: str = ""
    topic_id: bytes = b""


class AddDataKey(Operation[KeyRing]):
    """Add a data key with the next number. If another front end was first, the reply has its key instead."""

    topic_id: bytes
    key: WrappedKey


class RewrapDataKey(Operation[KeyRing]):
    """Replace the wrapping of a data key. KEY_UNKNOWN if it was destroyed."""

    topic_id: bytes
    key: WrappedKey


class DestroyDataKey(Operation[KeyRing]):
    """Destroy a data key that does not seal any more. What it sealed cannot be read from then on."""

    topic_id: bytes
    number: int


# What the front end of the client's process carries out, since it needs master keys (`front/sealing/gate.py`).


class ShowSealing(Operation[KeyRing]):
    """The data keys of a topic or queue, wrapped."""

    name: str


class RotateDataKey(Operation[KeyRing]):
    """Make a new data key, which seals from then on, and wrap the old ones under the present master keys."""

    name: str


class ForgetDataKey(Operation[KeyRing]):
    """Destroy a data key of a topic or queue, by its number."""

    name: str
    number: int


def register_seal_operations(hall: Hall, broker: LocalBroker) -> None:
    """Let this process carry them out."""
    broker.also(ReadKeyRing, lambda op, caller: sealing.read_ring(hall, op.name, op.topic_id))
    broker.also(AddDataKey, lambda op, caller: sealing.add_key(hall, op.topic_id, op.key))
    broker.also(RewrapDataKey, lambda op, caller: sealing.rewrap_key(hall, op.topic_id, op.key))
    broker.also(DestroyDataKey, lambda op, caller: sealing.destroy_key(hall, op.topic_id, op.number))
