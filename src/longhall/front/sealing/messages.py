"""Sealing and opening of single messages: the queues of every door, and Kafka records of queues.

A message that shows itself as a dead letter is opened under the key of the queue that sealed it. Every other message is
opened only in the queue, or in a fork of it, for which it was sealed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.front.sealing.cipher import DataCipher, NonceSource, broken
from longhall.front.sealing.data_keys import DataKeys
from longhall.queues.envelope import RANDOM_BYTES, new_message_id
from longhall.queues.messages import Delivery, Letter, Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.seal import TAG_BYTES, Seal, message_binding, parse_seal

M = TypeVar("M", Delivery, Letter)


@final
class MessageSealer:
    """Seals what is sent, and opens what is delivered."""

    def __init__(self, keys: DataKeys, randomness: Callable[[int], bytes]) -> None:
        self.keys = keys
        self.nonces = NonceSource(randomness)
        self._randomness = randomness

    # Sealing

    def seal_now(self, queue: str, settings: QueueSettings, messages: list[Outgoing]) -> list[Outgoing] | None:
        """Sealed copies of these messages; None if a key has to be fetched first."""
        cipher = self.keys.sealing(queue)
        if cipher is None or settings.deduplication == "content":
            return None
        return [message if message.seal else self._sealed(cipher, message) for message in messages]

    async def seal(self, queue: str, settings: QueueSettings, messages: list[Outgoing]) -> list[Outgoing]:
        """Sealed copies of these messages, with what the broker would have to compute from their bodies."""
        cipher = await self.keys.fetch_sealing(queue)
        digests = await self.keys.fetch_oldest(queue) if settings.deduplication == "content" else None
        sealed = []
        for message in messages:
            if message.seal:
                sealed.append(message)
                continue
            one = self._sealed(cipher, message)
            if digests is not None:
                one.deduplication_id = content_identity(digests, message.deduplication_id, message.body)
            sealed.append(one)
        return sealed

    def _sealed(self, cipher: DataCipher, message: Outgoing) -> Outgoing:
        message_id = message.message_id or new_message_id(self._randomness(RANDOM_BYTES))
        seal, body = self.encrypt(cipher, message.body, message_id)
        return msgspec.structs.replace(message, body=body, seal=seal, message_id=message_id)

    def encrypt(self, cipher: DataCipher, body: bytes, message_id: str) -> tuple[bytes, bytes]:
        """The seal and the ciphertext of a body that is bound to this message id."""
        seal, aes, nonce = cipher.seal(self.nonces)
        return seal, aes.encrypt(nonce, body, message_binding(seal, message_id))

    async def reseal(self, letter: Letter, body: bytes) -> tuple[bytes, bytes]:
        """The seal and the ciphertext of another body for a sealed message, under the key that it has."""
        old = parse_seal(letter.seal)
        cipher = await self.keys.fetch_opening(old.topic_id, old.key_number)
        return self.encrypt(cipher, body, letter.message_id)

    # Opening

    def open_now(self, queue: str, deliveries: list[Delivery]) -> list[Delivery] | None:
        """The deliveries in clear; None if a key has to be fetched first. Raises LonghallError."""
        own = self.keys.topic_id_now(queue)
        if own is None:
            return None
        opened: list[Delivery] = []
        for delivery in deliveries:
            if not delivery.seal:
                opened.append(delivery)
                continue
            seal = parse_seal(delivery.seal)
            cipher = self.keys.opening(seal.topic_id, seal.key_number)
            if cipher is None:
                return None
            if own != seal.topic_id and not delivery.dead_letter_source:
                raise of_another_queue()
            opened.append(self._decrypted(cipher, seal, delivery))
        return opened

    async def open_one(self, queue: str, delivery: Delivery) -> Delivery:
        """One delivery of this queue in clear. Raises LonghallError if it does not open."""
        return await self._open(queue, delivery, delivery.dead_letter_source)

    async def open_letter(self, queue: str, letter: Letter) -> Letter:
        """A message as an operator sees it, in clear."""
        return await self._open(queue, letter, letter.source)

    async def _open(self, queue: str, message: M, dead_letter_source: str) -> M:
        if not message.seal:
            return message
        seal = parse_seal(message.seal)
        if not dead_letter_source and (await self.keys.topic_id_of(queue)) != seal.topic_id:
            raise of_another_queue()
        cipher = await self.keys.fetch_opening(seal.topic_id, seal.key_number)
        return self._decrypted(cipher, seal, message)

    def _decrypted(self, cipher: DataCipher, seal: Seal, message: M) -> M:
        body = decrypt(cipher, seal, message.seal, message.body, message.message_id)
        return msgspec.structs.replace(message, body=body, seal=b"")


def decrypt(cipher: DataCipher, seal: Seal, raw_seal: bytes, body: bytes, message_id: str) -> bytes:
    """A body in clear. SEAL_BROKEN."""
    if len(body) < TAG_BYTES:
        raise broken("a sealed message was cut")
    return cipher.open(seal, body, message_binding(raw_seal, message_id))


def content_identity(digests: DataCipher, given: str, body: bytes) -> str:
    """The deduplication id of a sealed message: its own, or a keyed digest of its body.

    A digest of the body alone, which the SQS door computes, would let a reader of the log test guesses of the body.
    """
    return given if given and given != plain_digest(body) else digests.digest(body)


def plain_digest(body: bytes) -> str:
    """The digest that doors use where a queue deduplicates by content."""
    return hashlib.sha256(body).hexdigest()


def of_another_queue() -> LonghallError:
    """A message that was sealed for another queue, and does not show itself as a dead letter."""
    return LonghallError(Code.SEAL_BROKEN, "a sealed message is in a queue for which it was not sealed")
