"""Master keys in AWS KMS, or in anything that speaks its API: GenerateDataKey, Decrypt and ReEncrypt over JSON 1.1.

The context is KMS' encryption context, so its audit log names the topic of every data key.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.front.http_client import HttpEndpoint
from longhall.front.keys.aws_signature import AwsCredentials, signed_headers
from longhall.front.keys.provider import DATA_KEY_BYTES, DataKey, KeyContext

_OK: Final = 200
_CODES: Final = {
    "NotFoundException": Code.KEY_UNKNOWN,
    "DisabledException": Code.KEY_DISABLED,
    "AccessDeniedException": Code.KEY_DENIED,
    "UnrecognizedClientException": Code.KEY_DENIED,
    "InvalidSignatureException": Code.KEY_DENIED,
    "MissingAuthenticationTokenException": Code.KEY_DENIED,
    "KMSInvalidStateException": Code.KEY_INVALID_STATE,
    "InvalidKeyUsageException": Code.KEY_INVALID_USAGE,
    "OptInRequired": Code.KEY_NOT_SUBSCRIBED,
    "IncorrectKeyException": Code.KEY_INVALID_STATE,
    "InvalidCiphertextException": Code.KEY_INVALID_STATE,
    "ValidationException": Code.KEY_INVALID_STATE,
}


@final
class AwsKms:
    """The provider over one endpoint of KMS."""

    def __init__(
        self, endpoint: HttpEndpoint, region: str, credentials: AwsCredentials, timestamp: Callable[[], str]
    ) -> None:
        self._endpoint = endpoint
        self._region = region
        self._credentials = credentials
        self._timestamp = timestamp

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        asked = {"KeyId": key_id, "NumberOfBytes": DATA_KEY_BYTES, "EncryptionContext": dict(context)}
        answer = await self._ask("GenerateDataKey", asked)
        return DataKey(_bytes_in(answer, "Plaintext"), _bytes_in(answer, "CiphertextBlob"))

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        asked = {"KeyId": key_id, "CiphertextBlob": _text(wrapped), "EncryptionContext": dict(context)}
        return _bytes_in(await self._ask("Decrypt", asked), "Plaintext")

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        asked = {
            "CiphertextBlob": _text(wrapped),
            "SourceKeyId": key_id,
            "SourceEncryptionContext": dict(context),
            "DestinationKeyId": key_id,
            "DestinationEncryptionContext": dict(context),
        }
        return _bytes_in(await self._ask("ReEncrypt", asked), "CiphertextBlob")

    async def _ask(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(request).encode()
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"TrentService.{action}"}
        endpoint = self._endpoint
        signed = signed_headers(
            self._credentials, self._region, "kms", endpoint.authority, endpoint.path + "/", headers, body,
            self._timestamp(),
        )  # fmt: skip
        reply = await endpoint.post("/", signed, body)
        if reply.status == _OK:
            return reply.body
        kind = str(reply.body.get("__type", "")).rpartition("#")[2]
        said = str(reply.body.get("message") or reply.body.get("Message") or kind or f"status {reply.status}")[:500]
        raise LonghallError(_CODES.get(kind, Code.KEY_UNAVAILABLE), f"{action}: {said}")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes_in(answer: dict[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(str(answer.get(name, "")), validate=True)
    except (binascii.Error, ValueError):
        raise LonghallError(Code.KEY_UNAVAILABLE, f"the key service gave no base64 for {name}") from None
