"""Unmodified clients that log in once and are then used turn by turn, while a test changes their user.

Each sends a message and reads it back in one turn. A client in another language is a program that takes a turn for each
line of its standard input; the others are driven from here.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import aio_pika

from soak.node import Node
from tests.clients.java_program import java_command
from tests.clients.presence import need_command
from tests.clients.programs import fetched
from tests.front.certificates import TestAuthority

HERE = Path(__file__).parent
TURN_SECONDS_MAX = 90


class Refused(Exception):
    """What a client was told instead of its message."""


class Login(NamedTuple):
    """How a client connects and logs in. Without a password its certificate is the login."""

    node: Node
    authority: TestAuthority
    user: str
    password: str
    tls: bool
    home: Path

    @property
    def files(self) -> tuple[str, str]:
        """Files of the certificate and of its key; empty names with a password."""
        return ("", "") if self.password else self.authority.issue_client(self.user)

    @property
    def name(self) -> str:
        """Of the topic or queue of this user."""
        return f"turns-{self.user}"

    def write(self, name: str, text: str) -> str:
        """A file that only this client reads."""
        path = self.home / f"{uuid.uuid4().hex[:8]}-{name}"
        path.write_text(text)
        return str(path)


class LoggedIn(ABC):
    """A client that keeps what it has: its connections, if its kind has any."""

    @abstractmethod
    def turn(self, text: str) -> str:
        """Send a text and read it back."""

    def close(self) -> None:  # noqa: B027 - clients without a connection have nothing to end.
        """End the client."""


class _Program(LoggedIn):
    """A program that takes a turn for each line."""

    def __init__(self, command: Sequence[str], errors: str) -> None:
        self._errors = errors
        with open(errors, "wb") as file:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)

    def turn(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], TURN_SECONDS_MAX)
        line = self._process.stdout.readline() if ready else b""
        assert line, f"the program did not answer: {Path(self._errors).read_text()[-3000:]}"
        result = json.loads(line)
        if "refused" in result:
            raise Refused(result["refused"])
        return str(result["saw"])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def java(login: Login) -> LoggedIn:
    """Kafka's Java client, with SCRAM-SHA-512 or a certificate."""
    protocol = ("SASL_" if login.password else "") + ("SSL" if login.tls else "PLAINTEXT")
    settings = {"bootstrap.servers": login.node.bootstrap, "security.protocol": protocol}
    if login.tls:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.authority.path("ca.crt")}
    if login.password:
        settings |= {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{login.user}" password="{login.password}";',
        }
    else:
        both = login.write("both.pem", "".join(Path(file).read_text() for file in reversed(login.files)))
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": both}
    file = login.write("client.properties", "".join(f"{name}={value}\n" for name, value in settings.items()))
    return _Program([*java_command(), "LoginTurns", file, login.name], login.write("errors", ""))


