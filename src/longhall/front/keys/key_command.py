"""Master keys behind a program of the operator: a hardware module, or a service that has no provider here.

The program is started for each call, gets one JSON object on its standard input, and writes one to its output:

    {"action": "generate", "key": ID, "context": {...}}                      -> {"plaintext": B64, "ciphertext": B64}
    {"action": "unwrap", "key": ID, "ciphertext": B64, "context": {...}}     -> {"plaintext": B64}
    {"action": "rewrap", "key": ID, "ciphertext": B64, "context": {...}}     -> {"ciphertext": B64}

A refusal is {"error": WORD, "message": TEXT} with one of the words unknown, disabled, denied, invalid-state,
invalid-usage, not-subscribed and unavailable. Another end of the program counts as KEY_UNAVAILABLE. A program that is
too slow is killed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.front.keys.provider import DataKey, KeyContext

OUTPUT_BYTES_MAX: Final = 64 * 1024

_CODES: Final = {
    "unknown": Code.KEY_UNKNOWN,
    "disabled": Code.KEY_DISABLED,
    "denied": Code.KEY_DENIED,
    "invalid-state": Code.KEY_INVALID_STATE,
    "invalid-usage": Code.KEY_INVALID_USAGE,
    "not-subscribed": Code.KEY_NOT_SUBSCRIBED,
    "unavailable": Code.KEY_UNAVAILABLE,
}


@final
class KeyCommand:
    """The provider over one program."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        answer = await self._ask({"action": "generate", "key": key_id, "context": dict(context)})
        return DataKey(_bytes_in(answer, "plaintext"), _bytes_in(answer, "ciphertext"))

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        ciphertext = base64.b64encode(wrapped).decode()
        asked = {"action": "unwrap", "key": key_id, "ciphertext": ciphertext, "context": dict(context)}
        return _bytes_in(await self._ask(asked), "plaintext")

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        ciphertext = base64.b64encode(wrapped).decode()
        asked = {"action": "rewrap", "key": key_id, "ciphertext": ciphertext, "context": dict(context)}
        return _bytes_in(await self._ask(asked), "ciphertext")

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        name = self._command[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise _unavailable(f"{name}: {error.strerror or error}") from None
        try:
            output = await _converse(process, json.dumps(request).encode())
            status = await process.wait()
        except OSError as error:
            raise _unavailable(f"{name}: {error.strerror or error}") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()  # No zombie is left, also if this call was cancelled.
        if len(output) > OUTPUT_BYTES_MAX:
            raise _unavailable(f"{name} wrote more than {OUTPUT_BYTES_MAX} bytes")
        try:
            answer = json.loads(output)
        except ValueError:
            raise _unavailable(f"{name} ended with status {status} and wrote no JSON") from None
        if not isinstance(answer, dict):
            raise _unavailable(f"{name} wrote no JSON object")
        if "error" in answer:
            code = _CODES.get(str(answer["error"]), Code.KEY_UNAVAILABLE)
            raise LonghallError(code, str(answer.get("message", ""))[:500] or f"{name} refused: {code.value}")
        return answer


async def _converse(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    """Write the request, and read at most one byte more than the output may have."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    process.stdin.close()
    output = b""
    while len(output) <= OUTPUT_BYTES_MAX:
        more = await process.stdout.read(OUTPUT_BYTES_MAX + 1 - len(output))
        if not more:
            return output
        output += more
    process.kill()
    return output


def _bytes_in(answer: dict[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(str(answer.get(name, "")), validate=True)
    except (binascii.Error, ValueError):
        raise _unavailable(f"the key command gave no base64 for {name}") from None


def _unavailable(what: str) -> LonghallError:
    return LonghallError(Code.KEY_UNAVAILABLE, f"the key command failed: {what}")
