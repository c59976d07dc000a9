"""Health checks of the management API: 200 and {status: ok}, or 503 with the reason.

    check                                    fails if
    alarms, local-alarms                     memory or disk are short, in the cluster or at this node
    is-in-service, ready-to-serve-clients    a message could not be sent now
    port-listener, protocol-listener         this node does not listen there
    virtual-hosts                            the leader of the hall does not answer
    aliveness-test                           a message cannot be sent and received

Checks of what cannot happen here (certificates that expire, mirrors that lag) are fulfilled.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final, final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.declarations import put_queue
from longhall.console.management.queues import check_host
from longhall.console.management.sources import ManagedNode, NodeReport
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import EMPTY_TABLE
from longhall.exchanges.names import hall_name
from longhall.queues.messages import Outgoing
from longhall.service.exchange_operations import ListVirtualHosts
from longhall.service.queue_operations import ReceiveMessages, SendMessages, SettleMessages
from longhall.service.router import Router

ALIVENESS: Final = "aliveness-test"
ALIVENESS_WAIT_MS: Final = 2_000
OK: Final = Reply({"status": "ok"})
# Tools append a version to a protocol, and each writes it in its own way: amqp091, amqp0-9-1, stomp1.2.
_WITH_VERSION: Final = re.compile(r"([a-z/-]*?)([0-9][0-9._-]*)?")
_VERSIONS: Final = {"amqp": ("091",), "stomp": ("10", "11", "12"), "http": ("1", "11")}


@final
class HealthHandlers:
    """The handlers of health checks."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node

    async def fulfilled(self, service: Router, asked: Asked) -> Reply:
        """A check that always holds."""
        return OK

    async def alarms(self, service: Router, asked: Asked) -> Reply:
        """GET health/checks/alarms"""
        return _alarms(await self._node.everywhere(False), "There are alarms in effect in the cluster")

    async def local_alarms(self, service: Router, asked: Asked) -> Reply:
        """GET health/checks/local-alarms"""
        return _alarms([self._node.here(False)], "There are alarms in effect on this node")

    async def in_service(self, service: Router, asked: Asked) -> Reply:
        """GET health/checks/is-in-service, ready-to-serve-clients"""
        trouble = await self._node.trouble()
        return OK if trouble is None else _failed(trouble)

    async def node_in_service(self, service: Router, asked: Asked) -> Reply:
        """GET healthchecks/node/NAME"""
        if all(report.facts.name != asked.name for report in await self._node.everywhere(False)):
            raise LonghallError(Code.UNKNOWN_MEMBER, f"no node '{asked.name}'")
        return await self.in_service(service, asked)

    async def virtual_hosts(self, service: Router, asked: Asked) -> Reply:
        """GET health/checks/virtual-hosts"""
        try:
            await service.call(ListVirtualHosts(), asked.caller)
        except LonghallError as error:
            return _failed(str(error))
        return OK

    async def port_listener(self, service: Router, asked: Asked) -> Reply:
        """GET health/checks/port-listener/PORT"""
        ports = sorted({port for _, _, port in self._node.here(False).facts.listeners})
        if not asked.name.isdecimal():
            raise LonghallError(Code.INVALID_REQUEST, "Could not parse port number")
        if int(asked.name) in ports:
            return Reply({"status": "ok", "port": int(asked.name)})
        return _failed("No active listener", missing=int(asked.name), ports=ports)

    async def protocol_listener(self, service: Router, asked: Asked) -> Reply:
        """GET health/checks/protocol-listener/PROTOCOL,PROTOCOL: every one has a listener."""
        known = sorted({protocol for protocol, _, _ in self._node.here(False).facts.listeners})
        missing = [one for one in asked.name.split(",") if not _is_spoken(one, known)]
        if missing:
            return _failed("No active listener", missing=missing, protocols=known)
        return Reply({"status": "ok", "protocol": asked.name, "protocols": known})

    async def aliveness(self, service: Router, asked: Asked) -> Reply:
        """GET aliveness-test/VHOST: send a message through a queue of its own."""
        host = asked.name
        await check_host(service, asked.caller, host)
        await put_queue(service, asked.caller, host, ALIVENESS, False, False, EMPTY_TABLE)
        queue = hall_name(host, ALIVENESS)
        accepted = (await service.call(SendMessages(queue, [Outgoing(body=b"test_message")]), asked.caller))[0]
        if accepted.code is not None:
            return _failed(accepted.message)
        found = await service.call(ReceiveMessages(queue, 10, wait_ms=ALIVENESS_WAIT_MS), asked.caller)
        await service.call(SettleMessages(queue, [one.receipt for one in found]), asked.caller)
        return OK if found else _failed("the message was not delivered")


def _is_spoken(wanted: str, known: list[str]) -> bool:
    """True if a protocol has a listener, in the version that is named."""
    parts = _WITH_VERSION.fullmatch(wanted.lower())
    if parts is None or not parts[1]:
        return False
    version = re.sub(r"\D", "", parts[2] or "")
    if version and version not in _VERSIONS.get(parts[1], ()):
        return False
    return any(protocol.startswith(parts[1]) for protocol in known)


def _alarms(reports: list[NodeReport], reason: str) -> Reply:
    alarms = [
        {"node": report.facts.name, "resource": resource}
        for report in reports
        for resource, holds in (("memory", report.facts.memory_alarm), ("disk", report.facts.disk_alarm))
        if holds
    ]
    return _failed(reason, alarms=alarms) if alarms else OK


def _failed(reason: str, **facts: Any) -> Reply:
    return Reply({"status": "failed", "error": "failed", "reason": reason, **facts}, HTTPStatus.SERVICE_UNAVAILABLE)
