"""The routes of the HTTP port: liveness, readiness, metrics, and a service below its own path.

`/healthz` fails if the process should be restarted, `/readyz` if a client's send would fail now. While a node starts or
drains, its disk is full, or there is no leader, it is healthy and not ready.
"""

from __future__ import annotations

from http import HTTPStatus

from longhall.console.families import HallFamilies
from longhall.console.http import SERVICE_CONNECTIONS_MAX, Handler, HttpServer, Response, Service, plain
from longhall.console.metrics import CONTENT_TYPE, Registry
from longhall.console.sources import HallStatus
from longhall.world.ports import Clock


def open_console(
    hall: HallStatus,
    clock: Clock,
    registry: Registry,
    service: Service | None = None,
    connections_per_address_max: int = SERVICE_CONNECTIONS_MAX,
) -> HttpServer:
    """A server for this hall, not yet listening. The node adds its other collectors to `registry`."""
    HallFamilies(hall, clock).register(registry)
    return HttpServer(_routes(hall, registry), service=service, connections_per_address_max=connections_per_address_max)


def _routes(hall: HallStatus, registry: Registry) -> dict[str, Handler]:
    async def healthz() -> Response:
        return _verdict(hall.healthy())

    async def readyz() -> Response:
        return _verdict(await hall.send_trouble())

    async def metrics() -> Response:
        return Response(HTTPStatus.OK, await registry.render(), CONTENT_TYPE)

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def _verdict(trouble: str | None) -> Response:
    return plain(HTTPStatus.OK, "ok") if trouble is None else plain(HTTPStatus.SERVICE_UNAVAILABLE, trouble)
