"""The dialect of the management API: its path, its logins, and refusals of the form {error, reason}.

A login is what the AMQP door takes for one; without authentication any user.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final

import msgspec

from longhall.console.api.asked import JSON
from longhall.console.api.refusals import RETRY_AFTER, STATUS, refusal_of, visible
from longhall.console.http import Response
from longhall.errors import LonghallError
from longhall.front.authenticator import DoorAuthentication
from longhall.front.credentials import basic_login
from longhall.front.identity import ANONYMOUS, Principal
from longhall.front.origins import Origin

REALM: Final = 'WWW-Authenticate: Basic realm="RabbitMQ Management"\r\n'
_ERRORS: Final = {
    HTTPStatus.UNAUTHORIZED: ("not_authorized", "Login failed"),
    HTTPStatus.NOT_FOUND: ("Object Not Found", "Not Found"),
}


class ManagementRefusal(msgspec.Struct):
    """The body of a refusal."""

    error: str
    reason: str


@final
class ManagementDialect:
    """Fulfils `console.api.service.Dialect`."""

    prefix = "/api/"

    def __init__(self, authentication: DoorAuthentication | None = None) -> None:
        self._authentication = authentication

    def who(self, headers: dict[bytes, bytes], peer: str, origin: Origin | None) -> Principal | None:
        authentication = self._authentication
        if authentication is not None and authentication.required:
            return authentication.of_request(headers.get(b"authorization"), origin, peer)
        login = basic_login(headers.get(b"authorization"))
        if login is None or not login[0]:
            return None
        return ANONYMOUS.shown_as(login[0])

    def refused(self, status: HTTPStatus, line: str) -> Response:
        error, reason = _ERRORS.get(status, (status.phrase.lower().replace(" ", "_"), line))
        response = Response(status, msgspec.json.encode(ManagementRefusal(error, reason)), JSON)
        return response._replace(headers=REALM) if status is HTTPStatus.UNAUTHORIZED else response

    def refuse(self, error: LonghallError) -> Response:
        """RabbitMQ knows no conflict: what contradicts the state is a bad request."""
        error = visible(error)
        status = STATUS[error.code]
        if status in (HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
            status = HTTPStatus.BAD_REQUEST
        word, reason = _ERRORS.get(status, ("", refusal_of(error.code, str(error)).message))
        word = word or ("bad_request" if status is HTTPStatus.BAD_REQUEST else error.code.value.replace("-", "_"))
        headers = RETRY_AFTER if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
        return Response(status, msgspec.json.encode(ManagementRefusal(word, reason)), JSON, headers)

    def accepts(self, media_type: bytes) -> bool:
        return True
