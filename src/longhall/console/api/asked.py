"""One request to the API as its handlers see it, and their replies.

Requests are parsed strictly: an unknown field is an error that names it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar, final

import msgspec

from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError

PREFIX: Final = "/api/v1/"  # Of every path of the API.
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

_T = TypeVar("_T")


class Reply(NamedTuple):
    """The reply of a handler: a value that is encoded as JSON, or raw bytes."""

    value: object
    status: HTTPStatus = HTTPStatus.OK
    headers: str = ""  # Additional header lines, each with its line end.


@final
class Asked:
    """A request: names from the path, fields from the query, and the body."""

    __slots__ = ("body", "caller", "content_type", "digest", "names", "query")

    def __init__(
        self,
        names: tuple[str, ...],
        query: dict[str, str],
        body: bytes,
        content_type: str,
        caller: Caller,
        digest: str = "",
    ) -> None:
        self.names = names
        self.query = query
        self.body = body
        self.content_type = content_type
        self.digest = digest  # The algorithm of the checksum that the client wants with the response; empty: none.
        self.caller = caller  # Identified by an access key with credentials, else by an address.

    @property
    def name(self) -> str:
        """The first name of the path: the queue."""
        return self.names[0]

    def read(self, shape: type[_T]) -> _T:
        """The JSON of the body; a request without a body is an object without fields."""
        if self.body and self.content_type != JSON:
            raise LonghallError(Code.INVALID_REQUEST, f"this takes {JSON}; say so in Content-Type")
        try:
            return msgspec.json.decode(self.body or b"{}", type=shape)
        except msgspec.ValidationError as error:
            raise LonghallError(Code.INVALID_REQUEST, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LonghallError(Code.INVALID_REQUEST, f"the body is not JSON: {error}") from None

    def question(self, shape: type[_T]) -> _T:
        """The fields of the query."""
        try:
            return msgspec.convert(self.query, shape, strict=False)
        except msgspec.ValidationError as error:
            raise LonghallError(Code.INVALID_REQUEST, f"the query: {error}") from None
