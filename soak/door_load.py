"""Clients of every door at one address, each with the retries that it brings, and a book of what they were told.

A load sends numbered texts and receives them. A send that its client gives up, after its own retries, is a failure. A
text whose send was acknowledged has to arrive; it may arrive twice.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import boto3
import stomp
import urllib3
from botocore.config import Config
from confluent_kafka import Consumer, KafkaError, Producer
from kombu import Connection, Queue
from kombu.mixins import ConsumerMixin

USER: Final = "SOAKKEY"  # An access key, and its secret.
PASSWORD: Final = "soaksecret"
PAUSE_S: Final = 0.1
ANSWER_S: Final = 10.0  # After this a client takes a connection for dead and repeats the request on another one.
HEAL_S: Final = 60.0  # The longest that a client's own retries take.


class DoorLoad(ABC):
    """A sender and a receiver of one door, each in a thread of its own."""

    def __init__(self, door: str, host: str, port: int) -> None:
        self.door = door
        self.host = host
        self.port = port
        self.acknowledged: list[str] = []
        self.received: set[str] = set()
        self.failures: list[str] = []
        self.slowest_s = 0.0
        self._closing = threading.Event()
        self._finished = threading.Event()
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def prepare(self) -> None:
        """Make the queue or topic."""

    @abstractmethod
    def send(self, text: str) -> None:
        """Send a text. It returns when the text is acknowledged, and raises when the client gives up."""

    @abstractmethod
    def receive(self) -> list[str]:
        """Some texts, after a short wait at most. They are settled."""

    def start(self) -> None:
        self.prepare()
        for work in (self._keep_sending, self._keep_receiving):
            self._threads.append(threading.Thread(target=work, daemon=True, name=f"{self.door} {work.__name__}"))
            self._threads[-1].start()

    def missing(self) -> list[str]:
        """Texts that were acknowledged and did not arrive."""
        return [text for text in list(self.acknowledged) if text not in self.received]

    def finish(self) -> None:
        """Stop sending, and receive what is left."""
        self._closing.set()
        self._threads[0].join(HEAL_S)
        deadline = time.monotonic() + HEAL_S
        while self.missing() and time.monotonic() < deadline:
            time.sleep(0.2)
        self._finished.set()
        self._threads[1].join(HEAL_S)

    def _keep_sending(self) -> None:
        number = 0
        while not self._closing.is_set():
            number += 1
            text, begin_s = f"{self.door} {number}", time.monotonic()
            try:
                self.send(text)
            except Exception as error:  # Whatever a client raises is what its user would have to deal with.
                self.failures.append(f"{text}: {type(error).__name__}: {error}")
            else:
                self.acknowledged.append(text)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begin_s)
            self._closing.wait(PAUSE_S)

    def _keep_receiving(self) -> None:
        while not self._finished.is_set():
            try:
                self.received.update(self.receive())
            except Exception as error:
                self.failures.append(f"receive: {type(error).__name__}: {error}")
                time.sleep(PAUSE_S)


class SqsLoad(DoorLoad):
    """boto3 with its standard retries."""

    def prepare(self) -> None:
        retries: Any = {"mode": "standard", "max_attempts": 12}
        config = Config(retries=retries, connect_timeout=2, read_timeout=ANSWER_S)
        words = {"region_name": "us-east-1", "aws_access_key_id": USER, "aws_secret_access_key": PASSWORD}
        address = f"http://{self.host}:{self.port}"
        self._clients = [boto3.client("sqs", endpoint_url=address, config=config, **words) for _ in range(2)]
        self._url = self._clients[0].create_queue(QueueName="sqs-load")["QueueUrl"]

    def send(self, text: str) -> None:
        self._clients[0].send_message(QueueUrl=self._url, MessageBody=text)

    def receive(self) -> list[str]:
        client = self._clients[1]
        found = client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        messages = found.get("Messages", [])
        for message in messages:
            client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in messages]


class HttpLoad(DoorLoad):
    """urllib3 with its retries, which requests has too."""

    def prepare(self) -> None:
        retries = urllib3.Retry(
            total=14,
            backoff_factor=0.1,
            backoff_max=5,
            status_forcelist=[429, 500, 502, 503, 504],
            allowed_methods=None,
        )
        timeout = urllib3.Timeout(connect=2, read=ANSWER_S)
        self._pool = urllib3.PoolManager(retries=retries, timeout=timeout)
        self._ask("queues", {"name": "http-load"})

    def _ask(self, path: str, body: object) -> Any:
        address = f"http://{self.host}:{self.port}/api/v1/{path}"
        headers = {"Content-Type": "application/json", **urllib3.make_headers(basic_auth=f"{USER}:{PASSWORD}")}
        response = self._pool.request("POST", address, body=json.dumps(body), headers=headers)
        if response.status >= 300:
            raise RuntimeError(f"{response.status} {response.data[:300]!r}")
        return json.loads(response.data or b"null")

    def send(self, text: str) -> None:
        self._ask("queues/http-load/messages", {"messages": [{"body": text}]})

    def receive(self) -> list[str]:
        messages = self._ask("queues/http-load/receive", {"count": 10, "wait_ms": 1000})["messages"]
        if messages:
            self._ask("queues/http-load/settle", {"receipts": [message["receipt"] for message in messages]})
        return [message["body"] for message in messages]


class KafkaLoad(DoorLoad):
    """librdkafka as it comes."""

    def prepare(self) -> None:
        common: dict[str, Any] = {
            "bootstrap.servers": f"{self.host}:{self.port}",
            "log_level": 0,
            "error_cb": lambda error: None,
            "socket.timeout.ms": int(ANSWER_S * 1000),
            "topic.metadata.refresh.interval.ms": 2000,
        }
        self._producer = Producer({**common, "enable.idempotence": True, "message.timeout.ms": int(HEAL_S * 1000)})
        self._consumer = Consumer(
            {**common, "group.id": "load", "auto.offset.reset": "earliest", "session.timeout.ms": 10_000}
        )
        self._consumer.subscribe(["kafka-load"])

    def send(self, text: str) -> None:
        told: list[KafkaError | None] = []
        self._producer.produce("kafka-load", text, on_delivery=lambda error, _: told.append(error))
        deadline = time.monotonic() + HEAL_S + 5
        while not told and time.monotonic() < deadline:
            self._producer.poll(0.05)
        if not told or told[0] is not None:
            raise RuntimeError(f"not delivered: {told}")

    def receive(self) -> list[str]:
        message = self._consumer.poll(0.5)
        if message is None or message.error() is not None:
            return []  # The consumer goes on by itself.
        return [(message.value() or b"").decode()]


class AmqpLoad(DoorLoad):
    """kombu, which Celery uses: publishing with retries, and its consumer that connects again."""

    def prepare(self) -> None:
        self._queue = Queue("amqp-load", durable=True)
        self._producer = self._connection(confirm=True).Producer()
        self._queue(self._producer.channel).declare()
        self._worker = _AmqpWorker(self._connection(confirm=False), self._queue, self.received)
        threading.Thread(target=self._worker.run, daemon=True, name="amqp worker").start()

    def _connection(self, *, confirm: bool) -> Connection:
        options = {"confirm_publish": confirm, "read_timeout": ANSWER_S, "write_timeout": ANSWER_S}
        address = f"amqp://{USER}:{PASSWORD}@{self.host}:{self.port}//"
        return Connection(address, connect_timeout=2, heartbeat=4, transport_options=options)

    def send(self, text: str) -> None:
        policy = {"max_retries": 60, "interval_start": 0.1, "interval_step": 0.1, "interval_max": 1.0}
        self._producer.publish(text, routing_key=self._queue.name, retry=True, retry_policy=policy, delivery_mode=2)

    def receive(self) -> list[str]:
        time.sleep(PAUSE_S)
        return []  # The worker notes what arrives.

    def finish(self) -> None:
        super().finish()
        self._worker.should_stop = True


class _AmqpWorker(ConsumerMixin):
    """kombu's consumer, as programs subclass it."""

    def __init__(self, connection: Connection, queue: Queue, received: set[str]) -> None:
        self.connection = connection
        self._queue = queue
        self._received = received

    def get_consumers(self, consumer: Callable[..., Any], channel: Any) -> list[Any]:
        return [consumer([self._queue], callbacks=[self._note], prefetch_count=10)]

    def _note(self, body: str, message: Any) -> None:
        self._received.add(body)
        with contextlib.suppress(OSError):  # It is delivered again over the next connection.
            message.ack()


