"""The port through which a door hands on what another node has to answer.

What is carried is the request as a client would have sent it, and what comes back is the answer as the other node's
door would have written it: the door that is asked need not understand either. At the other end a connection without a
socket takes the bytes (`front.carried`), so that every bound and every check of that door holds there too.
"""

from __future__ import annotations

from typing import Final, Protocol

from longhall.front.calls import HttpCall

KAFKA: Final = "kafka"
SQS: Final = "sqs"
HTTP: Final = "http"
SQS_CALL: Final = "sqs-call"  # What the door that was asked has read and checked: see `doors.sqs.handing`.

ANSWER_S_MAX: Final = 35.0  # The longest that anybody may wait for a message, and some.


class Carrier(Protocol):
    """See the module."""

    def elsewhere(self) -> bool:
        """Whether another node answers now."""

    async def confirm(self) -> None:
        """Before somebody is told for good that something is not there: returns when this node led after it was asked,
        or knows that it does not lead. LonghallError with NOT_READY if that cannot be found out.
        """

    async def carry(self, door: str, peer: str, request: bytes, waits: bool = False) -> bytes:
        """Have the leader answer; `peer` is the address of the client. One that `waits` is given up by the leader when
        it does not hear from this node any more; whatever else was begun runs to its end.

        LonghallError with NOT_READY if there is no leader within a moment or it cannot be reached, OVERLOADED if too
        much is on its way already, TIMED_OUT if no answer came: then it may have been done, or not. Cancelling lets
        the other node know that nobody waits any more.
        """


# What belongs to one connection and not to the request; the length is told anew.
_OF_THE_CONNECTION: Final = frozenset(
    {b"connection", b"content-length", b"expect", b"keep-alive", b"te", b"trailer", b"transfer-encoding"}
)


def request_of(call: HttpCall) -> bytes:
    """An HTTP request as one piece, to be carried."""
    lines = [call.method + b" " + call.target + b" HTTP/1.1"]
    if b"host" not in call.headers:  # Of HTTP/1.0.
        lines.append(b"host: localhost")
    lines += [name + b": " + value for name, value in call.headers.items() if name not in _OF_THE_CONNECTION]
    if call.body or b"content-length" in call.headers:
        lines.append(b"content-length: %d" % len(call.body))
    if call.closes:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + call.body


def answer_with(call: HttpCall, answer: bytes) -> None:
    """Hand over what came back. An answer that says that it is the last one is the last."""
    if b"\r\nconnection: close\r\n" in answer[: answer.find(b"\r\n\r\n") + 2].lower():
        call.closes = True
    call.ready(answer)
