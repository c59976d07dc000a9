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
import contextlib
import json
from typing import Any, Final, cast, final

from longhall.errors import Code, LonghallError
from longhall.front.keys.provider import DataKey, KeyContext

OUTPUT_BYTES_MAX: Final = 64 * 1024

_STDIN: Final = 0
_STDOUT: Final = 1

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
            status, output = await _run(self._command, json.dumps(request).encode())
        except OSError as error:
            raise _unavailable(f"{name}: {error.strerror or error}") from None
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


@final
class _Conversation(asyncio.SubprocessProtocol):
    """What the program has written, and whether it has ended.

    The end of the process and the end of its output are two events: a child of the program can hold the pipe open, and
    output that nobody reads has no end. asyncio's own `Process.wait()` waits for both.
    """

    def __init__(self) -> None:
        self.output = b""
        self.is_answered = asyncio.Event()  # The output has ended, or is longer than it may be.
        self.is_ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if len(self.output) <= OUTPUT_BYTES_MAX:
            self.output += data
        if len(self.output) > OUTPUT_BYTES_MAX:
            self.is_answered.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDOUT:
            self.is_answered.set()

    def process_exited(self) -> None:
        self.is_ended.set()


async def _run(command: list[str], request: bytes) -> tuple[int | None, bytes]:
    """Run the program to its end: its status, and its output up to the length at which it was killed.

    The start is shielded: asyncio, cancelled halfway through it, waits for pipes that nobody closes any more.
    """
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _Conversation,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    )
    try:
        transport, conversation = await asyncio.shield(starting)
        stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(_STDIN))
        stdin.write(request)
        stdin.close()
        await conversation.is_answered.wait()
        if len(conversation.output) <= OUTPUT_BYTES_MAX:
            await conversation.is_ended.wait()
        return transport.get_returncode(), conversation.output
    finally:
        await _end(*await starting)


async def _end(transport: asyncio.SubprocessTransport, conversation: _Conversation) -> None:
    """Kill the program if it still runs. No zombie is left, also if the call was cancelled."""
    if not conversation.is_ended.is_set():
        with contextlib.suppress(ProcessLookupError):
            transport.kill()
        await conversation.is_ended.wait()
    transport.close()


def _bytes_in(answer: dict[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(str(answer.get(name, "")), validate=True)
    except (binascii.Error, ValueError):
        raise _unavailable(f"the key command gave no base64 for {name}") from None


def _unavailable(what: str) -> LonghallError:
    return LonghallError(Code.KEY_UNAVAILABLE, f"the key command failed: {what}")
