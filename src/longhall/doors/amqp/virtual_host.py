"""Virtual hosts, as a connection names them."""

from __future__ import annotations

from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import DEFAULT_HOST
from longhall.service.exchange_operations import ListExchanges
from longhall.service.router import Router


async def has_virtual_host(service: Router, host: str) -> bool:
    """True if there is a virtual host of this name."""
    if host == DEFAULT_HOST:
        return True
    try:
        await service.dispatch(ListExchanges(host))
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_VIRTUAL_HOST:
            raise
        return False
    return True


async def refusal_of_host(service: Router, host: str, user: str, caller: Caller) -> str:
    """Why a client may not open a virtual host; empty if it may."""
    if not service.may_enter(host, caller):
        return f"access to vhost '{host}' refused for user '{user}'"
    return "" if await has_virtual_host(service, host) else f"vhost {host} not found"
