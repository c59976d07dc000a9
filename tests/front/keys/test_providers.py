"""Key providers: each makes, unwraps and rewraps data keys, binds them to their context, and refuses by its own codes.

KMS is moto's server in a process of its own. There is no Vault that could be installed here: `transit_server` is a
small HTTP server which speaks the part of transit's API that is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import boto3
import pytest
import uvloop

from longhall.errors import Code, LonghallError
from longhall.front.http_client import HttpEndpoint
from longhall.front.keys.aws_kms import AwsKms
from longhall.front.keys.aws_signature import AwsCredentials
from longhall.front.keys.key_command import KeyCommand
from longhall.front.keys.key_file import READ_AGAIN_S, KeyFile
from longhall.front.keys.provider import DATA_KEY_BYTES, KeyProvider
from longhall.front.keys.vault_transit import VaultTransit
from tests.front.keys.transit_server import TOKEN, TransitServer

CONTEXT = {"longhall-topic": "aa", "longhall-key": "1"}
OTHER = {"longhall-topic": "bb", "longhall-key": "1"}


async def check(provider: KeyProvider, key: str) -> None:
    """What holds for every provider."""
    made = await provider.generate(key, CONTEXT)
    assert len(made.clear) == DATA_KEY_BYTES
    assert made.clear not in made.wrapped
    assert (await provider.generate(key, CONTEXT)).clear != made.clear
    assert await provider.unwrap(key, made.wrapped, CONTEXT) == made.clear
    again = await provider.rewrap(key, made.wrapped, CONTEXT)
    assert again != made.wrapped
    assert await provider.unwrap(key, again, CONTEXT) == made.clear
    with pytest.raises(LonghallError):
        await provider.unwrap(key, made.wrapped, OTHER)
    with pytest.raises(LonghallError):
        await provider.unwrap(key, made.wrapped[:-1] + bytes([made.wrapped[-1] ^ 1]), CONTEXT)
    with pytest.raises(LonghallError) as caught:
        await provider.generate("absent", CONTEXT)
    assert caught.value.code is Code.KEY_UNKNOWN


class Ticking:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_file() -> None:
    text = f"# comment\n\norders = {'0a' * 32}\n"
    clock = Ticking()
    provider = KeyFile(lambda: text, clock, secrets.token_bytes)
    await check(provider, "orders")
    before = await provider.generate("orders", CONTEXT)
    text = f"orders = {'0b' * 32}\n{text}"  # A new version comes first; the old one still unwraps.
    clock.now_s += READ_AGAIN_S
    assert await provider.unwrap("orders", before.wrapped, CONTEXT) == before.clear
    again = await provider.rewrap("orders", before.wrapped, CONTEXT)
    text = f"orders = {'0b' * 32}\n"
    clock.now_s += READ_AGAIN_S
    assert await provider.unwrap("orders", again, CONTEXT) == before.clear
    with pytest.raises(LonghallError) as caught:
        await provider.unwrap("orders", before.wrapped, CONTEXT)
    assert caught.value.code is Code.KEY_UNKNOWN
    text = "orders = 12\n"
    clock.now_s += READ_AGAIN_S
    with pytest.raises(LonghallError, match="line 1") as caught:
        await provider.generate("orders", CONTEXT)
    assert caught.value.code is Code.KEY_UNAVAILABLE
    assert "12" not in str(caught.value).replace("line 1", "")


PROGRAM = """
import base64, hashlib, json, secrets, sys
asked = json.load(sys.stdin)
if asked["key"] == "absent":
    sys.exit(json.dump({"error": "unknown", "message": "no such key"}, sys.stdout))
if asked["key"] == "mute":
    sys.exit(3)
if asked["key"] == "chatty":
    sys.exit(sys.stdout.write("x" * 200000))
mask = hashlib.sha512(json.dumps(asked["context"], sort_keys=True).encode()).digest()
def cover(data):
    return bytes(a ^ b for a, b in zip(data, mask))
if asked["action"] == "generate":
    clear = secrets.token_bytes(32)
    wrapped = cover(clear + b"ok") + secrets.token_bytes(4)
else:
    wrapped = base64.b64decode(asked["ciphertext"])
    clear = cover(wrapped[:34])
    if clear[32:] != b"ok":
        sys.exit(json.dump({"error": "invalid-state"}, sys.stdout))
    clear = clear[:32]
    if asked["action"] == "rewrap":
        wrapped = wrapped[:34] + secrets.token_bytes(4)
