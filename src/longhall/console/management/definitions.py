"""Definitions files of RabbitMQ: everything that is declared, written and read.

A file is checked in full before anything of it is declared. Then virtual hosts, policies, exchanges, queues and
bindings are declared in this order, each as the AMQP door would; what exists already and is the same stays. Users and
permissions of a file are not stored, and the reply says so.

    in a file      not in it
    declared       exclusive queues, those of other doors, predeclared exchanges, messages
"""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any, Final, final

import msgspec

from longhall.broker.queue_policies import queue_type
from longhall.cluster.rpc.operation import Caller
from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import amqp_refusals, body_of, flag, table, text
from longhall.console.management.declarations import (
    binding_of,
    put_binding,
    put_exchange,
    put_queue,
    shown_binding,
    shown_table,
)
from longhall.console.management.policies import policy_of, shown_policy
from longhall.console.management.queues import NO_CONTENT, check_host, queue_rows, states_of
from longhall.console.management.sources import ManagedNode
from longhall.doors.amqp.declarations import settings_of
from longhall.doors.amqp.exchange_declarations import RESERVED, check_exchange
from longhall.doors.amqp.server import PRODUCT, VERSION
from longhall.errors import Code, LonghallError
from longhall.exchanges.events import PolicySet
from longhall.exchanges.names import DEFAULT_HOST
from longhall.exchanges.policies import check_policy
from longhall.service.exchange_operations import (
    AddVirtualHost,
    BindingView,
    ExchangeView,
    ListBindings,
    ListExchanges,
    ListVirtualHosts,
)
from longhall.service.policy_operations import ListPolicies, PolicyView, SetPolicy
from longhall.service.router import Router

OBJECTS_MAX: Final = 100_000  # Of one file.
IGNORED: Final = ("users", "permissions", "topic_permissions")
NO_USERS: Final = (
    "users and permissions are no part of definitions here: PUT /api/users/NAME and /api/permissions/VHOST/USER, or "
    "`longhall user import`"
)
SECTIONS: Final = ("vhosts", "exchanges", "queues", "bindings", "policies", "parameters", "global_parameters", *IGNORED)

_log = logging.getLogger("longhall.management")

Section = list[dict[str, Any]]


class _Queue(msgspec.Struct):
    """A queue of a file."""

    host: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: bytes


class Definitions(msgspec.Struct):
    """A file that was read and checked. `ignored` says how many objects of a kind are not stored."""

    hosts: list[str] = []
    exchanges: list[ExchangeView] = []
    queues: list[_Queue] = []
    bindings: list[BindingView] = []
    policies: list[PolicyView] = []
    ignored: dict[str, int] = {}


@final
class DefinitionHandlers:
    """The handlers of definitions."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node

    async def export_all(self, service: Router, asked: Asked) -> Reply:
        """GET definitions"""
        hosts = await service.call(ListVirtualHosts(), asked.caller)
        head = {
            **_head("cluster"),
            "original_cluster_name": self._node.cluster_name,
            "explanation": "Definitions of all virtual hosts. Users and permissions are not part of them.",
            "users": [],
            "vhosts": [{"name": host, "limits": [], "metadata": {"description": "", "tags": []}} for host in hosts],
            "permissions": [],
            "topic_permissions": [],
            "global_parameters": [{"name": "cluster_name", "value": self._node.cluster_name}],
        }
        return Reply({**head, **await exported(service, asked.caller, hosts)})

    async def export_host(self, service: Router, asked: Asked) -> Reply:
        """GET definitions/VHOST"""
        await check_host(service, asked.caller, asked.name)
        sections = await exported(service, asked.caller, [asked.name])
        for rows in sections.values():
            for row in rows:
                row.pop("vhost", None)
        head = {
            **_head("single_virtual_host"),
            "original_vhost_name": asked.name,
            "explanation": f"Definitions of the virtual host '{asked.name}'.",
        }
        return Reply({**head, **sections})

    async def import_all(self, service: Router, asked: Asked) -> Reply:
        """POST definitions"""
        return await _imported(service, asked, read_definitions(_uploaded(asked), None))

    async def import_host(self, service: Router, asked: Asked) -> Reply:
        """POST definitions/VHOST"""
        await check_host(service, asked.caller, asked.name)
        return await _imported(service, asked, read_definitions(_uploaded(asked), asked.name))


async def exported(service: Router, caller: Caller, hosts: list[str]) -> dict[str, Section]:
    """What is declared in these virtual hosts."""
    queues: Section = []
    bindings: Section = []
    exchanges: Section = []
    left_out: set[str] = set()
    for host in hosts:
        rows = await queue_rows(service, caller, host)
        for one in await states_of(service, caller, [row["hall"] for row in rows]):
            amqp = one.settings.amqp
            if amqp is None or amqp.owner:
                left_out.add(one.name)
                continue
            queues.append(
                {
                    "name": amqp.name,
                    "vhost": host,
                    "type": queue_type(amqp),
                    "durable": amqp.durable,
                    "auto_delete": amqp.auto_delete,
                    "arguments": shown_table(amqp.arguments),
                }
            )
        exchanges += [
            {
                "name": one.name,
                "vhost": host,
                "type": one.kind,
                "durable": one.durable,
                "auto_delete": one.auto_delete,
                "internal": one.internal,
                "arguments": shown_table(one.arguments),
            }
            for one in await service.call(ListExchanges(host), caller)
            if not one.name.startswith(RESERVED)
        ]
        for binding in await service.call(ListBindings(host), caller):
            if binding.to_exchange or binding.destination not in left_out:
                row = shown_binding(binding)
                del row["properties_key"]
                bindings.append(row)
    return {
        "parameters": await _operator_parameters(service, caller, hosts),
        "policies": [shown_policy(one) for one in await service.call(ListPolicies(), caller) if one.host in hosts],
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
    }


async def _operator_parameters(service: Router, caller: Caller, hosts: list[str]) -> Section:
    """Operator policies, which a file has as parameters."""
    rows: Section = []
    for one in await service.call(ListPolicies(True), caller):
        if one.host in hosts:
            value = shown_policy(one)
            del value["vhost"], value["name"]
            rows.append({"vhost": one.host, "component": "operator_policy", "name": one.name, "value": value})
    return rows


def _head(form: str) -> dict[str, Any]:
    return {
        "rabbit_version": VERSION,
        "rabbitmq_version": VERSION,
        "product_name": PRODUCT,
        "product_version": VERSION,
        "rabbitmq_definition_format": form,
    }


def _uploaded(asked: Asked) -> dict[str, Any]:
    """The file of a request. A browser's form sends it between boundaries."""
    if not asked.content_type.startswith("multipart/"):
        return body_of(asked)
    begin, end = asked.body.find(b"{"), asked.body.rfind(b"}")
    try:
        value = json.loads(asked.body[begin : end + 1])
    except ValueError as error:
        raise LonghallError(Code.INVALID_REQUEST, f"the file is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise LonghallError(Code.INVALID_REQUEST, "the file is no JSON object")
    return value


def read_definitions(body: dict[str, Any], host: str | None) -> Definitions:
    """Read and check a file, of one virtual host if one is given. INVALID_REQUEST names the object that cannot be."""
    sections = {name: _section(body, name) for name in SECTIONS}
    if sum(len(rows) for rows in sections.values()) > OBJECTS_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"a file has at most {OBJECTS_MAX} objects")
    read = Definitions(
        hosts=[text(row, "name") for row in sections["vhosts"]] if host is None else [],
        exchanges=[_of("exchange", row, host, _exchange) for row in sections["exchanges"]],
        queues=[_of("queue", row, host, _queue) for row in sections["queues"]],
        bindings=[_of("binding", row, host, _binding) for row in sections["bindings"]],
        policies=[_of("policy", row, host, _policy) for row in sections["policies"]],
        ignored={name: len(sections[name]) for name in IGNORED if sections[name]},
    )
    for row in sections["parameters"]:
        read.policies.append(_of("parameter", row, host, _parameter))
    return read


