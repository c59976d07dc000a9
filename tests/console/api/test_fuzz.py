"""Whatever is asked of the API, the answer is JSON with a fitting status, and no exception gets out."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longhall.broker.pending import Pending, completed
from longhall.broker.queues.service import QueueService
from longhall.console.api import bodies, browsing, letters, messages, queues, uploads
from longhall.console.api.routes import ROUTES
from longhall.console.api.service import Api
from longhall.errors import Code, LonghallError
from longhall.front.admission import Budget
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.http import HttpConnection
from longhall.queues.messages import Counts, Depth, QueueView
from longhall.queues.settings import QueueSettings
from longhall.service.local import LocalBroker
from longhall.service.router import Router


class Refusing:
    """Knows one queue and refuses every verb but those that only look."""

    def view(self, name: str) -> QueueView:
        return QueueView(name=name, queue_id="", settings=QueueSettings(priorities=3))

    def describe(self, name: str) -> Pending[QueueView]:
        return completed(self.view(name))

    def names(self, prefix: str) -> list[str]:
        return [prefix + "a", prefix + "b"]

    def depth(self, name: str) -> Depth:
        return Depth()

    def counts(self, name: str) -> Counts:
        return Counts()

    def sources(self, name: str) -> list[str]:
        return []

    def moves(self, name: str) -> list[object]:
        return []

    @property
    def inspection(self) -> Refusing:
        return self

    def __getattr__(self, verb: str) -> Any:
        async def refuse(*arguments: object) -> None:
            msgspec.json.encode(arguments)  # Whatever reached this far is plain data.
            raise LonghallError(Code.QUEUE_FULL)

        return refuse


def _nobody() -> HttpConnection:
    """One that nobody is at the other end of."""
    gate = HttpGate()
    gate.budget = Budget(1 << 20)
    made = HttpConnection(gate, asyncio.new_event_loop())
    made.peer = "127.0.0.1"
    return made


NOBODY = _nobody()


FIELDS = sorted(
    {
        field
        for module in (bodies, browsing, letters, messages, queues, uploads)
        for shape in vars(module).values()
        if isinstance(shape, type) and issubclass(shape, msgspec.Struct)
        for field in shape.__struct_fields__
    }
)
words = st.sampled_from(FIELDS) | st.text(max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda within: st.lists(within, max_size=3) | st.dictionaries(words, within, max_size=4),
    max_leaves=12,
)
methods = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW"])
paths = st.sampled_from([route.path for route in ROUTES]).flatmap(
    lambda path: st.text(max_size=5).map(lambda name: path.replace("*", name))
) | st.text(max_size=20)
requests = values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=30)
kinds = st.sampled_from(
    ["application/json", "application/json; charset=utf-8", "application/octet-stream", "text/plain"]
)


@given(methods, paths, st.text(max_size=20), requests, kinds)
def test_anything(method: str, path: str, query: str, body: bytes, kind: str) -> None:
    queues = cast(QueueService, Refusing())
    api = Api(Router(LocalBroker(queues), queues), ROUTES, Budget(1 << 20))
    headers = {b"host": b"localhost", b"content-type": kind.encode()}
    call = HttpCall(NOBODY, method.encode(), b"/", headers)
    call.body = body
    work = api.begin(call, path, query)
    answer = asyncio.run(work.answer)
    assert answer.status != 500, (method, path, body)
    told = json.loads(answer.body)
    if answer.status >= 400:
        assert set(told) == {"code", "message"}
        assert told["message"]