answer = {"plaintext": base64.b64encode(clear).decode(), "ciphertext": base64.b64encode(wrapped).decode()}
json.dump(answer, sys.stdout)
"""


async def test_a_command() -> None:
    provider = KeyCommand([sys.executable, "-c", PROGRAM])
    made = await provider.generate("k", CONTEXT)
    assert await provider.unwrap("k", made.wrapped, CONTEXT) == made.clear
    assert await provider.unwrap("k", await provider.rewrap("k", made.wrapped, CONTEXT), CONTEXT) == made.clear
    for key, code in (("absent", Code.KEY_UNKNOWN), ("mute", Code.KEY_UNAVAILABLE), ("chatty", Code.KEY_UNAVAILABLE)):
        with pytest.raises(LonghallError) as caught:
            await provider.generate(key, CONTEXT)
        assert caught.value.code is code
    with pytest.raises(LonghallError) as caught:
        await provider.unwrap("k", made.wrapped, OTHER)
    assert caught.value.code is Code.KEY_INVALID_STATE
    with pytest.raises(LonghallError) as caught:
        await KeyCommand(["/nowhere/at/all"]).generate("k", CONTEXT)
    assert caught.value.code is Code.KEY_UNAVAILABLE


async def cancelled_once_it_runs(command: list[str], mark: Path) -> int:
    """Ask a command that hangs, and give up when it has written its process id: that id."""
    asking = asyncio.create_task(KeyCommand(command).generate("k", CONTEXT))
    async with asyncio.timeout(60):
        while not (mark.exists() and mark.read_text()):  # noqa: ASYNC240
            assert not asking.done()
            await asyncio.sleep(0.02)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    return int(mark.read_text())  # noqa: ASYNC240


async def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    program = f"import os, pathlib, time; pathlib.Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(600)"
    killed = await cancelled_once_it_runs([sys.executable, "-c", program], mark)
    assert not os.path.exists(f"/proc/{killed}")  # noqa: ASYNC240


# asyncio takes a process for ended only when its pipes are closed, and a child of the command can hold them open.


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_child_of_a_killed_command_delays_nobody(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    command = ["bash", "-c", f"(echo $BASHPID > {mark}; exec sleep 600) & wait"]
    with asyncio.Runner(loop_factory=loop) as runner:
        child = runner.run(cancelled_once_it_runs(command, mark))
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_child_of_the_command_that_writes_too_much_delays_nobody(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    command = ["bash", "-c", "(head -c 1000000 /dev/zero) & wait"]
    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(LonghallError) as caught:
        runner.run(KeyCommand(command).generate("k", CONTEXT))
    assert caught.value.code is Code.KEY_UNAVAILABLE


@pytest.fixture(scope="module")
def kms() -> Iterator[str]:
    """The address of moto's KMS."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                assert process.poll() is None
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


async def test_kms(kms: str) -> None:
    client = boto3.client(
        "kms", endpoint_url=kms, region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="s"
    )
    key = client.create_key()["KeyMetadata"]["KeyId"]
    client.create_alias(AliasName="alias/orders", TargetKeyId=key)
    credentials = AwsCredentials("a", "s", "token")
    provider = AwsKms(
        HttpEndpoint(kms), "eu-central-1", credentials, lambda: time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    )
    await check(provider, "alias/orders")
    made = await provider.generate(key, CONTEXT)
    # boto3 opens what this made: the encryption context is the service's own.
    opened = client.decrypt(CiphertextBlob=made.wrapped, EncryptionContext=CONTEXT)
    assert opened["Plaintext"] == made.clear


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("DisabledException", Code.KEY_DISABLED),
        ("com.amazonaws.kms#DisabledException", Code.KEY_DISABLED),
        ("AccessDeniedException", Code.KEY_DENIED),
        ("KMSInvalidStateException", Code.KEY_INVALID_STATE),
        ("InvalidKeyUsageException", Code.KEY_INVALID_USAGE),
        ("OptInRequired", Code.KEY_NOT_SUBSCRIBED),
        ("ThrottlingException", Code.KEY_UNAVAILABLE),
        ("KMSInternalException", Code.KEY_UNAVAILABLE),
    ],
)
async def test_refusals_of_kms(kind: str, code: Code) -> None:
    """moto takes a disabled key for good, so these answers are written out."""
    body = json.dumps({"__type": kind, "message": "why"}).encode()
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with answering(answer) as address:
        provider = AwsKms(HttpEndpoint(address), "r", AwsCredentials("a", "s"), lambda: "20261118T000000Z")
        with pytest.raises(LonghallError, match="why") as caught:
            await provider.generate("k", CONTEXT)
    assert caught.value.code is code


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """The address of a server that gives this answer to everything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_transit() -> None:
    with TransitServer(["orders", "team/orders"]) as server:
        token = TOKEN
        provider = VaultTransit(HttpEndpoint(server.address), "transit", lambda: token)
        await check(provider, "orders")
        made = await provider.generate("team/orders", CONTEXT)
        assert made.wrapped.startswith(b"vault:v1:")
        server.rotate("team/orders")
        assert (await provider.rewrap("team/orders", made.wrapped, CONTEXT)).startswith(b"vault:v2:")
        token = "wrong"
        with pytest.raises(LonghallError) as caught:
            await provider.generate("orders", CONTEXT)
        assert caught.value.code is Code.KEY_DENIED


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\n\r\nno json",
    ],
)
async def test_a_key_service_that_answers_nonsense_is_unavailable(answer: bytes) -> None:
    async with answering(answer) as address:
        provider = VaultTransit(HttpEndpoint(address), "transit", lambda: "t")
        with pytest.raises(LonghallError) as caught:
            await provider.generate("k", CONTEXT)
    assert caught.value.code is Code.KEY_UNAVAILABLE


def test_the_signature_is_that_of_the_sdk() -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    from longhall.front.keys.aws_signature import signed_headers

    body = json.dumps({"KeyId": "k"}).encode()
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "TrentService.Decrypt"}
    request = AWSRequest("POST", "https://kms.example.org/", data=body, headers=dict(headers))
    SigV4Auth(Credentials("key", "secret", "token"), "kms", "eu-central-1").add_auth(request)
    ours = signed_headers(
        AwsCredentials("key", "secret", "token"),
        "eu-central-1",
        "kms",
        "kms.example.org",
        "/",
        headers,
        body,
        request.headers["X-Amz-Date"],
    )
    assert ours["Authorization"] == request.headers["Authorization"]
