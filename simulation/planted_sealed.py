"""Planted bugs in sealing."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker import seal_keys, sealing
from longhall.front.sealing import messages
from longhall.front.sealing.messages import MessageSealer
from longhall.records.seal import TAG_BYTES
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _in_clear() -> _Replacements:
    """Everything works, and the log has the bodies."""

    def encrypt(self: Any, cipher: Any, body: bytes, message_id: str) -> tuple[bytes, bytes]:
        return cipher.seal(self.nonces)[0], body + bytes(TAG_BYTES)

    def decrypt(cipher: Any, seal: Any, raw_seal: bytes, body: bytes, message_id: str) -> bytes:
        return body[:-TAG_BYTES]

    return [(MessageSealer, "encrypt", encrypt), (messages, "decrypt", decrypt)]


def _rotation_forgets() -> _Replacements:
    """A new data key replaces the one before it, which has sealed what still waits."""

    def encode_keys(next_number: int, keys: list[Any]) -> str:
        return seal_keys.encode_keys(next_number, keys[-1:])

    return [(sealing, "encode_keys", encode_keys)]


SEALED_BUGS: Final[dict[str, Bug]] = {
    "sealed-in-clear": Bug("A body is sealed in name only: the log has it in clear.", "sealed", 2, _in_clear),
    "rotation-forgets-older-keys": Bug(
        "A rotation loses the data keys before it, and with them the messages that they sealed.",
        "sealed",
        4,
        _rotation_forgets,
    ),
}
