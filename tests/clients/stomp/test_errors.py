"""Wrong input: the ERROR of each fault in RabbitMQ's words, and whether the connection goes on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from longhall.doors.stomp.wire.frames import FRAME_BYTES_MAX, V1_2, FrameDecoder, StompFrame
from tests.clients.conftest import FreshName
from tests.clients.serving import served
from tests.clients.stomp.conftest import Client, Connect

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


class Raw:
    """A connection whose frames the test writes itself."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self._decoder = FrameDecoder(1 << 24)
        self._decoder.version = V1_2

    def frame(self) -> StompFrame:
        """The next frame."""
        while (frame := self._decoder.next()) is None:
            data = self.socket.recv(65536)
            assert data, "the server hung up"
            self._decoder.feed(data)
        return frame

    def is_ended(self) -> bool:
        """True if the server has closed its side."""
        try:
            return all(byte in b"\r\n" for byte in self.socket.recv(1000))
        except ConnectionResetError:
            return True

    def log_in(self) -> None:
        self.socket.sendall(CONNECT)
        assert self.frame().command == "CONNECTED"


@contextmanager
def raw(address: tuple[str, int]) -> Iterator[Raw]:
    connection = Raw(address)
    try:
        yield connection
    finally:
        connection.socket.close()


@pytest.mark.parametrize(
    ("data", "message", "body"),
    [
        (b"SEND\n\nx\0", "Missing destination", "\"SEND\" must include a 'destination' header\n"),
        (b"SUBSCRIBE\nid:1\n\n\0", "Missing destination", "\"SUBSCRIBE\" must include a 'destination' header\n"),
        (b"SEND\ndestination:/nowhere\n\n\0", "Unknown destination", "'/nowhere' is not a valid destination.\n"),
        (b"SEND\ndestination:/queue/a/b\n\n\0", "Invalid destination", "'/a/b' is not a valid queue destination\n"),
        (
            b"SEND\ndestination:/temp-queue/a\n\n\0",
            "Invalid destination",
            "'/temp-queue/a' is not a valid destination for 'SEND'\n",
        ),
        (
            b"SEND\ndestination:/queue/a\nmessage-id:1\n\n\0",
            "Invalid header",
            "'message-id' is not allowed on 'SEND'.\n",
        ),
        (
            b"SEND\ndestination:/queue/a\ntransaction:t\n\n\0",
            "Bad transaction",
            'Invalid transaction identifier: "t"\n',
        ),
        (b"SEND\ndestination:/queue/a\npriority:high\n\n\0", "Invalid header", "'priority' is 'high'"),
        (b"BEGIN\n\n\0", "Missing transaction", "\"BEGIN\" must include a 'transaction' header\n"),
        (b"COMMIT\ntransaction:t\n\n\0", "Bad transaction", 'Invalid transaction identifier: "t"\n'),
        (b"ABORT\ntransaction:t\n\n\0", "Bad transaction", 'Invalid transaction identifier: "t"\n'),
        (b"ACK\n\n\0", "Missing header", '"ACK" must include the "id" header\n'),
        (b"NACK\nid:nonsense\n\n\0", "Message not found", 'No message with the id "nonsense"'),
        (b"ACK\nid:T_1@@other@@1\n\n\0", "Message not found", 'No message with the id "T_1@@other@@1"'),
        (
            b"UNSUBSCRIBE\nid:9\n\n\0",
            "No subscription found",
            "UNSUBSCRIBE must refer to an existing subscription.\nSubscription to \"id='9'\" not found.\n",
        ),
        (
            b"UNSUBSCRIBE\n\n\0",
            "Missing destination or id",
            "UNSUBSCRIBE must include a 'destination' or 'id' header\n",
        ),
        (
            b"SUBSCRIBE\nid:/temp-queue/a\ndestination:/queue/a\n\n\0",
            "Invalid id",
            "'id' may not start with /temp-queue/",
        ),
        (b"SUBSCRIBE\nid:1\nack:maybe\ndestination:/queue/a\n\n\0", "Invalid header", "'ack' is 'maybe'"),
        (
            b"SUBSCRIBE\nid:1\nprefetch-count:-1\ndestination:/queue/a\n\n\0",
            "Invalid header",
            "'prefetch-count' is '-1'",
        ),
        (b"SUBSCRIBE\nid:1\nselector:a =\ndestination:/queue/a\n\n\0", "Invalid selector", ""),
        (b"SUBSCRIBE\nid:1\nx-stream-offset:first\ndestination:/queue/a\n\n\0", "Invalid header", "'x-stream-offset'"),
        (b"SUBSCRIBE\ndurable:true\ndestination:/topic/a\n\n\0", "Missing Header", "Header 'id' is required"),
        (b"DANCE\n\n\0", "Bad command", 'Could not interpret command "DANCE"\n'),
        (b"send\ndestination:/queue/a\n\n\0", "Bad command", 'Could not interpret command "send"\n'),
    ],
)
def test_a_frame_that_cannot_be_carried_out(address: tuple[str, int], data: bytes, message: str, body: str) -> None:
    with raw(address) as connection:
        connection.log_in()
        connection.socket.sendall(data)
        error = connection.frame()
        assert (error.command, error.headers["message"]) == ("ERROR", message)
        assert error.body.decode().startswith(body)
        assert (error.headers["content-type"], error.headers["version"]) == ("text/plain", "1.0,1.1,1.2")
        connection.socket.sendall(b"BEGIN\ntransaction:t\nreceipt:after\n\n\0")  # The connection goes on.
        assert connection.frame().headers["receipt-id"] == "after"


