"""Master keys in the transit engine of HashiCorp Vault or OpenBao: datakey, decrypt and rewrap.

A wrapped key is Vault's own text, `vault:vN:...`. The context is its associated data. The token is read again for each
call, because agents renew it in its file.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final, final
from urllib.parse import quote

from longhall.errors import Code, LonghallError
from longhall.front.http_client import HttpEndpoint
from longhall.front.keys.local_wrapping import context_bytes
from longhall.front.keys.provider import DataKey, KeyContext

_OK: Final = 200
_CODES: Final = {400: Code.KEY_INVALID_STATE, 403: Code.KEY_DENIED, 404: Code.KEY_UNKNOWN}


@final
class VaultTransit:
    """The provider over one mount of the transit engine."""

    def __init__(self, endpoint: HttpEndpoint, mount: str, token: Callable[[], str]) -> None:
        self._endpoint = endpoint
        self._mount = mount.strip("/")
        self._token = token

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        data = await self._ask(f"datakey/plaintext/{quote(key_id, safe='')}", {"bits": 256}, context)
        return DataKey(_clear_in(data), _wrapped_in(data))

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        asked = {"ciphertext": wrapped.decode("ascii", "replace")}
        return _clear_in(await self._ask(f"decrypt/{quote(key_id, safe='')}", asked, context))

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        asked = {"ciphertext": wrapped.decode("ascii", "replace")}
        return _wrapped_in(await self._ask(f"rewrap/{quote(key_id, safe='')}", asked, context))

    async def _ask(self, path: str, request: dict[str, Any], context: KeyContext) -> dict[str, Any]:
        request["associated_data"] = base64.b64encode(context_bytes(context)).decode()
        body = json.dumps(request).encode()
        headers = {"Content-Type": "application/json", "X-Vault-Request": "true", "X-Vault-Token": self._token()}
        reply = await self._endpoint.post(f"/v1/{self._mount}/{path}", headers, body)
        data = reply.body.get("data")
        if reply.status == _OK and isinstance(data, dict):
            return data
        errors = reply.body.get("errors")
        said = "; ".join(map(str, errors))[:500] if isinstance(errors, list) else ""
        code = _CODES.get(reply.status, Code.KEY_UNAVAILABLE)
        if "encryption key not found" in said:
            code = Code.KEY_UNKNOWN
        raise LonghallError(code, f"{path}: {said or f'status {reply.status}'}")


def _clear_in(data: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(str(data.get("plaintext", "")), validate=True)
    except (binascii.Error, ValueError):
        raise LonghallError(Code.KEY_UNAVAILABLE, "the key service gave no base64 for plaintext") from None


def _wrapped_in(data: dict[str, Any]) -> bytes:
    return str(data.get("ciphertext", "")).encode()
