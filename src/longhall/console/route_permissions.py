"""The table of HTTP routes: which permission each needs before its handler runs.

    BY_OPERATIONS   none: everything that the handler does or shows is an operation of the service, with its own needs
    OPEN            none: everybody who has logged in
    a need          of a handler that shows or changes what no operation of the service has, such as connections

A route without a row is refused, and a test fails. Health, readiness and metrics are no part of an API and have no
log-in; `docs/security.md` lists them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.directory.access_rules import EVERY_NAME, AccessAction, Kind
from longhall.front.operation_permissions import on_cluster
from longhall.front.permissions import Need


class RoutePermission(NamedTuple):
    """One row. Without a `need` the note says why there is none."""

    note: str
    need: Need | None = None


BY_OPERATIONS: Final = RoutePermission("by the operations that it asks for")
OPEN: Final = RoutePermission("everybody who has logged in")


def _need(need: Need) -> RoutePermission:
    return RoutePermission("", need)


_SEE_CLUSTER: Final = _need(on_cluster(AccessAction.DESCRIBE))
_OPERATE: Final = _need(on_cluster(AccessAction.CLUSTER_ACTION))
_SEE_USERS: Final = _need(Need(AccessAction.DESCRIBE, Kind.USER, EVERY_NAME))

_QUEUE_ROUTES: Final = (
    "GET queues",
    "POST queues",
    "GET queues/*",
    "PATCH queues/*",
    "DELETE queues/*",
    "POST queues/*/purge",
    "POST queues/*/pause",
    "POST queues/*/resume",
    "POST queues/*/rewind",
    "POST queues/*/fork",
    "GET queues/*/messages",
    "POST queues/*/search",
    "POST queues/*/messages",
    "POST queues/*/uploads",
    "PUT queues/*/uploads/*/parts/*",
    "POST queues/*/uploads/*",
    "DELETE queues/*/uploads/*",
    "POST receive",
    "POST queues/*/receive",
    "POST queues/*/settle",
    "POST queues/*/answer",
    "GET queues/*/leases",
    "POST queues/*/leases",
    "POST queues/*/part",
    "GET queues/*/letters",
    "GET queues/*/letters/*",
    "PATCH queues/*/letters/*",
    "GET queues/*/moves",
    "POST queues/*/moves",
    "DELETE moves/*",
)
_CLUSTER_ROUTES: Final = (
    "POST cluster/hosts/*/add",
    "POST cluster/hosts/*/drain",
    "PUT cluster/leader",
    "POST cluster/moves",
    "PUT cluster/factor",
    "GET cluster/map",
    "POST cluster/balance",
    "PUT cluster/wings/*",
    "DELETE cluster/wings/*",
    "PUT topics/*/placement",
    "DELETE topics/*/placement",
    "PUT queues/*/placement",
    "DELETE queues/*/placement",
    "GET cluster/partition-moves",
    "GET scrub",
    "POST scrub",
    "POST cluster/upgrade",
)
_EXCHANGE_ROUTES: Final = (
    "GET exchanges",
    "POST exchanges",
    "DELETE exchanges/*",
    "POST exchanges/*/route",
    "GET bindings",
    "POST bindings",
    "DELETE bindings",
    "GET definitions",
    "GET definitions/*",
    "POST definitions",
    "POST definitions/*",
)
_ACCOUNT_ROUTES: Final = (
    "GET limits",
    "PUT limits",
    "DELETE limits/*",
    "GET tenants",
    "POST tenants",
    "PATCH tenants/*",
    "DELETE tenants/*",
    "GET users",
    "POST users",
    "GET users/*",
    "PATCH users/*",
    "DELETE users/*",
    "POST users/*/password",
    "POST users/*/access-keys",
    "DELETE access-keys/*",
    "POST users/*/tokens",
    "DELETE tokens/*",
)
_KEY_ROUTES: Final = ("GET keys/*", "POST keys/*/rotate", "DELETE keys/*/*")
_ACCESS_ROUTES: Final = ("GET access/rules", "POST access/rules", "DELETE access/rules/*", "PUT access/roles/*")

QUEUE_API: Final[dict[str, RoutePermission]] = {
    **dict.fromkeys(
        (*_QUEUE_ROUTES, *_EXCHANGE_ROUTES, *_CLUSTER_ROUTES, *_ACCOUNT_ROUTES, *_KEY_ROUTES, *_ACCESS_ROUTES),
        BY_OPERATIONS,
    ),
    "GET access/explain": _need(on_cluster(AccessAction.DESCRIBE)),
    "POST cluster/recover": _OPERATE,
}

_MANAGED: Final = (
    "GET overview",
    "GET exchanges",
    "GET exchanges/*",
    "GET exchanges/*/*",
    "PUT exchanges/*/*",
    "DELETE exchanges/*/*",
    "POST exchanges/*/*/publish",
    "GET exchanges/*/*/bindings/source",
    "GET exchanges/*/*/bindings/destination",
    "GET bindings",
    "GET bindings/*",
    "GET bindings/*/e/*/*/*",
    "POST bindings/*/e/*/*/*",
    "GET bindings/*/e/*/*/*/*",
    "DELETE bindings/*/e/*/*/*/*",
    "GET queues/*/*/bindings",
    "GET queues",
    "GET queues/detailed",
    "GET queues/*",
    "GET queues/*/*",
    "PUT queues/*/*",
    "DELETE queues/*/*",
    "DELETE queues/*/*/contents",
    "POST queues/*/*/get",
    "GET vhosts",
    "GET vhosts/*",
    "PUT vhosts/*",
    "DELETE vhosts/*",
    "GET policies",
    "GET policies/*",
    "GET policies/*/*",
    "PUT policies/*/*",
    "DELETE policies/*/*",
    "GET operator-policies",
    "GET operator-policies/*",
    "GET operator-policies/*/*",
    "PUT operator-policies/*/*",
    "DELETE operator-policies/*/*",
    "GET definitions",
    "POST definitions",
    "GET definitions/*",
    "POST definitions/*",
    "GET all-configuration",
    "POST all-configuration",
    "PUT permissions/*/*",
    "DELETE permissions/*/*",
    "PUT users/*",
    "DELETE users/*",
    "GET aliveness-test/*",
)
_NODES: Final = (
    "GET nodes",
    "GET nodes/*",
    "GET nodes/*/memory",
    "GET connections",
    "GET vhosts/*/connections",
    "GET connections/username/*",
    "GET connections/*",
    "GET connections/*/channels",
    "GET channels",
    "GET channels/*",
    "GET vhosts/*/channels",
    "GET consumers",
    "GET consumers/*",
)
_USERS: Final = (
    "GET users",
    "GET users/*",
    "GET users/*/permissions",
    "GET permissions",
    "GET permissions/*/*",
    "GET vhosts/*/permissions",
)
# What they show is the same for everybody, or nothing; what they are asked to change is refused to everybody.
_FOR_ALL: Final = (
    "GET cluster-name",
    "GET global-parameters",
    "PUT global-parameters/*",
    "DELETE global-parameters/*",
    "PUT cluster-name",
    "PUT parameters/*/*/*",
    "DELETE parameters/*/*/*",
    "GET extensions",
    "GET version",
    "GET auth",
    "GET whoami",
    "GET topic-permissions",
    "GET vhosts/*/topic-permissions",
    "GET users/*/topic-permissions",
    "GET vhost-limits",
    "GET vhost-limits/*",
    "GET user-limits",
    "GET user-limits/*",
    "GET parameters",
    "GET parameters/*",
    "GET parameters/*/*",
    "GET parameters/*/*/*",
    "GET feature-flags",
    "GET deprecated-features",
    "GET deprecated-features/used",
    "PUT topic-permissions/*/*",
    "DELETE topic-permissions/*/*",
    "PUT user-limits/*/*",
    "DELETE user-limits/*/*",
    "PUT vhost-limits/*/*",
    "DELETE vhost-limits/*/*",
)
HEALTH: Final = ("GET health/checks/", "GET healthchecks/node")  # The checks that a balancer asks.

MANAGEMENT_API: Final[dict[str, RoutePermission]] = {
    **dict.fromkeys(_MANAGED, BY_OPERATIONS),
    **dict.fromkeys(_NODES, _SEE_CLUSTER),
    **dict.fromkeys(_USERS, _SEE_USERS),
    **dict.fromkeys(_FOR_ALL, OPEN),
    "DELETE connections/username/*": _OPERATE,
    "DELETE connections/*": _OPERATE,
}
TABLES: Final = {"/api/v1/": QUEUE_API, "/api/": MANAGEMENT_API}


def permission_of(prefix: str, method: str, path: str) -> RoutePermission | None:
    """The row of a route; None if there is none."""
    key = f"{method} {path}"
    if prefix == "/api/" and key.startswith(HEALTH):
        return OPEN
    return TABLES.get(prefix, {}).get(key)
