"""One blocking connection to one broker, for tasks that only read: no loop, no thread, no copy of an answer.

Requests can be pipelined (`send`, `receive`): a broker answers in order. For a few requests, or to write, there is
`blocking_client`. Raises Unreachable and Refused, as `longhall.client` does.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final, TypeVar, final

from longhall.client.connection import FRAME_BYTES_MAX
from longhall.client.login import Login, next_token
from longhall.client.refusals import Refused, Unreachable, check
from longhall.client.security import ClientSecurity
from longhall.doors.kafka.wire.apis import API, API_OF_REQUEST, Api, encode_request
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.headers import API_VERSIONS, decode_response_header
from longhall.doors.kafka.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from longhall.doors.kafka.wire.messages.versions import ApiVersionsRequest, ApiVersionsResponse
from longhall.doors.kafka.wire.schema import Message, decode
from longhall.names import STORED_FORM
from longhall.pipeline.resource import Resource

CONNECT_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 40.0
CLIENT_ID: Final = "longhall-spark"

_R = TypeVar("_R", bound=Message)


@final
class BrokerConnection(Resource):
    """A connection with its negotiated API versions. Made by `BrokerConnection.open`."""

    def __init__(self, name: str, connected: socket.socket) -> None:
        self.name = name
        self._socket = connected
        self._whole = 0 if isinstance(connected, ssl.SSLSocket) else socket.MSG_WAITALL  # TLS has records of its own.
        self.gives_stored_form = False  # Of sealed messages, to consumers who ask for it.
        self._ranges: dict[int, tuple[int, int]] = {}
        self._next_id = 0
        self._sent: list[tuple[int, Api, int]] = []  # In the order in which they will be answered.

    @classmethod
    def open(cls, host: str, port: int, security: ClientSecurity) -> BrokerConnection:
        """Connect, negotiate the API versions, and log in."""
        name = f"{host}:{port}"
        try:
            connected = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.settimeout(ANSWER_TIMEOUT_S)
            context = security.context()
            if context is not None:
                connected = context.wrap_socket(connected, server_hostname=host)
        except OSError as failure:
            raise Unreachable(f"Cannot connect to {name}: {failure}") from failure
        line = cls(name, connected)
        try:
            line._agree()
            if security.login is not None:
                line._log_in(security.login)
        except BaseException:
            line.close()
            raise
        return line

    def _agree(self) -> None:
        request = ApiVersionsRequest(client_software_name="longhall", client_software_version="1")
        for version, asked in ((3, request), (0, ApiVersionsRequest())):
            frame = self._exchange_versions(asked, version)
            _, at = decode_response_header(frame, API_VERSIONS, version)
            if frame[at : at + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
                continue
            answer = decode(ApiVersionsResponse, version, frame, at)[0]
            check(answer.error_code)
            self._ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
            self.gives_stored_form = any(row.name == STORED_FORM for row in answer.finalized_features)
            return
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"{self.name} does not say which versions it speaks")

    def _log_in(self, login: Login) -> None:
        handshake = self.call(SaslHandshakeRequest(mechanism=login.chosen_mechanism), SaslHandshakeResponse)
        check(handshake.error_code)
        steps = login.dialogue(self.name)
        token: bytes | None = next(steps)
        while token is not None:
            answer = self.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
            check(answer.error_code, answer.error_message)
            token = next_token(steps, answer.auth_bytes)

    def _exchange_versions(self, request: ApiVersionsRequest, version: int) -> bytes:
        self._write(encode_request(self._next_id, CLIENT_ID, version, request))
        self._sent.append((self._next_id, API[API_VERSIONS], version))
        self._next_id += 1
        return self._next_frame()[0]

    def version_of(self, api: Api, version_min: int = 0, version_max: int | None = None) -> int:
        """The newest version that both sides support."""
        first, last = self._ranges.get(api.key, (0, -1))
        version = min(last, api.version_max if version_max is None else version_max)
        if version < max(first, api.version_min, version_min):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"{self.name} has no version of {api.name} that is known here")
        return version

    def send(self, request: Message, version_min: int = 0, version_max: int | None = None) -> None:
        """Send a request without waiting for the response."""
        api = API_OF_REQUEST[type(request)]
        version = self.version_of(api, version_min, version_max)
        self._write(encode_request(self._next_id, CLIENT_ID, version, request))
        self._sent.append((self._next_id, api, version))
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF

    def receive(self, expected: type[_R]) -> _R:
        """The response to the oldest open request."""
        frame, api, version = self._next_frame()
        assert api.response is expected, f"{api.name} is not answered with {expected.__name__}"
        _, at = decode_response_header(frame, api.key, version)
        return decode(expected, version, frame, at)[0]

    def receive_frame(self) -> tuple[bytes, int, int]:
        """The next response undecoded: the frame, the start of its body, and its version."""
        frame, api, version = self._next_frame()
        return frame, decode_response_header(frame, api.key, version)[1], version

    def call(self, request: Message, expected: type[_R]) -> _R:
        """Send a request and wait for the response."""
        assert not self._sent, "earlier requests have open responses"
        self.send(request)
        return self.receive(expected)

    @property
    def waiting(self) -> int:
        """The number of open requests."""
        return len(self._sent)

    def _next_frame(self) -> tuple[bytes, Api, int]:
        number, api, version = self._sent.pop(0)
        size = int.from_bytes(self._read(4), "big", signed=True)
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise Unreachable(f"{self.name} sent an answer of {size} bytes.")
        frame = self._read(size)
        if int.from_bytes(frame[:4], "big", signed=True) != number:
            raise Unreachable(f"{self.name} answered something that was not asked.")
        return frame, api, version

    def _write(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError as failure:
            raise Unreachable(f"The connection to {self.name} was lost: {failure}") from failure

    def _read(self, size: int) -> bytes:
        """Read exactly `size` bytes, into one object where the kernel allows it."""
        try:
            data = self._socket.recv(size, self._whole)
            if len(data) == size:
                return data
            parts = [data]
            missing = size - len(data)
            while missing and parts[-1]:
                parts.append(self._socket.recv(missing, self._whole))
                missing -= len(parts[-1])
        except OSError as failure:
            raise Unreachable(f"The connection to {self.name} was lost: {failure}") from failure
        if missing:
            raise Unreachable(f"The connection to {self.name} was lost.")
        return b"".join(parts)

    def close(self) -> None:
        self._socket.close()
