"""A node that registers and prints changes of its session, for tests that suspend it and finally kill it.

Prints `registered GENERATION`, a line for every change of the session, and after each expired session the generation of
the new registration.
"""

from __future__ import annotations

import asyncio
import sys

from longhall.coordination.ports import Expired, MemberDescription, OutcomeUnknown, Session
from longhall.coordination.zookeeper import zookeeper_coordinator


async def main(url: str) -> None:
    coordinator = zookeeper_coordinator(url, session_timeout_ms=3000)
    await coordinator.start()
    stale = asyncio.Event()
    stale.set()

    def heard(session: Session) -> None:
        print(session.value, flush=True)
        if session is Session.EXPIRED:
            stale.set()

    coordinator.on_session(heard)
    while True:
        await stale.wait()
        stale.clear()
        try:
            mine = await coordinator.register(MemberDescription(node_id=5, directory="sleeper"))
            print("registered", mine.generation, flush=True)
        except (OutcomeUnknown, Expired):
            await asyncio.sleep(0.05)
            stale.set()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
