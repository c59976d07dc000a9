"""Complete HTTP responses, head and body, from preformatted parts.

Every response has a request id of its own: random bytes of this start of the process, and a counter.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.wire import json, query_json, xml
from longhall.doors.sqs.wire.faults import UNAVAILABLE, SqsError
from longhall.doors.sqs.wire.results import Nothing, Result

_CLOSE: Final = b"Connection: close\r\n"
_JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: " + json.CONTENT_TYPE.encode() + b"\r\n"
_XML_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: " + xml.CONTENT_TYPE.encode() + b"\r\n"
_QUERY_JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: " + query_json.CONTENT_TYPE.encode() + b"\r\n"

_encode = json.encode_result


@final
class Answers:
    """The responses of one door. Its owner has the clock and sets `date`."""

    def __init__(self, start: bytes) -> None:
        """`start` is eight random bytes."""
        digits = start.hex()
        self.date = b""
        self._start = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[13:16]}-".encode()
        self._count = 0

    def json(self, result: Result, closes: bool) -> bytes:
        """A response in the JSON protocol. An empty result has no body, as in the service."""
        return self.json_body(b"" if type(result) is Nothing else _encode(result), closes)

    def json_body(self, body: bytes, closes: bool) -> bytes:
        """The same for a body that is encoded already."""
        self._count += 1
        return b"%bDate: %b\r\nx-amzn-RequestId: %b%012x\r\nContent-Length: %d\r\n%b\r\n%b" % (
            _JSON_HEAD,
            self.date,
            self._start,
            self._count,
            len(body),
            _CLOSE if closes else b"",
            body,
        )

    def xml(self, action: str, result: Result, closes: bool) -> bytes:
        """A response in the Query protocol."""
        request_id = self._next_id()
        return self._whole(_XML_HEAD, request_id, xml.encode_result(action, result, request_id.decode()), closes)

    def query_json(self, action: str, result: Result, closes: bool) -> bytes:
        """A response in the Query protocol for a client that accepts JSON."""
        request_id = self._next_id()
        body = query_json.encode_result(action, result, request_id.decode())
        return self._whole(_QUERY_JSON_HEAD, request_id, body, closes)

    def unknown_operation(self, closes: bool) -> bytes:
        """The response to a GET of a queue's URL without an action."""
        head = f"HTTP/1.1 {_line(HTTPStatus.NOT_FOUND)}\r\nContent-Type: {xml.CONTENT_TYPE}\r\n"
        return self._whole(head.encode(), self._next_id(), xml.UNKNOWN_OPERATION, closes)

    def error(self, error: SqsError, as_query: bool, closes: bool, wants_json: bool = False) -> bytes:
        """An error in either protocol."""
        request_id = self._next_id()
        fault = error.fault
        head = f"HTTP/1.1 {_line(fault.status)}\r\n"
        if fault is UNAVAILABLE:
            head += "Retry-After: 1\r\n"
        elif error.retry_ms:
            head += f"x-amz-retry-after: {error.retry_ms}\r\n"
        if as_query and wants_json:
            body = query_json.encode_error(error, request_id.decode())
            head += f"Content-Type: {query_json.CONTENT_TYPE}\r\n"
        elif as_query:
            body = xml.encode_error(error, request_id.decode())
            head += f"Content-Type: {xml.CONTENT_TYPE}\r\n"
        else:
            body = json.encode_error(error)
            head += f"Content-Type: {json.CONTENT_TYPE}\r\n{json.QUERY_ERROR_HEADER}: {fault.code};{fault.type}\r\n"
        return self._whole(head.encode(), request_id, body, closes)

    def plain(self, status: HTTPStatus, line: str, *, closes: bool) -> bytes:
        """A line of text, for a request in neither protocol."""
        head = f"HTTP/1.1 {_line(status)}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            head += "Allow: GET, POST\r\n"
        elif status is HTTPStatus.SERVICE_UNAVAILABLE:
            head += "Retry-After: 1\r\n"
        return self._whole(head.encode(), self._next_id(), line.encode() + b"\n", closes)

    def welcome(self, door: Door, closes: bool) -> bytes:
        """The page for a person who opens the address of the door in a browser."""
        lines = (
            "This is the SQS door of Longhall. It speaks the JSON and the Query protocol of Amazon SQS.\n"
            f"Point an SDK here, for example:  boto3.client('sqs', endpoint_url='{door.scheme}://{door.authority}', "
            f"region_name='{door.region}')\n"
            f"or the command line:  aws --endpoint-url {door.scheme}://{door.authority} sqs list-queues"
        )
        return self.plain(HTTPStatus.OK, lines, closes=closes)

    def _next_id(self) -> bytes:
        self._count += 1
        return b"%b%012x" % (self._start, self._count)

    def _whole(self, head: bytes, request_id: bytes, body: bytes, closes: bool) -> bytes:
        return b"%bDate: %b\r\nx-amzn-RequestId: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
            head,
            self.date,
            request_id,
            len(body),
            _CLOSE if closes else b"",
            body,
        )


def _line(status: int) -> str:
    return f"{int(status)} {HTTPStatus(status).phrase}"
