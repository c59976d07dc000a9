"""An SQS client in a simulated world: one request at a time, with the bytes that SDKs send.

With several nodes it uses each in turn, so that a message received at one node is settled at another.

A request without an answer within the requested wait and PATIENCE_S is given up, and its connection is closed. Leases
in the scenarios are longer than that, so answers arrive in the order in which the node decided them; the oracle relies
on it.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple, cast, final

from simulation.checkers.violation import Violation
from simulation.scenarios.machine import NODE, SQS_PORT
from simulation.scenarios.run_context import RunContext

PATIENCE_S: Final = 1.0
ACCOUNT: Final = "000000000000"


class Unanswered(Exception):
    """The request got no answer: its outcome is unknown."""


class SqsRefusal(Exception):
    """The door answered with an error: nothing happened."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class ReceivedMessage(NamedTuple):
    """One message as a consumer sees it."""

    body: str
    message_id: str
    receipt: str
    attempts: int


@final
class _Answers(asyncio.Protocol):
    """The client's end of the connection: collects one answer at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost = False
        self._data = bytearray()
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, rest = bytes(self._data).partition(b"\r\n\r\n")
        if not found or self._waiter is None:
            return
        lines = head.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        size = int(fields[b"content-length"])
        if len(rest) >= size:
            self._data.clear()
            if not self._waiter.done():
                self._waiter.set_result((int(lines[0].split()[1]), rest[:size]))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Unanswered())

    async def ask(self, request: bytes, seconds: float) -> tuple[int, bytes]:
        assert self.transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            return await asyncio.wait_for(self._waiter, seconds)
        except TimeoutError:
            self.transport.abort()
            raise Unanswered from None


@final
class SqsClient:
    """A client with at most one connection and one request at a time."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._connections: dict[tuple[str, int], _Answers] = {}
        self._turn = context.next_turn()

    async def call(self, action: str, wait_s: float = 0.0, /, **members: Any) -> dict[str, Any]:
        """The answer to a request. Raises SqsRefusal, or Unanswered if the outcome is unknown."""
        body = json.dumps(members).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: {NODE}:{SQS_PORT}\r\nContent-Type: application/x-amz-json-1.0\r\n"
            f"X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        deadline_s = asyncio.get_running_loop().time() + wait_s + PATIENCE_S
        connection = await self._connect()
        left_s = deadline_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise Unanswered
        status, data = await connection.ask(head.encode() + body, left_s)
        answer = cast("dict[str, Any]", json.loads(data)) if data else {}
        if status < 400:
            return answer
        code = str(answer.get("__type", "")).rpartition("#")[2]
        if code.startswith("Internal"):
            raise Violation(f"{action} failed inside the node: {answer}")
        if status >= 500:
            raise Unanswered
        raise SqsRefusal(code, str(answer.get("message")))

    async def _connect(self) -> _Answers:
        places = self._context.sqs_places
        place = places[self._turn % len(places)]
        self._turn += 1
        connection = self._connections.get(place)
        if connection is None or connection.lost or (connection.transport and connection.transport.is_closing()):
            network = self._context.network
            try:
                made = await asyncio.wait_for(network.connect(_Answers, *place), PATIENCE_S)
            except (OSError, TimeoutError):
                raise Unanswered from None
            connection = self._connections[place] = cast(_Answers, made)
        return connection

    # Requests of actors.

    async def send(
        self, queue: str, body: str, group: str = "", delay_s: int | None = None, stamp: int | None = None
    ) -> str:
        """Send one message; returns its id. With a group it is a send to a FIFO queue, and the body is its
        deduplication id.
        """
        members: dict[str, Any] = {"QueueUrl": url_of(queue), "MessageBody": body}
        if group:
            members |= {"MessageGroupId": group, "MessageDeduplicationId": body[:100]}
        if delay_s is not None:
            members["DelaySeconds"] = delay_s
        if stamp is not None:
            members["MessageAttributes"] = {"longhall.stamp": {"DataType": "Number", "StringValue": str(stamp)}}
        return str((await self.call("SendMessage", **members))["MessageId"])

    async def send_many(self, queue: str, bodies: list[str]) -> dict[str, str]:
        """Message ids by body, of the accepted messages."""
        entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies)]
        said = await self.call("SendMessageBatch", QueueUrl=url_of(queue), Entries=entries)
        return {bodies[int(one["Id"])]: one["MessageId"] for one in said.get("Successful", [])}

    async def receive(
        self, queue: str, count: int, wait_s: int, lease_s: int, receiver_filter: str = ""
    ) -> list[ReceivedMessage]:
        """Receive messages; with a filter, only those that match."""
        wanted: dict[str, Any] = (
            {"MessageAttributeNames": [f"longhall.filter={receiver_filter}"]} if receiver_filter else {}
        )
        said = await self.call(
            "ReceiveMessage",
            float(wait_s),
            QueueUrl=url_of(queue),
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=lease_s,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
            **wanted,
        )
        return [
            ReceivedMessage(
                one["Body"],
                one["MessageId"],
                one.get("ReceiptHandle", ""),
                int(one["Attributes"]["ApproximateReceiveCount"]),
            )
            for one in said.get("Messages", [])
        ]

    async def settle(self, queue: str, receipt: str) -> None:
        await self.call("DeleteMessage", QueueUrl=url_of(queue), ReceiptHandle=receipt)

    async def change_lease(self, queue: str, receipt: str, seconds: int) -> None:
        members = {"QueueUrl": url_of(queue), "ReceiptHandle": receipt, "VisibilityTimeout": seconds}
        await self.call("ChangeMessageVisibility", **members)

    async def purge(self, queue: str) -> None:
        await self.call("PurgeQueue", QueueUrl=url_of(queue))

    async def depth(self, queue: str) -> dict[str, int]:
        names = ["", "NotVisible", "Delayed"]
        wanted = [f"ApproximateNumberOfMessages{name}" for name in names]
        said = await self.call("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=wanted)
        return {name or "Available": int(said["Attributes"][f"ApproximateNumberOfMessages{name}"]) for name in names}

    async def queues(self) -> set[str]:
        """The names of all queues."""
        said = await self.call("ListQueues", MaxResults=1000)
        return {url.rpartition("/")[2] for url in said.get("QueueUrls", [])}

    async def start_move(self, source: str, target: str, rate: int) -> str:
        members: dict[str, Any] = {"SourceArn": arn_of(source), "MaxNumberOfMessagesPerSecond": rate}
        if target:
            members["DestinationArn"] = arn_of(target)
        return str((await self.call("StartMessageMoveTask", **members))["TaskHandle"])

    async def cancel_move(self, handle: str) -> None:
        await self.call("CancelMessageMoveTask", TaskHandle=handle)

    async def moves(self, source: str) -> list[dict[str, Any]]:
        said = await self.call("ListMessageMoveTasks", SourceArn=arn_of(source), MaxResults=10)
        return cast("list[dict[str, Any]]", said.get("Results", []))


def url_of(queue: str) -> str:
    return f"http://{NODE}:{SQS_PORT}/{ACCOUNT}/{queue}"


def arn_of(queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"
