"""A real queue with dead letters and an audit, as tests of its tables and of jobs about it want one."""

from __future__ import annotations

from typing import Any

from longhall.pipeline.api_client import ApiClient, queue_path
from soak.node import Node


class Shop:
    """A queue with dead letters and an audit, and what one does with it."""

    def __init__(self, node: Node, name: str) -> None:
        self.desk = ApiClient(node.http)
        self.name = name
        self.desk.ask("POST", "queues", {"name": f"{name}-dead"})
        settings = {"audit": "deliveries", "dead_letters": {"queue": f"{name}-dead", "attempts_max": 1}}
        self.desk.ask("POST", "queues", {"name": name, "settings": settings})

    def send(self, *bodies: str) -> list[str]:
        messages = [{"body": body, "attributes": {"city": body[:4]}} for body in bodies]
        return [each["message_id"] for each in self._do("messages", {"messages": messages})["messages"]]

    def receive(self, count: int) -> list[dict[str, Any]]:
        received: list[dict[str, Any]] = self._do("receive", {"count": count, "lease_ms": 600_000})["messages"]
        return received

    def settle(self, *receipts: str) -> None:
        self._do("settle", {"receipts": list(receipts)})

    def give_back(self, *receipts: str) -> None:
        self._do("leases", {"changes": [{"receipt": receipt, "lease_ms": 0} for receipt in receipts]})

    def letters(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.desk.ask("GET", queue_path(f"{self.name}-dead", "letters"))["letters"]
        return found

    def _do(self, verb: str, value: object) -> Any:
        return self.desk.ask("POST", queue_path(self.name, verb), value)


def open_shop(node: Node, name: str) -> Shop:
    """Six messages: one settled, two dead, one leased, two waiting."""
    shop = Shop(node, name)
    shop.send("Oslo 0", "Rome 1", "Oslo 2", "Rome 3", "Bern 4", "Bern 5")
    first, *others = shop.receive(3)
    shop.settle(first["receipt"])
    shop.give_back(*(each["receipt"] for each in others))
    assert [each["body"] for each in shop.receive(1)] == ["Rome 3"]
    return shop
