"""Hosts of a cluster through the API: what is asked reaches the verbs, and what cannot be meant is refused before."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import cast

import pytest

from longhall.broker.pending import Pending, completed
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.console.api.asked import JSON, Asked, Reply
from longhall.console.api.hosts import HOST_ROUTES, Begun
from longhall.errors import Code, LonghallError
from longhall.service.router import Router


class Service:
    """Says what it was asked for."""

    def call(self, operation: Operation[str], caller: Caller) -> Pending[str]:
        fields = [str(getattr(operation, name)) for name in operation.__struct_fields__]
        return completed(" ".join([type(operation).__name__, *fields]))


def ask(path: str, *names: str, body: bytes = b"") -> Reply:
    route = next(route for route in HOST_ROUTES if route.path == path)

    async def answer() -> Reply:
        return await route.handler(cast(Router, Service()), Asked(names, {}, body, JSON, Caller("an operator")))

    return asyncio.run(answer())


@pytest.mark.parametrize(
    ("path", "names", "body", "said"),
    [
        ("cluster/hosts/*/add", ("4",), b"", "AddHost 4"),
        ("cluster/hosts/*/drain", ("1",), b"{}", "DrainHost 1"),
        ("cluster/leader", (), b'{"node": 3}', "TransferLeadership 3"),
        ("cluster/moves", (), b'{"source": 1, "target": 4}', "MoveReplica 1 4"),
        ("cluster/moves", (), b"", "SpreadReplicas"),
        ("cluster/factor", (), b'{"factor": 5}', "SetReplicationFactor 5"),
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
