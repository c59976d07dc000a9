"""Receipts: the tokens with which a consumer settles, extends or returns a delivered message.

    | version | lane    | offset  | lease number | MAC      |
    | 1 byte  | 8 bytes | 8 bytes | 8 bytes      | 17 bytes |    in URL-safe base64: 56 characters, none of padding

Version 2 also means that the message asks for a delivery report, so that a settle need not read every message to find
the few that do.

The MAC is keyed with the hall's secret and covers the queue id, so a receipt is valid for one queue and cannot be
forged. The queue checks whether the lease is current; this module does not.

A receipt of a session stays between the nodes: clients of AMQP and STOMP know delivery numbers instead. It has the pass
of its queue in place of a MAC, which saves two of them a message. The pass is as secret as the key that it is made of.

    | ~ or ! | pass          | lane, offset, lease number |
    | 1      | 24 characters | 32 characters in base64    |    `!`: the message asks for a delivery report

Receipts of queues in other replication groups than the hall reach clients as `GROUP.RECEIPT`.
"""

from __future__ import annotations

import binascii
from binascii import a2b_base64, b2a_base64
from hashlib import blake2s
from hmac import compare_digest
from typing import Final, final

from librt.base64 import b64decode, b64encode, urlsafe_b64encode
from librt.strings import BytesWriter, read_i64_be, write_i64_be

from longhall.errors import Code

# Which receipts of a message an operation accepts. That of an earlier lease is always superseded.
CURRENT: Final = "current"  # That of the last lease: a settle also after the end of the lease, a change only before it.
IN_TIME: Final = "in-time"  # The same, both only while the lease lasts.
LATE: Final = "late"  # The same, both also after its end.

BETWEEN: Final = "."  # Separates the number of a group from its receipt.

_VERSION: Final = 1
_VERSIONS_END: Final = 16  # A first byte below this is a receipt of some version; others are not receipts.
_VERSION_REPORTS: Final = 2
_BODY_BYTES: Final = 25
_MAC_BYTES: Final = 17
_TEXT_CHARACTERS: Final = 56
_SESSION_BODY_BYTES: Final = 24
_SESSION_CHARACTERS: Final = 57
_PASS_BYTES: Final = 18
_PASS_END: Final = 25  # Where the base64 of a session's receipt begins.
_PASS_OF: Final = b"session"
_FROM_URL: Final = bytes.maketrans(b"-_+/", b"+/!!")  # Rejects the other alphabet: one text for each receipt.

GROUP_END: Final = "."  # Ends the number of the replication group in a receipt as clients know it.


def bare(receipt: str) -> str:
    """A receipt without the number of the group that issued it."""
    at = receipt.find(GROUP_END)
    return receipt[at + 1 :] if at > 0 and receipt[:at].isdigit() else receipt


def split_group(text: str) -> tuple[int, str]:
    """The group that issued a receipt, and the receipt as the group knows it; -1 if it names no group."""
    number, _, rest = text.partition(BETWEEN)
    return (int(number), rest) if rest and number.isascii() and number.isdigit() and len(number) < 10 else (-1, text)


@final
class Receipts:
    """Encodes and verifies the receipts of one queue."""

    def __init__(self, secret: bytes, queue_id: int) -> None:
        self._keyed = blake2s(queue_id.to_bytes(8, "big"), digest_size=_MAC_BYTES, key=secret)
        derived = blake2s(queue_id.to_bytes(8, "big"), digest_size=_PASS_BYTES, key=secret, person=_PASS_OF).digest()
        self._pass = b2a_base64(derived, newline=False).decode("ascii")

    def encode(self, lane: int, offset: int, number: int, reports: bool = False) -> str:
        """The receipt of one lease."""
        version = bytes((_VERSION_REPORTS if reports else _VERSION,))
        body = version + _packed(lane, offset, number)
        return urlsafe_b64encode(body + self._mac(body)).decode("ascii")

    def encode_for_session(self, lane: int, offset: int, number: int, reports: bool = False) -> str:
        """The receipt of a lease of a session. No client may see it."""
        body = b64encode(_packed(lane, offset, number)).decode("ascii")
        return ("!" if reports else "~") + self._pass + body

    def _verify_of_session(self, receipt: str) -> tuple[int, int, int] | Code:
        if not compare_digest(receipt[1:_PASS_END], self._pass):
            return Code.INVALID_RECEIPT
        try:
            raw = b64decode(receipt[_PASS_END:])
        except ValueError:
            return Code.INVALID_RECEIPT
        return _unpacked(raw, 0) if len(raw) == _SESSION_BODY_BYTES else Code.INVALID_RECEIPT

    def verify(self, receipt: str) -> tuple[int, int, int] | Code:
        """Lane, offset and lease number, or INVALID_RECEIPT, or RECEIPT_OF_OTHER_VERSION. The number of the group that
        issued it, before a dot, is of no meaning: the queue may have moved since.
        """
        receipt = bare(receipt)
        if len(receipt) != _TEXT_CHARACTERS or not receipt.isascii():
            if len(receipt) == _SESSION_CHARACTERS and receipt[0] in "~!" and receipt.isascii():
                return self._verify_of_session(receipt)
            return Code.INVALID_RECEIPT
        try:
            raw = a2b_base64(receipt.encode("ascii").translate(_FROM_URL), strict_mode=True)
        except binascii.Error:
            return Code.INVALID_RECEIPT
        if len(raw) != _BODY_BYTES + _MAC_BYTES:
            return Code.INVALID_RECEIPT  # Padded text is never encoded here.
        if _VERSION_REPORTS < raw[0] < _VERSIONS_END:
            return Code.RECEIPT_OF_OTHER_VERSION
        if not compare_digest(raw[_BODY_BYTES:], self._mac(raw[:_BODY_BYTES])):
            return Code.INVALID_RECEIPT
        return _unpacked(raw, 1) if _VERSION <= raw[0] <= _VERSION_REPORTS else Code.INVALID_RECEIPT

    @staticmethod
    def reports(receipt: str) -> bool:
        """True if the message of a well-formed receipt asks for a delivery report."""
        receipt = bare(receipt)
        if len(receipt) == _SESSION_CHARACTERS:
            return receipt[0] == "!"
        # The second character has the lowest two bits of the version.
        return len(receipt) == _TEXT_CHARACTERS and "g" <= receipt[1] <= "v"

    def _mac(self, body: bytes) -> bytes:
        mac = self._keyed.copy()
        mac.update(body)
        return mac.digest()


def _packed(lane: int, offset: int, number: int) -> bytes:
    out = BytesWriter()
    write_i64_be(out, lane)
    write_i64_be(out, offset)
    write_i64_be(out, number)
    return out.getvalue()


def _unpacked(raw: bytes, at: int) -> tuple[int, int, int]:
    return read_i64_be(raw, at), read_i64_be(raw, at + 8), read_i64_be(raw, at + 16)