def _beside_libraries(name: str, program: Path) -> list[str]:
    """The command of a Node.js program, put beside its libraries, where Node.js finds them."""
    interpreter, npm = need_command("node", name), need_command("npm", name)
    manifest = [program.parent / "package.json", program.parent / "package-lock.json"]
    libraries = fetched(name, manifest, [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    (libraries / program.name).write_bytes(program.read_bytes())
    return [interpreter, os.fspath(libraries / program.name)]


def _tls_files(login: Login) -> dict[str, str]:
    certificate, key = login.files
    return {"authority": login.authority.path("ca.crt"), "certificate": certificate, "key": key} if login.tls else {}


def kafkajs(login: Login) -> LoggedIn:
    """kafkajs, with SCRAM-SHA-256 or a certificate."""
    settings: dict[str, Any] = {"brokers": [login.node.bootstrap], **_tls_files(login)}
    if login.password:
        settings["sasl"] = {"mechanism": "scram-sha-256", "username": login.user, "password": login.password}
    file = login.write("settings.json", json.dumps(settings))
    command = _beside_libraries("kafkajs", HERE / "kafkajs" / "login_turns.js")
    return _Program([*command, file, login.name], login.write("errors", ""))


def _amqp_url(login: Login) -> str:
    user = f"{quote(login.user)}:{quote(login.password)}@" if login.password else ""
    return f"{'amqps' if login.tls else 'amqp'}://{user}{login.node.amqp}/"


def amqplib(login: Login) -> LoggedIn:
    """amqplib, with PLAIN or EXTERNAL."""
    file = login.write("settings.json", json.dumps({"url": _amqp_url(login), **_tls_files(login)}))
    command = _beside_libraries("amqplib", HERE / "amqp" / "amqplib" / "login_turns.js")
    return _Program([*command, file, login.name], login.write("errors", ""))


class _AioPika(LoggedIn):
    """aio-pika on an event loop of its own, which turns while the test waits for it."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._runner = asyncio.Runner()
        self._connection: aio_pika.abc.AbstractConnection | None = None

    def turn(self, text: str) -> str:
        try:
            return self._runner.run(asyncio.wait_for(self._take_turn(text), TURN_SECONDS_MAX))
        except (aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError) as error:
            raise Refused(f"{type(error).__name__} {error}") from error

    async def _take_turn(self, text: str) -> str:
        if self._connection is None:
            context = self._login.authority.client_context(None if self._login.password else self._login.user)
            self._connection = await aio_pika.connect(
                _amqp_url(self._login),
                ssl_context=context if self._login.tls else None,
                **({} if self._login.password else {"auth": "EXTERNAL"}),
            )
        await asyncio.sleep(0.1)  # It hears of a closed connection when its loop turns.
        channel = await self._connection.channel()
        queue = await channel.declare_queue(self._login.name, durable=True)
        await channel.default_exchange.publish(aio_pika.Message(text.encode()), self._login.name)
        message = await queue.get(timeout=20)
        assert message is not None
        await message.ack()
        return message.body.decode()

    def close(self) -> None:
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()


class _Curl(LoggedIn):
    """curl: a process for each request, with Basic or a certificate."""

    def __init__(self, login: Login) -> None:
        self._login = login
        certificate, key = login.files
        shown = ["-u", f"{login.user}:{login.password}"] if login.password else ["--cert", certificate, "--key", key]
        self._options = [*shown, *(["--cacert", login.authority.path("ca.crt")] if login.tls else [])]

    def turn(self, text: str) -> str:
        queue = f"queues/{self._login.name}"
        try:
            self._ask(["--json", json.dumps({"name": self._login.name})], "queues")
        except Refused as refused:
            if "queue-exists" not in str(refused):
                raise
        self._ask(["--json", json.dumps({"messages": [{"body": text}]})], f"{queue}/messages")
        (message,) = self._ask(["--json", json.dumps({"wait_ms": 10_000})], f"{queue}/receive")["messages"]
        self._ask(["--json", json.dumps({"receipts": [message["receipt"]]})], f"{queue}/settle")
        return str(message["body"])

    def _ask(self, words: Sequence[str], path: str) -> Any:
        scheme = "https" if self._login.tls else "http"
        command = [need_command("curl", "curl"), "-sS", "--fail-with-body", *self._options, *words]
        command.append(f"{scheme}://{self._login.node.http}/api/v1/{path}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=TURN_SECONDS_MAX, check=False)
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        return json.loads(done.stdout or "null")


class _AwsCli(LoggedIn):
    """The AWS command line; the user's name and password are an access key and its secret."""

    def __init__(self, login: Login) -> None:
        self._login = login
        scheme = "https" if login.tls else "http"
        program = str(Path(sys.executable).with_name("aws"))
        self._command = [program, "--endpoint-url", f"{scheme}://{login.node.sqs}", "--output", "json", "sqs"]
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "HOME": str(login.home),
            "AWS_ACCESS_KEY_ID": login.user,
            "AWS_SECRET_ACCESS_KEY": login.password,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_PAGER": "",
            "AWS_MAX_ATTEMPTS": "1",
            **({"AWS_CA_BUNDLE": login.authority.path("ca.crt")} if login.tls else {}),
        }

    def turn(self, text: str) -> str:
        url = self._run("create-queue", "--queue-name", self._login.name)["QueueUrl"]
        self._run("send-message", "--queue-url", url, "--message-body", text)
        received = self._run("receive-message", "--queue-url", url, "--wait-time-seconds", "5")
        (message,) = received["Messages"]
        self._run("delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"])
        return str(message["Body"])

    def _run(self, *words: str) -> Any:
        done = subprocess.run(
            [*self._command, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TURN_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stderr)
        return json.loads(done.stdout or "null")


aio_pika_client, curl, aws_cli = _AioPika, _Curl, _AwsCli
