"""Signature version 4 of requests to AWS KMS, from the side that signs."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

ALGORITHM: Final = "AWS4-HMAC-SHA256"


class AwsCredentials(NamedTuple):
    """An access key with its secret, and the token of a session if it has one."""

    access_key: str
    secret: str
    session_token: str = ""


def signed_headers(
    credentials: AwsCredentials, region: str, service: str, host: str, path: str, headers: dict[str, str], body: bytes,
    timestamp: str,
) -> dict[str, str]:  # fmt: skip
    """These headers with the date and the signature; `timestamp` is like 20261118T061500Z."""
    every = {**headers, "host": host, "x-amz-date": timestamp}
    if credentials.session_token:
        every["x-amz-security-token"] = credentials.session_token
    lower = {name.lower(): value.strip() for name, value in every.items()}
    names = ";".join(sorted(lower))
    canonical = "\n".join(
        (
            "POST",
            path or "/",
            "",
            *(f"{name}:{lower[name]}" for name in sorted(lower)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{timestamp[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join((ALGORITHM, timestamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = ("AWS4" + credentials.secret).encode()
    for part in (timestamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    del every["host"]
    return {
        **every,
        "Authorization": f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, "
        f"Signature={signature}",
    }
