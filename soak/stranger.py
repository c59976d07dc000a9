"""An unauthenticated process at the peer port of a node: it knows the protocol and the hall, but not the cluster
secret.

Each attempt connects, sends a handshake, then a harmful request, and returns the frames that it received.
`conversation` records what an authenticated node sends, for the replay.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from longhall.cluster.rpc.authentication import NONCE_BYTES, Dialer, Refused, Secrets
from longhall.cluster.rpc.wire import (
    CHALLENGE,
    GREETING,
    HELLO,
    PROOF,
    WELCOME,
    Challenge,
    Greeting,
    Hello,
    Proof,
    Splitter,
    encode,
    encode_request,
)

PATIENCE_S: Final = 10.0
EPOCH: Final = 10**9
NOBODY: Final = 77  # No node has this number.
GUESSED: Final = b"guessed " * 8
NONCE: Final = b"n" * NONCE_BYTES

Frame = tuple[int, bytes]


class Line:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._splitter = Splitter()
        self._heard: list[Frame] = []

    def say(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # The other side may have closed it.
            self._socket.sendall(data)

    def hear(self) -> Frame | None:
        """The next frame; None when the other side has closed the connection."""
        while not self._heard:
            try:
                data = self._socket.recv(65536)
            except OSError:
                data = b""
            if not data:
                return None
            self._heard += list(self._splitter.feed(data))
        return self._heard.pop(0)

    def rest(self) -> list[Frame]:
        """All frames until the other side closes the connection."""
        frames: list[Frame] = []
        while (frame := self.hear()) is not None:
            frames.append(frame)
        return frames

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def line(address: str) -> Iterator[Line]:
    made = Line(address)
    try:
        yield made
    finally:
        made.close()


def greeting_of(hall: str, node: int) -> Greeting:
    """The greeting of a node with this number."""
    return Greeting(version=1, hall=hall, node=node, incarnation=1, purpose="request", reads=99)


def harm() -> bytes:
    """Requests that would depose the leader and read all data."""
    stand = msgspec.msgpack.encode({"epoch": EPOCH})
    return encode_request(1, "stand", stand) + encode_request(2, "refetch-begin", b"")


def plain(address: str, hall: str, node: int) -> list[Frame]:
    """The greeting of a cluster without a secret."""
    with line(address) as made:
        made.say(encode(GREETING, greeting_of(hall, node)) + harm())
        return made.rest()


def guessed(address: str, hall: str, node: int) -> list[Frame]:
    """A wrong secret; the listener's proof is not checked."""
    with line(address) as made:
        made.say(encode(HELLO, Hello(nonce=NONCE, node=node, purpose="request")))
        first = made.hear()
        said = msgspec.msgpack.encode(greeting_of(hall, node))
        made.say(encode(PROOF, Proof(proof=GUESSED[:32], greeting=said)) + harm())
        return ([first] if first is not None else []) + made.rest()


def reflected(address: str, hall: str, node: int) -> list[Frame]:
    """Send the listener's own proof back to it, in the same connection and in another one with the same nonce."""
    said = msgspec.msgpack.encode(greeting_of(hall, node))
    with line(address) as one, line(address) as other:
        one.say(encode(HELLO, Hello(nonce=NONCE, node=node, purpose="request")))
        first = one.hear()
        assert first is not None
        challenge = msgspec.msgpack.decode(first[1], type=Challenge)
        other.say(encode(HELLO, Hello(nonce=challenge.nonce, node=node, purpose="request")))
        second = other.hear()
        assert second is not None
        back = msgspec.msgpack.decode(second[1], type=Challenge)
        one.say(encode(PROOF, Proof(proof=back.proof, greeting=said)) + harm())
        other.say(encode(PROOF, Proof(proof=challenge.proof, greeting=said)) + harm())
        return [first, second, *one.rest(), *other.rest()]


def garbage(address: str, hall: str, node: int) -> list[Frame]:
    """Bytes that are no frames, and a frame that is too large."""
    heard: list[Frame] = []
    for said in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">IB", 1 << 20, HELLO) + bytes(1000), bytes(5000)):
        with line(address) as made:
            made.say(said)
            heard += made.rest()
    return heard


def of_another_cluster(secret: bytes) -> Callable[[str, str, int], list[Frame]]:
    """A node of another cluster, with this secret and another hall."""

    def attempt(address: str, hall: str, node: int) -> list[Frame]:
        other = "0" * len(hall)
        with line(address) as made:
            dialer = Dialer(Secrets([secret]), NONCE, 1, greeting_of(other, node))
            made.say(dialer.begin())
            first = made.hear()
            said = msgspec.msgpack.encode(greeting_of(other, node))
            made.say(encode(PROOF, Proof(proof=bytes(32), greeting=said)) + harm())
            return ([first] if first is not None else []) + made.rest()

    return attempt


def replayed(recorded: bytes) -> Callable[[str, str, int], list[Frame]]:
    """The recorded bytes of a member, sent again."""

    def attempt(address: str, hall: str, node: int) -> list[Frame]:
        with line(address) as made:
            made.say(recorded)
            return made.rest()

    return attempt


def conversation(
    address: str, secret: bytes, hall: str, node: int, listener: int, ask: str = ""
) -> tuple[bytes, bool, bytes]:
    """The bytes that an authenticated process sends, whether it was welcomed, and the answer to its request."""
    with line(address) as made:
        dialer = Dialer(Secrets([secret]), NONCE, listener, greeting_of(hall, node))
        said = dialer.begin()
        made.say(said)
        frame = made.hear()
        if frame is None or frame[0] != CHALLENGE:
            return said, False, b""
        try:
            proof = dialer.receive(*frame)
        except Refused:
            return said, False, b""
        assert proof is not None
        said += proof
        made.say(proof)
        frame = made.hear()
        welcome = frame is not None and frame[0] == WELCOME
        answer = None
        if welcome and ask:
            made.say(encode_request(1, ask, b""))
            answer = made.hear()
        return said + harm(), welcome, answer[1] if answer is not None else b""
