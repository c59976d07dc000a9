"""One connection to one broker: requests are pipelined, and responses are matched by correlation id.

The number of open requests and the size of a response are bounded. A request that times out closes the connection,
since it is unknown which requests were served; all other open requests fail in the same way. Time is the loop's, so
that virtual time works.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypedDict, TypeVar, final

from longhall.client.login import Login, log_in
from longhall.client.refusals import Unreachable, check
from longhall.doors.kafka.wire.apis import API, API_OF_REQUEST, Api, encode_request
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.headers import API_VERSIONS, decode_response_header
from longhall.doors.kafka.wire.messages.versions import ApiVersionsRequest, ApiVersionsResponse
from longhall.doors.kafka.wire.schema import Message, decode
from longhall.errors import Code, LonghallError
from longhall.world.ports import Network

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
IN_FLIGHT_MAX: Final = 100
REQUEST_TIMEOUT_MS: Final = 30_000

_R = TypeVar("_R", bound=Message)


class CallLimits(TypedDict, total=False):
    """The bounds of one call: the newest version of the request that may be used, and how long the answer may take."""

    version_max: int | None
    timeout_ms: int


@final
class Connection(asyncio.Protocol):
    """A connection with its negotiated API versions. Made by `Connection.open`."""

    def __init__(self, name: str, client_id: str) -> None:
        self.name = name
        self.features: dict[str, int] = {}
        self._client_id = client_id
        self._ranges: dict[int, tuple[int, int]] = {}
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._next_id = 0
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost: str = ""

    @classmethod
    async def open(
        cls, network: Network, host: str, port: int, client_id: str, login: Login | None = None
    ) -> Connection:
        """Connect, negotiate the API versions, and log in. Raises Unreachable, or Refused for a wrong login."""
        name = f"{host}:{port}"
        try:
            connection = await network.connect(lambda: cls(name, client_id), host, port)
        except (OSError, TimeoutError) as failure:
            raise Unreachable(f"Cannot connect to {name}: {failure}") from failure
        assert isinstance(connection, cls)
        try:
            await connection._agree()
            if login is not None:
                await log_in(connection, login)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _agree(self) -> None:
        asked = ApiVersionsRequest(client_software_name="longhall", client_software_version="1")
        answer = await self._api_versions(asked, 3)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._api_versions(ApiVersionsRequest(), 0)
        check(answer.error_code)
        self._ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        self.features = {row.name: row.max_version_level for row in answer.finalized_features}

    async def _api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        frame = await self._exchange(API[API_VERSIONS], request, version, REQUEST_TIMEOUT_MS)
        _, at = decode_response_header(frame, API_VERSIONS, version)
        if frame[at : at + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0  # A broker that does not support the requested version answers in the oldest one.
        return decode(ApiVersionsResponse, version, frame, at)[0]

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._lost

    def version_of(self, api: Api, version_max: int | None = None) -> int:
        """The newest version that both sides support. Raises LonghallError (UNSUPPORTED_VERSION)."""
        first, last = self._ranges.get(api.key, (0, -1))
        version = min(last, api.version_max if version_max is None else version_max)
        if version < max(first, api.version_min):
            raise LonghallError(
                Code.UNSUPPORTED_VERSION, f"{self.name} has no version of {api.name} that is known here."
            )
        return version

    async def call(
        self,
        request: Message,
        expected: type[_R],
        *,
        version_max: int | None = None,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> _R:
        """Send a request and wait for the response. Raises Unreachable if there is none."""
        api = API_OF_REQUEST[type(request)]
        assert api.response is expected, f"{api.name} is not answered with {expected.__name__}"
        version = self.version_of(api, version_max)
        frame = await self._exchange(api, request, version, timeout_ms)
        _, at = decode_response_header(frame, api.key, version)
        return decode(expected, version, frame, at)[0]

    async def tell(self, request: Message, *, version_max: int | None = None) -> None:
        """Send a request that has no response: a Produce without acknowledgement."""
        version = self.version_of(API_OF_REQUEST[type(request)], version_max)
        await self._writable.wait()
        self._write(encode_request(self._take_id(), self._client_id, version, request))

    async def _exchange(self, api: Api, request: Message, version: int, timeout_ms: int) -> bytes:
        async with self._room:
            await self._writable.wait()
            number = self._take_id()
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._write(encode_request(number, self._client_id, version, request))
            self._waiting[number] = answer
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await answer
            except TimeoutError:
                self._fail(f"{self.name} did not answer {api.name} within {timeout_ms} ms.")
                raise Unreachable(self._lost) from None
            finally:
                # Of a caller that was cancelled the answer may still come, and is dropped then.
                self._waiting.pop(number, None)

    def _take_id(self) -> int:
        number = self._next_id
        self._next_id = (number + 1) & 0x7FFFFFFF
        return number

    def _write(self, frame: bytes) -> None:
        if self._transport is None or self._lost:
            raise Unreachable(self._lost or f"Not connected to {self.name}.")
        self._transport.write(frame)

    def close(self) -> None:
        self._fail(f"The connection to {self.name} was closed.")

    def _fail(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
        if self._transport is not None:
            self._transport.abort()
        self._writable.set()
        for answer in list(self._waiting.values()):
            if not answer.done():
                answer.set_exception(Unreachable(self._lost))
        self._waiting.clear()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        at = 0
        while len(received) - at >= 4:
            size = int.from_bytes(received[at : at + 4], "big", signed=True)
            if not 4 <= size <= FRAME_BYTES_MAX:
                self._fail(f"{self.name} sent an answer of {size} bytes.")
                return
            if len(received) - at < 4 + size:
                break
            self._answered(bytes(received[at + 4 : at + 4 + size]))
            at += 4 + size
        if at:
            del received[:at]

    def _answered(self, frame: bytes) -> None:
        answer = self._waiting.get(int.from_bytes(frame[:4], "big", signed=True))
        if answer is not None and not answer.done():
            answer.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(f"The connection to {self.name} was lost{f': {exc}' if exc else ''}.")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
