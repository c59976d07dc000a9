"""The client for code that is not asynchronous: jobs, the planner, the sink.

The asynchronous client runs on a loop in a thread of its own, so that this works in a notebook as well, which has a
running loop. Tasks that read many messages use `broker_connection` instead. Every failure is one `PipelineError`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.client.security import ClientSecurity, security_of_environment
from longhall.errors import Code, LonghallError
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.resource import Resource
from longhall.world.real.network import RealNetwork

TIMEOUT_MS: Final = 30_000

_T = TypeVar("_T")


@final
class BlockingClient(Resource):
    """A connection to one hall for one thread: `with BlockingClient(bootstrap) as client: client.ask(...)`.

    Without a `security` that of the environment counts.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        security: ClientSecurity | None = None,
        client_id: str = "longhall-spark",
        patience_ms: int = TIMEOUT_MS,
    ) -> None:
        self.bootstrap = bootstrap
        self._security = security or security_of_environment()
        self._client_id = client_id
        self._patience_ms = patience_ms
        self._hall: Hall | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def ask(self, question: Callable[[Hall], Awaitable[_T]]) -> _T:
        """Run a coroutine function with the hall and return its result. Raises PipelineError."""
        try:
            return self.try_to(question)
        except Refused as failure:
            raise PipelineError(_words(failure)) from failure
        except Unreachable as failure:
            raise PipelineError(f"{self.bootstrap} answers no more: {str(failure).rstrip('.')}") from failure

    def try_to(self, question: Callable[[Hall], Awaitable[_T]]) -> _T:
        """As `ask`, for callers that act on the client's own exceptions: raises Refused and Unreachable."""
        return self._run(self._converse(question))

    async def _converse(self, question: Callable[[Hall], Awaitable[_T]]) -> _T:
        if self._hall is None:
            self._hall = await self._connect()
        return await question(self._hall)

    async def _connect(self) -> Hall:
        """Connect to the first broker that answers."""
        login = self._security.login
        try:
            network = RealNetwork(context=self._security.context())
        except LonghallError as failure:
            raise PipelineError(str(failure)) from failure
        for address in (each.strip() for each in self.bootstrap.split(",") if each.strip()):
            try:
                return await Hall.connect(
                    network, address, client_id=self._client_id, patience_ms=self._patience_ms, login=login
                )
            except Unreachable:
                continue
        raise PipelineError(
            f"no broker answers at {self.bootstrap or 'no address'}; is it running, and is that its address?"
        )

    def _run(self, work: Awaitable[_T]) -> _T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="longhall-client", daemon=True)
            self._thread.start()

        async def whole() -> _T:
            return await work

        return asyncio.run_coroutine_threadsafe(whole(), self._loop).result()

    def close(self) -> None:
        if self._loop is None or self._thread is None:
            return
        hall, loop = self._hall, self._loop

        async def end() -> None:
            """Runs in the loop's own thread: the caller's thread may have a running loop."""
            if hall is not None:
                hall.close()
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await loop.shutdown_asyncgens()

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()
        self._hall = self._loop = self._thread = None


def _words(failure: Refused) -> str:
    words = str(failure).removeprefix(failure.name).removeprefix(": ").rstrip(". ")
    if failure.code is Code.UNKNOWN_TOPIC:
        return f"there is no {words or 'such topic'}; `longhall topic list` shows what there is"
    return f"{failure.code.value.replace('-', ' ')} ({failure.name})" + (f": {words}" if words else "")