def _section(body: dict[str, Any], name: str) -> Section:
    rows = body.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LonghallError(Code.INVALID_REQUEST, f"'{name}' is no array of objects")
    return rows


def _of(what: str, row: dict[str, Any], host: str | None, read: Any) -> Any:
    """An object of a file; a refusal says which it is."""
    of = {**row, "vhost": host if host is not None else row.get("vhost", DEFAULT_HOST)}
    try:
        with amqp_refusals():
            return read(of)
    except LonghallError as error:
        name = row.get("name") or f"{row.get('source')} -> {row.get('destination')}"
        raise LonghallError(error.code, f"{what} '{name}' in vhost '{of['vhost']}': {error}") from None


def _exchange(row: dict[str, Any]) -> ExchangeView:
    flags = (flag(row, "durable", True), flag(row, "auto_delete"), flag(row, "internal"))
    wanted = ExchangeView(text(row, "vhost"), text(row, "name"), text(row, "type"), *flags, table(row, "arguments"))
    check_exchange(wanted)
    return wanted


def _queue(row: dict[str, Any]) -> _Queue:
    arguments = dict(row.get("arguments") or {})
    if row.get("type", "classic") != "classic":
        arguments.setdefault("x-queue-type", row["type"])
    read = _Queue(
        text(row, "vhost"),
        text(row, "name"),
        flag(row, "durable", True),
        flag(row, "auto_delete"),
        table({"arguments": arguments}, "arguments"),
    )
    settings_of(read.host, read.name, read.durable, read.auto_delete, "", read.arguments)
    return read


def _binding(row: dict[str, Any]) -> BindingView:
    to_exchange = text(row, "destination_type") == "exchange"
    names = (text(row, "vhost"), text(row, "source"), to_exchange, text(row, "destination"))
    return binding_of(*names, text(row, "routing_key", ""), table(row, "arguments"))


def _policy(row: dict[str, Any], operator: bool = False) -> PolicyView:
    policy = policy_of(row, operator)
    check_policy(PolicySet(**msgspec.structs.asdict(policy)))
    return policy


def _parameter(row: dict[str, Any]) -> PolicyView:
    """A parameter: only those are known that are operator policies."""
    value = row.get("value")
    if text(row, "component") != "operator_policy" or not isinstance(value, dict):
        raise LonghallError(Code.INVALID_REQUEST, f"there is no component '{row.get('component')}' here")
    return _policy({**value, "vhost": row["vhost"], "name": text(row, "name")}, True)


async def _imported(service: Router, asked: Asked, read: Definitions) -> Reply:
    caller = asked.caller
    for host in read.hosts:
        await service.call(AddVirtualHost(host), caller)
    for policy in read.policies:
        await service.call(SetPolicy(policy), caller)
    for exchange in read.exchanges:
        await put_exchange(service, caller, exchange)
    for one in read.queues:
        await put_queue(service, caller, one.host, one.name, one.durable, one.auto_delete, one.arguments)
    for binding in read.bindings:
        await put_binding(service, caller, binding)
    if not read.ignored:
        return NO_CONTENT
    _log.warning("a definitions file has objects that are not stored", extra={**read.ignored, "reason": NO_USERS})
    return Reply({"ignored": read.ignored, "reason": NO_USERS}, HTTPStatus.OK)
