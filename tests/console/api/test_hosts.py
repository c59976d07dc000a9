"""Hosts of a cluster through the API: what is asked reaches the verbs, and what cannot be meant is refused before."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import cast

import pytest

from longhall.console.api.asked import JSON, Asked, Reply
from longhall.console.api.hosts import Begun, host_routes
from longhall.console.api.verbs import Queues
from longhall.errors import Code, LonghallError


class Verbs:
    """Says what it was asked for."""

    async def add(self, node: int) -> str:
        return f"add {node}"

    async def drain(self, node: int) -> str:
        return f"drain {node}"

    async def move(self, source: int, target: int) -> str:
        return f"move {source} {target}"

    async def spread(self) -> str:
        return "spread"

    async def lead(self, node: int) -> str:
        return f"lead {node}"

    async def set_factor(self, factor: int) -> str:
        return f"factor {factor}"


def ask(path: str, *names: str, body: bytes = b"") -> Reply:
    route = next(route for route in host_routes(Verbs()) if route.path == path)
    return asyncio.run(route.handler(cast(Queues, None), Asked(names, {}, body, JSON, "somebody")))


@pytest.mark.parametrize(
    ("path", "names", "body", "said"),
    [
        ("cluster/hosts/*/add", ("4",), b"", "add 4"),
        ("cluster/hosts/*/drain", ("1",), b"{}", "drain 1"),
        ("cluster/leader", (), b'{"node": 3}', "lead 3"),
        ("cluster/moves", (), b'{"source": 1, "target": 4}', "move 1 4"),
        ("cluster/moves", (), b"", "spread"),
        ("cluster/factor", (), b'{"factor": 5}', "factor 5"),
    ],
)
def test_what_has_begun_is_told(path: str, names: tuple[str, ...], body: bytes, said: str) -> None:
    reply = ask(path, *names, body=body)
    assert reply.status is HTTPStatus.ACCEPTED
    assert reply.value == Begun(message=said)


@pytest.mark.parametrize(
    ("path", "names", "body"),
    [
        ("cluster/hosts/*/add", ("0",), b""),
        ("cluster/hosts/*/add", ("-1",), b""),
        ("cluster/hosts/*/add", ("four",), b""),
        ("cluster/hosts/*/drain", (str(2**31),), b""),
        ("cluster/leader", (), b"{}"),
        ("cluster/leader", (), b'{"node": 0}'),
        ("cluster/leader", (), b'{"node": 1, "soon": true}'),
        ("cluster/moves", (), b'{"source": 1}'),
        ("cluster/moves", (), b'{"source": 1, "target": "4"}'),
        ("cluster/factor", (), b'{"factor": "many"}'),
    ],
)
def test_what_cannot_be_meant_is_refused(path: str, names: tuple[str, ...], body: bytes) -> None:
    with pytest.raises(LonghallError) as refused:
        ask(path, *names, body=body)
    assert refused.value.code is Code.INVALID_REQUEST
