"""Bytes that no client should send: the protocol's own error answers them, and other connections do not notice."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from longhall.doors.amqp import errors
from longhall.doors.amqp.handshake import CHANNELS_MAX
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import BODY, FRAME_END, FRAME_HEAD, METHOD, PROTOCOL_HEADER, method_frame
from longhall.doors.amqp.wire.methods import METHODS, decode_arguments
from longhall.exchanges.field_table import EMPTY_TABLE
from tests.clients.serving import served
from tests.left_out import leave_out

START_OK = method_frame(0, methods.CONNECTION_START_OK, EMPTY_TABLE, "PLAIN", b"\0guest\0guest", "en_US")
TUNE_OK = method_frame(0, methods.CONNECTION_TUNE_OK, 0, 0, 0)
OPEN = method_frame(0, methods.CONNECTION_OPEN, "/", "", False)
PUBLISH = method_frame(1, methods.BASIC_PUBLISH, 0, "", "key", False, False)
HEADER = FRAME_HEAD.pack(2, 1, 14) + bytes([0, 60, 0, 0]) + (1).to_bytes(8, "big") + b"\0\0\xce"


class Raw:
    """A connection whose frames the test writes itself."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self._received = b""

    def frame(self) -> tuple[int, int, bytes]:
        """Kind, channel and payload of the next frame."""
        while len(self._received) < 7 or len(self._received) < 8 + int.from_bytes(self._received[3:7], "big"):
            more = self.socket.recv(65536)
            assert more, "the server hung up"
            self._received += more
        kind, channel, size = FRAME_HEAD.unpack_from(self._received)
        payload, self._received = self._received[7 : 7 + size], self._received[8 + size :]
        return kind, channel, payload

    def method(self, wanted: int) -> list[object]:
        """The arguments of the next method, which must be this one."""
        while True:
            kind, _, payload = self.frame()
            if kind == METHOD:
                number = int.from_bytes(payload[:4], "big")
                assert number == wanted, METHODS[number].name
                return decode_arguments(METHODS[number].form, payload, 4, len(payload))

    def log_in(self) -> None:
        self.socket.sendall(PROTOCOL_HEADER)
        self.method(methods.CONNECTION_START)
        self.socket.sendall(START_OK)
        self.method(methods.CONNECTION_TUNE)
        self.socket.sendall(TUNE_OK + OPEN)
        self.method(methods.CONNECTION_OPEN_OK)


@contextmanager
def raw(address: tuple[str, int]) -> Iterator[Raw]:
    connection = Raw(address)
    try:
        yield connection
    finally:
        connection.socket.close()


def test_another_protocol_is_told_the_right_one(address: tuple[str, int]) -> None:
    for header in (b"AMQP\0\1\0\0", b"GET / HT"):
        with raw(address) as connection:
            connection.socket.sendall(header)
            assert connection.socket.recv(100) == PROTOCOL_HEADER
            assert connection.socket.recv(100) == b""


def test_a_client_need_not_wait_for_the_answers_of_the_handshake(address: tuple[str, int]) -> None:
    with raw(address) as connection:
        connection.socket.sendall(
            PROTOCOL_HEADER + START_OK + TUNE_OK + OPEN + method_frame(1, methods.CHANNEL_OPEN, "")
        )
        for answer in (
            methods.CONNECTION_START,
            methods.CONNECTION_TUNE,
            methods.CONNECTION_OPEN_OK,
            methods.CHANNEL_OPEN_OK,
        ):
            connection.method(answer)


