"""Virtual hosts, and who may log in: the truth of today, in RabbitMQ's shapes.

Logins are the access keys of `--credentials`; without them every login is accepted. Each may do everything. There are
no users to create: such requests are refused with the reason.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import NO_CONTENT, check_host, queue_rows, states_of
from longhall.console.management.rates import Rates
from longhall.console.management.sources import ManagedNode
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import DEFAULT_HOST
from longhall.service.exchange_operations import AddVirtualHost, ListVirtualHosts, RemoveVirtualHost
from longhall.service.router import Router

TAGS: Final = ["administrator"]
NO_USERS: Final = (
    "users and permissions are not stored: logins are the access keys of the node's --credentials, and without them "
    "every login is accepted"
)
HASHING: Final = "rabbit_password_hashing_sha256"


@final
class AccessHandlers:
    """The handlers of virtual hosts, users and permissions."""

    def __init__(self, node: ManagedNode, rates: Rates) -> None:
        self._node = node
        self._rates = rates

    def _users(self, asked: Asked) -> list[str]:
        """Those who may log in. Without credentials that is everybody: the one who asks stands for all."""
        return self._node.users or [asked.caller.identity]

    async def whoami(self, service: Router, asked: Asked) -> Reply:
        """GET whoami"""
        return Reply({"name": asked.caller.identity, "tags": TAGS, "is_internal_user": True})

    async def list_users(self, service: Router, asked: Asked) -> Reply:
        """GET users"""
        return await listed(asked, [_user(name) for name in self._users(asked)])

    async def show_user(self, service: Router, asked: Asked) -> Reply:
        """GET users/NAME"""
        if asked.name not in self._users(asked):
            raise LonghallError(Code.UNKNOWN_MEMBER, f"no user '{asked.name}'")
        return shown(asked, _user(asked.name))

    async def list_permissions(self, service: Router, asked: Asked) -> Reply:
        """GET permissions, vhosts/VHOST/permissions"""
        hosts = await service.call(ListVirtualHosts(), asked.caller)
        if asked.names:
            await check_host(service, asked.caller, asked.name)
            hosts = [asked.name]
        return await listed(asked, [_permission(user, host) for host in hosts for user in self._users(asked)])

    async def list_of_user(self, service: Router, asked: Asked) -> Reply:
        """GET users/NAME/permissions"""
        await self.show_user(service, asked)
        hosts = await service.call(ListVirtualHosts(), asked.caller)
        return await listed(asked, [_permission(asked.name, host) for host in hosts])

    async def show_permission(self, service: Router, asked: Asked) -> Reply:
        """GET permissions/VHOST/USER"""
        host, user = asked.names
        await check_host(service, asked.caller, host)
        if user not in self._users(asked):
            raise LonghallError(Code.UNKNOWN_MEMBER, f"no user '{user}'")
        return shown(asked, _permission(user, host))

    async def refuse_users(self, service: Router, asked: Asked) -> Reply:
        """PUT and DELETE of users, permissions and limits"""
        raise LonghallError(Code.INVALID_REQUEST, NO_USERS)

    async def list_nothing(self, service: Router, asked: Asked) -> Reply:
        """GET of what there is none: topic permissions, limits, runtime parameters, deprecated features"""
        return Reply([])

    # Virtual hosts

    async def list_hosts(self, service: Router, asked: Asked) -> Reply:
        """GET vhosts"""
        names = await service.call(ListVirtualHosts(), asked.caller)

        async def fill(rows: list[Row]) -> list[Row]:
            return [await self._host(service, asked, row["name"]) for row in rows]

        return await listed(asked, [{"name": name} for name in names], fill)

    async def show_host(self, service: Router, asked: Asked) -> Reply:
        """GET vhosts/NAME"""
        await check_host(service, asked.caller, asked.name)
        return shown(asked, await self._host(service, asked, asked.name))

    async def _host(self, service: Router, asked: Asked, name: str) -> Row:
        queues = await queue_rows(service, asked.caller, name)
        states = await states_of(service, asked.caller, [row["hall"] for row in queues])
        ready, unacknowledged = sum(one.available for one in states), sum(one.in_flight for one in states)
        depths = {
            "messages": ready + unacknowledged,
            "messages_ready": ready,
            "messages_unacknowledged": unacknowledged,
        }
        return {
            "name": name,
            "description": "Default virtual host" if name == DEFAULT_HOST else "",
            "tags": [],
            "default_queue_type": "classic",
            "metadata": {"description": "", "tags": []},
            "tracing": False,
            "cluster_state": {self._node.name: "running"},
            "protected_from_deletion": name == DEFAULT_HOST,
            **self._rates.with_details(f"vhost {name}", depths),
        }

    async def add_host(self, service: Router, asked: Asked) -> Reply:
        """PUT vhosts/NAME"""
        known = await service.call(ListVirtualHosts(), asked.caller)
        await service.call(AddVirtualHost(asked.name), asked.caller)
        return NO_CONTENT if asked.name in known else Reply(None, HTTPStatus.CREATED)

    async def remove_host(self, service: Router, asked: Asked) -> Reply:
        """DELETE vhosts/NAME"""
        await service.call(RemoveVirtualHost(asked.name), asked.caller)
        return NO_CONTENT


def _user(name: str) -> Row:
    return {"name": name, "tags": TAGS, "password_hash": "", "hashing_algorithm": HASHING, "limits": {}}


def _permission(user: str, host: str) -> dict[str, Any]:
    return {"user": user, "vhost": host, "configure": ".*", "write": ".*", "read": ".*"}