@pytest.mark.parametrize(
    ("data", "message", "body"),
    [
        (b"SEND\ndestination:/exchange/no-such\n\nx\0", "not_found", "no exchange 'no-such' in vhost '/'\n"),
        (b"SUBSCRIBE\nid:1\ndestination:/exchange/no-such\n\n\0", "not_found", "no exchange 'no-such' in vhost '/'\n"),
        (b"SUBSCRIBE\nid:1\ndestination:/amq/queue/no-such\n\n\0", "not_found", "no queue 'no-such' in vhost '/'\n"),
        (
            b"SUBSCRIBE\nid:1\ndestination:/queue/bad\nx-overflow:maybe\n\n\0",
            "precondition_failed",
            "invalid arg 'x-overflow' for queue 'bad' in vhost '/': unknown overflow 'maybe'\n",
        ),
        (
            b"SUBSCRIBE\nid:1\ndestination:/queue/twice\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/twice\n\n\0",
            "Duplicated subscription identifier",
            "A subscription identified by 'T_1' already exists.",
        ),
        (b"SEND\nno colon\n\n\0", "Malformed frame", "a header has no colon: 'no colon'\n"),
        (b"SEND\na:\\x\n\n\0", "Malformed frame", "'\\x' is no escape of STOMP 1.2\n"),
        (b"SEND\ndestination:/queue/a\ncontent-length:2\n\nabc\0", "Malformed frame", "no NUL is behind"),
        (
            f"SEND\ndestination:/queue/a\ncontent-length:{FRAME_BYTES_MAX + 1}\n\n".encode(),
            "Malformed frame",
            f"a frame has more than {FRAME_BYTES_MAX} bytes\n",
        ),
        (CONNECT, "Bad CONNECT", "the connection is open already\n"),
    ],
)
def test_errors_that_close(
    address: tuple[str, int], connect: Connect, data: bytes, message: str, body: str, fresh_name: FreshName
) -> None:
    other = connect()
    with raw(address) as connection:
        connection.log_in()
        connection.socket.sendall(data)
        error = connection.frame()
        assert (error.command, error.headers["message"]) == ("ERROR", message)
        assert error.body.decode().startswith(body)
        assert connection.is_ended()
    other.send(f"/queue/{fresh_name('unharmed')}", "others do not notice")


FOREIGN = "This port speaks STOMP, and the client does not: it begins with"  # It would wait in vain for an answer.


@pytest.mark.parametrize(
    ("data", "message", "body"),
    [
        (b"CONNECT\naccept-version:2.0,3.1\n\n\0", "Version mismatch", "Supported versions are 1.0,1.1,1.2\n"),
        (b"CONNECT\nhost://\n\n\0", "Bad CONNECT", "Virtual host '//' access denied"),
        (b"SEND\ndestination:/queue/a\n\n\0", "Illegal command", "You must log in using CONNECT first\n"),
        (b"CONNECT\nx:" + b"y" * 70_000, "Malformed frame", "the headers of a frame have more than 65536 bytes\n"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "Malformed frame", f"{FOREIGN} 'GET / HTTP/1.1'\n"),
        (b"AMQP\0\0\x09\x01", "Malformed frame", f"{FOREIGN} 'AMQP\\x00\\x00\\t\\x01'\n"),
    ],
)
def test_a_login_that_fails(address: tuple[str, int], data: bytes, message: str, body: str) -> None:
    with raw(address) as connection:
        connection.socket.sendall(data)
        error = connection.frame()
        assert (error.headers["message"], error.body.decode()) == (message, body)
        assert connection.is_ended()


