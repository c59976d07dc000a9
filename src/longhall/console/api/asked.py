"""One request to the API as its handlers see it, and what they answer.

What a request says is read strictly: a field that nobody knows is an error that names it, never something that is
passed over in silence.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar, final

import msgspec

from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

_T = TypeVar("_T")


class Reply(NamedTuple):
    """What a handler answers: a value that becomes JSON, or bytes as they are."""

    value: object
    status: HTTPStatus = HTTPStatus.OK


@final
class Asked:
    """What was asked: names from the path, fields from the query, and the body."""

    __slots__ = ("body", "caller", "content_type", "names", "query")

    def __init__(
        self, names: tuple[str, ...], query: dict[str, str], body: bytes, content_type: str, caller: Caller
    ) -> None:
        self.names = names
        self.query = query
        self.body = body
        self.content_type = content_type
        self.caller = caller  # Identified by an access key where credentials are asked for, else by an address.

    @property
    def name(self) -> str:
        """The first name of the path: the queue."""
        return self.names[0]

    def read(self, shape: type[_T]) -> _T:
        """The JSON of the body; no body at all is an object without fields."""
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
