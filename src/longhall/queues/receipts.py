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
from struct import Struct
from typing import Final, final

from longhall.errors import Code

# Which receipts of a message an operation accepts. That of an earlier lease is always superseded.
CURRENT: Final = "current"  # That of the last lease: a settle also after the end of the lease, a change only before it.
IN_TIME: Final = "in-time"  # The same, both only while the lease lasts.
LATE: Final = "late"  # The same, both also after its end.

BETWEEN: Final = "."  # Separates the number of a group from its receipt.

_VERSION: Final = 1
_VERSIONS_END: Final = 16  # A first byte below this is a receipt of some version; others are not receipts.
_VERSION_REPORTS: Final = 2
_BODY: Final = Struct(">BQQQ")
_BODY_BYTES: Final = 25
_MAC_BYTES: Final = 17
_TEXT_CHARACTERS: Final = 56
_SESSION_BODY: Final = Struct(">QQQ")
_SESSION_CHARACTERS: Final = 57
_PASS_BYTES: Final = 18
_PASS_END: Final = 25  # Where the base64 of a session's receipt begins.
_PASS_OF: Final = b"session"
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
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
        body = _BODY.pack(_VERSION_REPORTS if reports else _VERSION, lane, offset, number)
        return b2a_base64(body + self._mac(body), newline=False).translate(_TO_URL).decode("ascii")

    def encode_for_session(self, lane: int, offset: int, number: int, reports: bool = False) -> str:
        """The receipt of a lease of a session. No client may see it."""
        body = b2a_base64(_SESSION_BODY.pack(lane, offset, number), newline=False).decode("ascii")
        return ("!" if reports else "~") + self._pass + body

    def _verify_of_session(self, receipt: str) -> tuple[int, int, int] | Code:
        if not compare_digest(receipt[1:_PASS_END], self._pass):
            return Code.INVALID_RECEIPT
        try:
            raw = a2b_base64(receipt[_PASS_END:], strict_mode=True)
        except binascii.Error:
            return Code.INVALID_RECEIPT
        lane, offset, number = _SESSION_BODY.unpack(raw)
        return lane, offset, number

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
        version, lane, offset, number = _BODY.unpack_from(raw)
        return (lane, offset, number) if _VERSION <= version <= _VERSION_REPORTS else Code.INVALID_RECEIPT

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