@pytest.mark.parametrize("again", [START_OK, OPEN])
def test_nothing_follows_the_error_of_a_handshake_out_of_order(address: tuple[str, int], again: bytes) -> None:
    with raw(address) as connection:
        connection.socket.sendall(PROTOCOL_HEADER + START_OK + again)
        connection.method(methods.CONNECTION_START)
        connection.method(methods.CONNECTION_TUNE)
        assert connection.method(methods.CONNECTION_CLOSE)[0] == errors.COMMAND_INVALID
        connection.socket.sendall(method_frame(0, methods.CONNECTION_CLOSE_OK))
        assert connection.socket.recv(100) == b""


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (501, b"\x09\0\1\0\0\0\0\xce"),  # An unknown frame type.
        (501, b"\x01\0\1\0\0\0\4\0\x14\0\n\0"),  # A wrong end.
        (501, FRAME_HEAD.pack(1, 1, 1 << 30)),  # Larger than the limit.
        (505, b"\x08\0\1\0\0\0\0\xce"),  # A heartbeat of a channel.
        (503, FRAME_HEAD.pack(1, 1, 4) + bytes([0, 99, 0, 1]) + b"\xce"),  # An unknown method.
        (502, FRAME_HEAD.pack(1, 1, 5) + bytes([0, 50, 0, 10, 0]) + b"\xce"),  # Arguments that are cut off.
        (504, method_frame(2, methods.BASIC_GET, 0, "q", True)),  # A channel that is not open.
        (504, method_frame(1, methods.CHANNEL_OPEN, "")),  # A channel that is open.
        (503, method_frame(1, methods.BASIC_GET_EMPTY, "")),  # A method of servers.
        (505, HEADER),  # A content without its method.
        (505, FRAME_HEAD.pack(3, 1, 1) + b"x\xce"),
        (505, PUBLISH + method_frame(1, methods.BASIC_GET, 0, "q", True)),  # A method instead of a content.
        (505, PUBLISH + HEADER.replace(bytes([0, 60, 0, 0]), bytes([0, 50, 0, 0]))),
        (
            502,
            PUBLISH + FRAME_HEAD.pack(2, 1, 16) + HEADER[7:-1] + b"xy\xce" + FRAME_HEAD.pack(3, 1, 1) + b"x\xce",
        ),  # Bytes behind the properties.
        (501, PUBLISH + HEADER + FRAME_HEAD.pack(3, 1, 2) + b"xy\xce"),  # More than announced.
        (540, method_frame(1, methods.CHANNEL_FLOW, False)),
    ],
)
def test_the_connection_is_closed_with_the_right_code(
    address: tuple[str, int], channel: BlockingChannel, code: int, data: bytes
) -> None:
    with raw(address) as connection:
        connection.log_in()
        connection.socket.sendall(method_frame(1, methods.CHANNEL_OPEN, ""))
        connection.method(methods.CHANNEL_OPEN_OK)
        connection.socket.sendall(data)
        assert connection.method(methods.CONNECTION_CLOSE)[0] == code
        connection.socket.sendall(method_frame(0, methods.CONNECTION_CLOSE_OK))
        assert connection.socket.recv(100) == b""
    channel.queue_declare("", exclusive=True)


def test_channels_have_any_number_and_a_limit(address: tuple[str, int]) -> None:
    with raw(address) as connection:
        connection.log_in()
        numbers = [65_535, *range(1, CHANNELS_MAX)]
        connection.socket.sendall(b"".join(method_frame(number, methods.CHANNEL_OPEN, "") for number in numbers))
        for _ in numbers:
            connection.method(methods.CHANNEL_OPEN_OK)
        connection.socket.sendall(method_frame(CHANNELS_MAX, methods.CHANNEL_OPEN, ""))
        assert connection.method(methods.CONNECTION_CLOSE)[0] == 530


def test_pieces_of_any_size_make_the_same_frames(address: tuple[str, int]) -> None:
    with raw(address) as connection:
        connection.log_in()
        data = method_frame(1, methods.CHANNEL_OPEN, "") + method_frame(
            1, methods.QUEUE_DECLARE, 0, "", False, False, True, False, False, EMPTY_TABLE
        )
        for at in range(len(data)):
            connection.socket.sendall(data[at : at + 1])
        connection.method(methods.CHANNEL_OPEN_OK)
        name = connection.method(methods.QUEUE_DECLARE_OK)[0]
        assert isinstance(name, str)
        assert name.startswith("amq.gen-")


def test_bodies_that_never_end_leave_memory_for_others(tmp_path: Path) -> None:
    if os.environ.get("LONGHALL_TEST_AMQP"):
        leave_out("the memory of a server that runs already is not known")
    unfinished = FRAME_HEAD.pack(2, 1, 14) + bytes([0, 60, 0, 0]) + (40 << 20).to_bytes(8, "big") + b"\0\0\xce"
    piece = FRAME_HEAD.pack(BODY, 1, 100_000) + bytes(100_000) + bytes([FRAME_END])
    with served(tmp_path / "data", options=["--set", "memory_bytes=16MiB"]) as node, ExitStack() as stack:
        host, _, port = node.amqp.rpartition(":")
        stopped = 0
        for _ in range(3):
            connection = stack.enter_context(raw((host, int(port))))
            connection.log_in()
            connection.socket.sendall(method_frame(1, methods.CHANNEL_OPEN, ""))
            connection.method(methods.CHANNEL_OPEN_OK)
            connection.socket.sendall(PUBLISH + unfinished)
            connection.socket.settimeout(0.5)
            stopped += _is_stopped(connection, piece)
        assert stopped >= 2, "more than the node's memory was read"
        other = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
        channel = other.channel()
        channel.confirm_delivery()
        channel.queue_declare("others")
        for _ in range(20):
            channel.basic_publish("", "others", bytes(50_000))
        assert channel.queue_declare("others", passive=True).method.message_count == 20
        other.close()


def _is_stopped(connection: Raw, piece: bytes) -> bool:
    """True if the node does not take 30 MB of a body: it reads no further, or closes the connection."""
    try:
        for _ in range(300):
            connection.socket.sendall(piece)
    except OSError:
        return True
    try:
        return connection.method(methods.CONNECTION_CLOSE)[0] == errors.RESOURCE_ERROR
    except TimeoutError:
        return False
