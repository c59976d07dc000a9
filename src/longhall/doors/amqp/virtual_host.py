"""Virtual hosts, as a connection names them."""

from __future__ import annotations

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
