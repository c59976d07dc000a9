"""Policies and operator policies over the management API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import body_of, number, text
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import NO_CONTENT, check_host
from longhall.errors import Code, LonghallError
from longhall.service.policy_operations import ListPolicies, PolicyView, RemovePolicy, SetPolicy
from longhall.service.router import Router

APPLY_TO: Final = "all"


class PolicyHandlers:
    """The handlers of policies, or of operator policies."""

    def __init__(self, operator: bool) -> None:
        self._operator = operator

    async def list_policies(self, service: Router, asked: Asked) -> Reply:
        """GET policies, policies/VHOST"""
        host = asked.names[0] if asked.names else None
        await check_host(service, asked.caller, host)
        known = await service.call(ListPolicies(self._operator), asked.caller)
        return await listed(asked, [shown_policy(one) for one in known if host in (None, one.host)])

    async def show_policy(self, service: Router, asked: Asked) -> Reply:
        """GET policies/VHOST/NAME"""
        host, name = asked.names
        for one in await service.call(ListPolicies(self._operator), asked.caller):
            if (one.host, one.name) == (host, name):
                return shown(asked, shown_policy(one))
        raise _unknown(name, host)

    async def set_policy(self, service: Router, asked: Asked) -> Reply:
        """PUT policies/VHOST/NAME"""
        host, name = asked.names
        policy = policy_of({**body_of(asked), "vhost": host, "name": name}, self._operator)
        is_new = await service.call(SetPolicy(policy), asked.caller)
        return Reply(None, HTTPStatus.CREATED) if is_new else NO_CONTENT

    async def remove_policy(self, service: Router, asked: Asked) -> Reply:
        """DELETE policies/VHOST/NAME"""
        host, name = asked.names
        if not await service.call(RemovePolicy(host, name, self._operator), asked.caller):
            raise _unknown(name, host)
        return NO_CONTENT


def policy_of(body: dict[str, Any], operator: bool) -> PolicyView:
    """A policy as the management API and definitions files have it."""
    definition = body.get("definition")
    if not isinstance(definition, dict):
        raise LonghallError(Code.INVALID_REQUEST, "'definition' is no object")
    return PolicyView(
        host=text(body, "vhost"),
        name=text(body, "name"),
        pattern=text(body, "pattern"),
        apply_to=text(body, "apply-to", "queues" if operator else APPLY_TO),
        priority=number(body, "priority", 0),
        definition=definition,
        operator=operator,
    )


def shown_policy(one: PolicyView) -> Row:
    """A policy in RabbitMQ's shape."""
    return {
        "vhost": one.host,
        "name": one.name,
        "pattern": one.pattern,
        "apply-to": one.apply_to,
        "definition": one.definition,
        "priority": one.priority,
    }


def _unknown(name: str, host: str) -> LonghallError:
    return LonghallError(Code.UNKNOWN_MESSAGE, f"no policy '{name}' in vhost '{host}'")
