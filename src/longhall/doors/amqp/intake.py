"""The short way of what clients send for every message: whole contents go to the publisher, acknowledgements to theirs.

It does what the way frame by frame does, with fewer steps, and handles a method only if nothing stands in its way: the
channel is open, has no method that waits and no transaction. A content whose properties have a meaning for the broker
is read here, and published by the handler of basic.publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from longhall.broker.queues.sending.publication import Publication
from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.wire.frames import METHOD
from longhall.doors.amqp.wire.methods import BASIC_PUBLISH
from longhall.doors.amqp.wire.publish_reader import ACK_FRAME_BYTES, PublishReader, read_ack
from longhall.queues.messages import Outgoing
from longhall.service.exchange_operations import SETTLE

if TYPE_CHECKING:
    from longhall.doors.amqp.connection import AmqpConnection

_METHOD_NUMBER_END: Final = 11  # Of a method frame.
_PUBLISH: Final = 40
_ACK: Final = 80
_PLAIN_FLAGS: Final = 0x10  # In the first octet of the properties: delivery-mode alone.


@final
class Intake:
    """Takes publishes and acknowledgements of one connection."""

    def __init__(self, connection: AmqpConnection, body_bytes_max: int) -> None:
        self._connection = connection
        self._reader = PublishReader(body_bytes_max)

    def take(self, data: bytes, at: int, frame_bytes_max: int) -> int:
        """Handle the methods from `at` on, up to the first that is not handled here; returns where that begins."""
        count = published = confirmed = acknowledged = 0
        connection = self._connection
        sizes = connection.server.statistics.sizes
        while at + _METHOD_NUMBER_END <= len(data) and data[at] == METHOD and data[at + 8] == 60 and data[at + 9] == 0:
            method = data[at + 10]
            if method != _PUBLISH and method != _ACK:
                break
            if connection.is_over or connection.is_closing:
                break
            channel: Channel | None = connection.channels.get((data[at + 1] << 8) | data[at + 2])
            if channel is None or channel.content is not None or channel.is_closing or channel.is_busy:
                break
            if method == _PUBLISH:
                stop = self._reader.read(data, at, frame_bytes_max)
                if not stop:
                    break
                if self._publish(channel):
                    count += 1
                    published += 1
                    confirmed += channel.confirms
                    sizes.observe(len(self._reader.body))
            elif (ended := self._acknowledge(channel, data, at)) > 0:
                count += 1
                acknowledged += ended
                stop = at + ACK_FRAME_BYTES
            else:
                break
            at = stop
        if count:
            connection.requests += count
            connection.server.statistics.taken(published, confirmed, acknowledged)
            connection.origin.has_published = connection.origin.has_published or published > 0
        return at

    def _publish(self, channel: Channel) -> bool:
        """Publish the content that was read. False if the handler of basic.publish did, which counts it."""
        reader = self._reader
        address = reader.address
        assert address is not None
        properties = reader.properties
        flags = properties[0]
        is_plain = properties[1] == 0 and (
            (flags == 0 and len(properties) == 2) or (flags == _PLAIN_FLAGS and len(properties) == 3)
        )
        if not is_plain or address.is_immediate or channel.is_transactional:
            arguments = [0, address.exchange, address.keys[0], address.is_mandatory, address.is_immediate]
            content = Content(arguments)
            content.properties = properties
            content.body = reader.body
            channel.take(BASIC_PUBLISH, arguments, content)
            return False
        message = Outgoing(body=reader.body, amqp=address.stored + properties)
        publication = Publication(address.exchange, address.keys, message)
        self._connection.publisher.publish(channel, publication, address.is_mandatory)
        return True

    def _acknowledge(self, channel: Channel, data: bytes, at: int) -> int:
        """Settle what an acknowledgement names; returns how many messages. 0, and nothing is done, if it names none."""
        if channel.is_transactional:
            return 0
        number = read_ack(data, at)
        if number == 0:
            return 0
        ended = channel.ended(number, False) if number > 0 else channel.ended(-1 - number, True)
        if not ended:
            return 0
        self._connection.acknowledgements.end(ended, SETTLE, channel.limited)
        return len(ended)