class StompLoad(DoorLoad):
    """stomp.py with its attempts to connect; a frame without a receipt is sent again over the next connection."""

    def prepare(self) -> None:
        self._sender = _StompClient(self.host, self.port)
        self._receiver = _StompClient(self.host, self.port, "/queue/stomp-load")
        self._sender.connect()
        self._receiver.connect()

    def send(self, text: str) -> None:
        deadline = time.monotonic() + HEAL_S
        while time.monotonic() < deadline:
            if self._sender.send("/queue/stomp-load", text):
                return
        raise RuntimeError("no receipt")

    def receive(self) -> list[str]:
        self._receiver.connect()
        time.sleep(PAUSE_S)
        return self._receiver.take()


class _StompClient(stomp.ConnectionListener):  # type: ignore[misc]
    """A connection that is made again when it is lost."""

    def __init__(self, host: str, port: int, destination: str = "") -> None:
        self._destination = destination
        self._receipts: set[str] = set()
        self._arrived: list[str] = []
        self._count = 0
        self._connection = stomp.Connection12(
            [(host, port)], heartbeats=(1000, 1000), reconnect_attempts_max=200, reconnect_sleep_initial=0.1,
            reconnect_sleep_increase=0, reconnect_sleep_jitter=0, timeout=2,
        )  # fmt: skip
        self._connection.set_listener("", self)

    def connect(self) -> None:
        if self._connection.is_connected():
            return
        with contextlib.suppress(stomp.exception.StompException, OSError):
            self._connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)
            if self._destination:
                self._connection.subscribe(self._destination, id="1", ack="client-individual")

    def send(self, destination: str, text: str) -> bool:
        """True if the receipt came."""
        self.connect()
        self._count += 1
        receipt = f"r{self._count}"
        with contextlib.suppress(stomp.exception.StompException, OSError):
            self._connection.send(destination, text, receipt=receipt, persistent="true")
            deadline = time.monotonic() + ANSWER_S
            while time.monotonic() < deadline and self._connection.is_connected():
                if receipt in self._receipts:
                    return True
                time.sleep(0.005)
        time.sleep(PAUSE_S)
        return receipt in self._receipts

    def take(self) -> list[str]:
        arrived, self._arrived = self._arrived, []
        return arrived

    def on_receipt(self, frame: Any) -> None:
        self._receipts.add(frame.headers["receipt-id"])

    def on_message(self, frame: Any) -> None:
        self._arrived.append(frame.body)
        with contextlib.suppress(stomp.exception.StompException, OSError):
            self._connection.ack(frame.headers["ack"])


LOADS: Final[dict[str, tuple[type[DoorLoad], int]]] = {
    "sqs": (SqsLoad, 9324),
    "http": (HttpLoad, 8080),
    "kafka": (KafkaLoad, 9092),
    "amqp": (AmqpLoad, 5672),
    "stomp": (StompLoad, 61613),
}


class Beat(threading.Thread):
    """Connects to an address again and again, and measures for how long that fails."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True, name="beat")
        self._address = (host, port)
        self._closing = threading.Event()
        self._last_s = time.monotonic()
        self.longest_s = 0.0

    def reset(self) -> None:
        """Measure from now on."""
        self._last_s, self.longest_s = time.monotonic(), 0.0

    def run(self) -> None:
        while not self._closing.wait(0.02):
            try:
                socket.create_connection(self._address, timeout=0.1).close()
            except OSError:
                continue
            now_s = time.monotonic()
            self.longest_s = max(self.longest_s, now_s - self._last_s)
            self._last_s = now_s

    def close(self) -> None:
        self._closing.set()
        self.join()