def test_a_receipt_is_named_in_the_error(client: Client) -> None:
    client.connection.send_frame("SEND", {"receipt": "r7", "destination": "/nowhere"})
    assert client.error().headers["receipt-id"] == "r7"
    assert client.has_nothing()


def test_a_queue_is_what_it_was_declared_as(connect: Connect, fresh_name: FreshName) -> None:
    destination = f"/queue/{fresh_name('declared')}"
    client = connect()
    client.send(destination, "first", **{"x-max-length": "5"})
    client.send(destination, "as it is")  # A frame that describes no queue takes it as it is.
    client.connection.send(destination, "other", headers={"x-max-length": "6"})
    error = client.error()
    assert error.headers["message"] == "precondition_failed"
    assert error.body.startswith(f"inequivalent arg 'x-max-length' for queue '{destination[7:]}' in vhost '/': ")
    assert client.ends.get(timeout=20)


def test_transactions_have_bounds(connect: Connect) -> None:
    client = connect()
    for number in range(16):
        client.frame("BEGIN", transaction=f"t{number}")
    client.connection.begin("t16")
    assert client.error().headers["message"] == "Transaction limit exceeded"
    client.connection.begin("t0")
    assert client.error().body == 'Transaction has already begun: "t0"\n'


def test_a_wrong_password(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("[a]\naws_access_key_id = alice\naws_secret_access_key = secret\n")
    keys.chmod(0o600)
    with served(tmp_path / "data", options=["--credentials", str(keys)]) as node:
        host, _, port = node.stomp.rpartition(":")
        with raw((host, int(port))) as connection:
            connection.socket.sendall(b"CONNECT\nlogin:alice\npasscode:wrong\n\n\0")
            error = connection.frame()
            assert (error.headers["message"], error.body) == ("Bad CONNECT", b"Access refused for user 'alice'")
            assert connection.is_ended()
        with raw((host, int(port))) as connection:
            connection.socket.sendall(b"CONNECT\nlogin:alice\npasscode:secret\n\n\0")
            assert connection.frame().command == "CONNECTED"


def test_frames_that_never_end_leave_memory_for_others(tmp_path: Path) -> None:
    piece = bytes(100_000)
    with served(tmp_path / "data", options=["--set", "memory_bytes=16MiB"]) as node, ExitStack() as stack:
        host, _, port = node.stomp.rpartition(":")
        for _ in range(8):
            connection = stack.enter_context(raw((host, int(port))))
            connection.log_in()
            connection.socket.settimeout(0.5)
            try:
                connection.socket.sendall(b"SEND\ndestination:/queue/a\ncontent-length:4000000\n\n")
                for _ in range(39):
                    connection.socket.sendall(piece)
            except (TimeoutError, ConnectionError):
                pass
        with raw((host, int(port))) as connection:
            connection.log_in()
            connection.socket.sendall(b"SEND\ndestination:/queue/a\nreceipt:r\n\nsmall\0")
            assert connection.frame().headers["receipt-id"] == "r"


def test_a_client_that_does_not_read_holds_back_only_itself(
    address: tuple[str, int], connect: Connect, fresh_name: FreshName
) -> None:
    topic = f"/topic/{fresh_name('slow')}"
    client = connect()
    client.subscribe(topic)
    with raw(address) as slow:
        slow.log_in()
        slow.socket.sendall(f"SUBSCRIBE\nid:1\nreceipt:r\ndestination:{topic}\n\n\0".encode())
        assert slow.frame().headers["receipt-id"] == "r"
        for _ in range(40):
            client.send(topic, "x" * 200_000)
        assert len(client.bodies(40)) == 40


def test_pieces_of_any_size_make_the_same_frames(address: tuple[str, int]) -> None:
    with raw(address) as connection:
        for data in (CONNECT, b"\n\nBEGIN\ntransaction:t\nreceipt:r\n\n\0\n"):
            for at in range(len(data)):
                connection.socket.sendall(data[at : at + 1])
        assert connection.frame().command == "CONNECTED"
        assert connection.frame().headers == {"receipt-id": "r"}
