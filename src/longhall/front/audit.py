"""The audit trail of one process: who did what, from where, and whether it was permitted.

    login         a client has logged in, or was refused; of doors that authenticate every request (http, sqs,
                  management) a user at an address is recorded once in LOGIN_REPEAT_MS
    refusal       a permission that a client did not have; in report-only mode it is `allowed`
    operation     an administrative request that was permitted; whether it succeeded is not recorded
    loss          records that were dropped because the trail was full: their number is in `count`

A record waits here until `node.audit_writer` has written it. Requests never wait: beyond RECORDS_MAX the newest records
are dropped and counted, and a `loss` takes their place when there is room. The trail does not know where it is written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, final

import msgspec

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import AccessAction
from longhall.front.identity import Principal

SCHEMA_VERSION: Final = 1
RECORDS_MAX: Final = 10_000
WRITE_RECORDS_MAX: Final = 500  # Records of one write.
TEXT_CHARACTERS_MAX: Final = 256  # Of a name that a client gave.
LOGIN_REPEAT_MS: Final = 10 * 60_000
LOGINS_REMEMBERED_MAX: Final = 10_000
REQUEST_DOORS: Final = frozenset({"http", "sqs", "management"})  # They authenticate every request.
ADMINISTRATIVE: Final = frozenset(
    {
        AccessAction.CREATE,
        AccessAction.DELETE,
        AccessAction.ALTER,
        AccessAction.ALTER_CONFIGS,
        AccessAction.CLUSTER_ACTION,
    }
)


class AuditRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One record of the audit topic, as JSON. Fields are only added; `version` rises if one changes its meaning."""

    version: int = SCHEMA_VERSION
    id: str  # Process and number: a record that was written twice has the same id.
    time_ms: int
    event: Literal["login", "refusal", "operation", "loss"]
    allowed: bool = True
    tenant: str = ""
    user: str = ""  # As the client gave it, if a login was refused.
    address: str = ""
    door: str = ""  # Of a login.
    action: str = ""  # A permission's action, or the name of the operation.
    resource_kind: str = ""
    resource: str = ""
    count: int = 1


_encode: Final = msgspec.json.Encoder().encode


@final
class AuditTrail:
    """The records of this process that are not written yet."""

    def __init__(self, process: str, now_ms: Callable[[], int]) -> None:
        """`process`: a random name of this run of the process."""
        self.recorded = 0
        self.dropped = 0
        self._process = process
        self._now_ms = now_ms
        self._number = 0
        self._waiting: deque[AuditRecord] = deque()
        self._lost = 0  # Dropped since the last `loss`.
        self._logins: dict[tuple[str, str, str], int] = {}  # Time of the last record, in the order of that time.
        self._some = asyncio.Event()

    def note_login(self, door: str, principal: Principal | None, user: str, address: str) -> None:
        """A client has logged in; None: it was refused."""
        now_ms = self._now_ms()
        if principal is not None and door in REQUEST_DOORS:
            key = (door, principal.user, address)
            last_ms = self._logins.get(key)
            if last_ms is not None and now_ms - last_ms < LOGIN_REPEAT_MS:
                return
            self._logins.pop(key, None)
            if len(self._logins) >= LOGINS_REMEMBERED_MAX:
                del self._logins[next(iter(self._logins))]
            self._logins[key] = now_ms
        who = principal if principal is not None else Principal("", user[:TEXT_CHARACTERS_MAX], "")
        self._add(
            AuditRecord(
                id=self._next_id(),
                time_ms=now_ms,
                event="login",
                allowed=principal is not None,
                tenant=who.tenant,
                user=who.user,
                address=address,
                door=door,
            )
        )

    def note_refusal(self, caller: Caller, action: str, kind: str, name: str, *, allowed: bool) -> None:
        """A client lacks a permission."""
        self._note("refusal", caller, action, kind, name, allowed=allowed)

    def note_operation(self, caller: Caller, operation: str, kind: str, name: str) -> None:
        """An administrative request was permitted."""
        self._note("operation", caller, operation, kind, name, allowed=True)

    async def wait(self) -> None:
        """Wait until there are records."""
        await self._some.wait()

    def take(self) -> list[bytes]:
        """The oldest records, encoded, up to WRITE_RECORDS_MAX. They are no longer here."""
        waiting = self._waiting
        taken = [_encode(waiting.popleft()) for _ in range(min(len(waiting), WRITE_RECORDS_MAX))]
        if self._lost and taken:
            lost, self._lost = self._lost, 0
            self._add(AuditRecord(id=self._next_id(), time_ms=self._now_ms(), event="loss", count=lost))
        if not waiting:
            self._some.clear()
        return taken

    def _note(
        self,
        event: Literal["refusal", "operation"],
        caller: Caller,
        action: str,
        kind: str,
        name: str,
        *,
        allowed: bool,
    ) -> None:
        self._add(
            AuditRecord(
                id=self._next_id(),
                time_ms=self._now_ms(),
                event=event,
                allowed=allowed,
                tenant=caller.tenant,
                user=caller.identity[:TEXT_CHARACTERS_MAX],
                address=caller.address,
                action=action,
                resource_kind=kind,
                resource=name[:TEXT_CHARACTERS_MAX],
            )
        )

    def _next_id(self) -> str:
        self._number += 1
        return f"{self._process}-{self._number}"

    def _add(self, record: AuditRecord) -> None:
        if len(self._waiting) >= RECORDS_MAX:
            self.dropped += 1
            self._lost += 1
            return
        self.recorded += 1
        self._waiting.append(record)
        self._some.set()
