"""Verification of AWS signatures, version 4: the sender knows the secret, and the request is unchanged.

    canonical request = method, path, query, signed headers, their names, SHA-256 of the body
    string to sign    = AWS4-HMAC-SHA256, time, <date>/<region>/<service>/aws4_request, SHA-256 of the above
    signature         = HMAC with a key that is derived from secret, date, region and service

The signature is in the `Authorization` header or in the query of a presigned URL. The hash is always computed from the
received body; signatures are compared in constant time. This module does not know queues.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, final
from urllib.parse import quote

from longhall.doors.sqs.wire.faults import (
    EXPIRED,
    INCOMPLETE_SIGNATURE,
    INVALID_SECURITY,
    INVALID_TOKEN,
    MISSING_TOKEN,
    WRONG_SIGNATURE,
    Fault,
    SqsError,
)
from longhall.doors.sqs.wire.query import parse_form
from longhall.front.authenticator import DoorAuthentication
from longhall.front.identity import Principal
from longhall.front.origins import Origin

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "sqs"
SKEW_MS_MAX: Final = 15 * 60_000
PRESIGNED_S_MAX: Final = 7 * 24 * 3600
SIGNED_HEADERS_MAX: Final = 50
KEYS_KEPT_MAX: Final = 1024
REMEMBERED_MAX: Final = 256

_PART = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_HEADER_NAMES = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+(;[a-z0-9!#$%&'*+.^_`|~-]+)*")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_SPACES = re.compile(r" +")
# Where earlier signature versions have the signer: in the form, or in the header with another scheme.
_OLDER: Final = b"AWSAccessKeyId="
_OLDER_SCHEMES: Final = frozenset({"AWS", "AWS3", "AWS3-HTTPS"})


class _Claim(NamedTuple):
    """The signature of a request, with its parameters."""

    credential: str
    signed_headers: str
    signature: str
    time: str
    seconds_max: int  # How long a presigned request is valid; 0 for others.
    query: list[tuple[str, str]]


def is_signed(headers: Mapping[bytes, bytes], target: bytes) -> bool:
    """True if a request has a signature or another proof of its own."""
    return b"authorization" in headers or b"X-Amz-" in target


@final
class Verifier:
    """Verifies requests with the known secrets."""

    def __init__(self, authentication: DoorAuthentication) -> None:
        self.authentication = authentication
        self._keys: dict[tuple[str, str, str], bytes] = {}

    def of_certificate(self, origin: Origin | None) -> Principal:
        """Whose certificate the client of a request without a signature has. Raises SqsError."""
        principal = self.authentication.of_certificate(origin)
        if principal is None:
            raise _refuse(INVALID_TOKEN, "The certificate of the client names no user that may log in.")
        return principal

    def verify(
        self, method: bytes, target: bytes, headers: Mapping[bytes, bytes], body: bytes, now_ms: int, address: str = ""
    ) -> Principal:
        """Whose access key signed the request. Raises SqsError."""
        authentication = self.authentication
        try:
            principal = self._signer(method, target, headers, body, now_ms)
        except SqsError as error:
            # A signature cannot be guessed, so a right one is taken whatever came before it.
            if error.fault in (INVALID_TOKEN, WRONG_SIGNATURE) and not authentication.is_shut_out(address):
                authentication.note(None, "", address, now_ms)
            raise
        authentication.authenticator.failed_logins.logins[authentication.door] += 1
        return principal

    def _signer(
        self, method: bytes, target: bytes, headers: Mapping[bytes, bytes], body: bytes, now_ms: int
    ) -> Principal:
        path, _, query_string = target.partition(b"?")
        query = parse_form(query_string)
        claim = _claim(headers, query, body)
        access_key, date, region, service, ending = _scope(claim.credential)
        known = self.authentication.authenticator.secret_of(access_key)
        if known is None:
            raise _refuse(INVALID_TOKEN, "The security token included in the request is invalid.")
        if service != SERVICE or ending != "aws4_request" or not claim.time.startswith(date):
            raise _refuse(WRONG_SIGNATURE, f"Credential should be scoped to {SERVICE} and to the day of the request.")
        _check_time(claim, now_ms)
        names = _signed_names(claim, headers)
        digest = hashlib.sha256(body).hexdigest()
        if headers.get(b"x-amz-content-sha256", digest.encode()) != digest.encode():
            raise _refuse(WRONG_SIGNATURE, "The body does not have the hash that the request gives for it.")
        canonical = "\n".join(
            (
                method.decode("latin-1"),
                _canonical_path(path),
                _canonical_query(claim.query),
                *[f"{name}:{_canonical_value(headers[key])}" for name, key in names],
                "",
                claim.signed_headers,
                digest,
            )
        )
        scope = f"{date}/{region}/{service}/{ending}"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = f"{ALGORITHM}\n{claim.time}\n{scope}\n{hashed}"
        expected = hmac.digest(self._key(known.secret, date, region), to_sign.encode(), "sha256").hex()
        if not hmac.compare_digest(expected, claim.signature):
            raise _refuse(
                WRONG_SIGNATURE,
                "The request signature we calculated does not match the signature you provided. "
                "Check your AWS Secret Access Key and signing method.",
            )
        return known.principal

    def _key(self, secret: str, date: str, region: str) -> bytes:
        found = self._keys.get((secret, date, region))
        if found is None:
            found = f"AWS4{secret}".encode()
            for part in (date, region, SERVICE, "aws4_request"):
                found = hmac.digest(found, part.encode(), "sha256")
            if len(self._keys) >= KEYS_KEPT_MAX:
                self._keys.clear()
            self._keys[secret, date, region] = found
        return found


def _refuse(fault: Fault, message: str) -> SqsError:
    return SqsError(fault, message)


def _claim(headers: Mapping[bytes, bytes], query: list[tuple[str, str]], body: bytes) -> _Claim:
    authorization = headers.get(b"authorization")
    presigned = dict(query)
    if authorization is None:
        if "X-Amz-Signature" not in presigned and "X-Amz-Algorithm" not in presigned:
            if "AWSAccessKeyId" in presigned or _OLDER in body:
                raise _refuse(INVALID_SECURITY, "The request is signed with an older version of signatures than 4.")
            raise _refuse(MISSING_TOKEN, "Request is missing Authentication Token")
        return _presigned_claim(presigned, query)
    if "X-Amz-Signature" in presigned:
        raise _refuse(INCOMPLETE_SIGNATURE, "A request is signed in its header or in its query, not in both.")
    algorithm, _, rest = authorization.decode("latin-1").strip().partition(" ")
    if algorithm in _OLDER_SCHEMES:
        raise _refuse(INVALID_SECURITY, "The request is signed with an older version of signatures than 4.")
    if algorithm != ALGORITHM:
        raise _refuse(INCOMPLETE_SIGNATURE, f"Authorization header requires the algorithm {ALGORITHM}.")
    parts: dict[str, str] = {}
    for text in rest.split(",", 8):
        found = _PART.fullmatch(text)
        if found is None or found[1] in parts:
            raise _refuse(INCOMPLETE_SIGNATURE, "Authorization header is malformed.")
        parts[found[1]] = found[2]
    if len(parts) != 3:
        said = "Authorization header requires 'Credential', 'Signature' and 'SignedHeaders' parameters."
        raise _refuse(INCOMPLETE_SIGNATURE, said)
    time = headers.get(b"x-amz-date", b"").decode("latin-1")
    if _TIME.fullmatch(time) is None:
        raise _refuse(INCOMPLETE_SIGNATURE, "Authorization header requires existence of an 'X-Amz-Date' header.")
    return _Claim(parts["Credential"], parts["SignedHeaders"], parts["Signature"], time, 0, query)


def _presigned_claim(presigned: Mapping[str, str], query: list[tuple[str, str]]) -> _Claim:
    if len({name for name, _ in query}) != len(query):
        raise _refuse(INCOMPLETE_SIGNATURE, "A presigned request has every parameter once.")
    names = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Date")
    algorithm, credential, signed_headers, signature, time = (presigned.get(name, "") for name in names)
    expires = presigned.get("X-Amz-Expires", "")
    if algorithm != ALGORITHM or not credential or not signed_headers or _TIME.fullmatch(time) is None:
        raise _refuse(INCOMPLETE_SIGNATURE, "The query lacks a part of the signature, or it is malformed.")
    if not (expires.isascii() and expires.isdigit() and len(expires) <= 6 and 1 <= int(expires) <= PRESIGNED_S_MAX):
        raise _refuse(INCOMPLETE_SIGNATURE, "X-Amz-Expires must be a number of seconds up to a week.")
    rest = [(name, value) for name, value in query if name != "X-Amz-Signature"]
    return _Claim(credential, signed_headers, signature, time, int(expires), rest)


def _scope(credential: str) -> list[str]:
    parts = credential.rsplit("/", 4)
    if len(parts) != 5 or not all(parts):
        raise _refuse(INCOMPLETE_SIGNATURE, "Credential must have exactly 5 slash-delimited elements.")
    return parts


def _check_time(claim: _Claim, now_ms: int) -> None:
    signed_ms = _moment_ms(claim.time)
    if claim.seconds_max:
        if now_ms > signed_ms + claim.seconds_max * 1000:
            raise _refuse(EXPIRED, f"The request of {claim.time} was good for {claim.seconds_max} seconds.")
    elif now_ms > signed_ms + SKEW_MS_MAX:
        bound = f"{_time(now_ms - SKEW_MS_MAX)} ({_time(now_ms)} - 15 min.)"
        raise _refuse(WRONG_SIGNATURE, f"Signature expired: {claim.time} is now earlier than {bound}")
    if now_ms < signed_ms - SKEW_MS_MAX:
        bound = f"{_time(now_ms + SKEW_MS_MAX)} ({_time(now_ms)} + 15 min.)"
        raise _refuse(WRONG_SIGNATURE, f"Signature not yet current: {claim.time} is still later than {bound}")


def _time(moment_ms: int) -> str:
    return datetime.datetime.fromtimestamp(moment_ms // 1000, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")


@lru_cache(REMEMBERED_MAX)
def _moment_ms(time: str) -> int:
    """The time in milliseconds. Cached, because many requests have the same second."""
    try:
        moment = datetime.datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    except ValueError:
        raise _refuse(INCOMPLETE_SIGNATURE, "The date of the request is none.") from None
    return int(moment.timestamp()) * 1000


@lru_cache(REMEMBERED_MAX)
def _names(signed_headers: str) -> tuple[tuple[str, bytes], ...]:
    """The names in a list of signed headers, as text and as bytes. Cached, because an SDK sends few different lists."""
    names = signed_headers.split(";")
    if (
        _HEADER_NAMES.fullmatch(signed_headers) is None
        or len(names) > SIGNED_HEADERS_MAX
        or len(set(names)) != len(names)
    ):
        raise _refuse(INCOMPLETE_SIGNATURE, "The list of signed headers is malformed.")
    return tuple((name, name.encode()) for name in names)


def _signed_names(claim: _Claim, headers: Mapping[bytes, bytes]) -> tuple[tuple[str, bytes], ...]:
    """The signed headers. All headers that could change the meaning of the request must be among them."""
    if _SIGNATURE.fullmatch(claim.signature) is None:
        raise _refuse(INCOMPLETE_SIGNATURE, "The signature is malformed.")
    names = _names(claim.signed_headers)
    for name, key in names:
        if key not in headers:
            raise _refuse(WRONG_SIGNATURE, f"The signed header {name[:100]} is not in the request.")
    signed = {key for _, key in names}
    for header in headers:
        if header not in signed and (header == b"host" or header.startswith(b"x-amz-")):
            raise _refuse(WRONG_SIGNATURE, f"The header {header.decode('latin-1')} must be signed.")
    if b"host" not in signed:
        raise _refuse(WRONG_SIGNATURE, "The header host must be signed.")
    return names


def _canonical_path(path: bytes) -> str:
    """The path without dot segments and repeated slashes, encoded twice: only S3 encodes it once."""
    if path == b"/":
        return "/"
    out: list[str] = []
    text = path.decode("latin-1")
    for part in text.split("/"):
        if part == "..":
            del out[-1:]
        elif part and part != ".":
            out.append(part)
    joined = "/" + "/".join(out)
    if out and text.endswith("/"):
        joined += "/"
    return quote(joined, safe="/~", encoding="latin-1")


def _canonical_query(query: list[tuple[str, str]]) -> str:
    pairs = sorted((quote(name, safe="~"), quote(value, safe="~")) for name, value in query)
    return "&".join(f"{name}={value}" for name, value in pairs)


def _canonical_value(value: bytes) -> str:
    text = value.decode("latin-1").strip()
    return _SPACES.sub(" ", text) if "  " in text else text
