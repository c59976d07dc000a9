"""All routes of the management API, in one table."""

from __future__ import annotations

from longhall.console.api.service import Route
from longhall.console.management import messages
from longhall.console.management.access import AccessHandlers
from longhall.console.management.connections import ConnectionHandlers
from longhall.console.management.definitions import DefinitionHandlers
from longhall.console.management.exchanges import ExchangeHandlers
from longhall.console.management.health import HealthHandlers
from longhall.console.management.overview import OverviewHandlers
from longhall.console.management.permissions import PermissionHandlers
from longhall.console.management.policies import PolicyHandlers
from longhall.console.management.queues import QueueHandlers
from longhall.console.management.rates import Rates
from longhall.console.management.sources import ManagedNode
from longhall.directory.rate_limits import SEND
from longhall.front.account_secrets import AccountSecrets

CHECKS_FULFILLED = (
    "certificate-expiration/*/*",
    "node-is-mirror-sync-critical",
    "node-is-quorum-critical",
    "metadata-store/initialized",
    "metadata-store/initialized/with-data",
    "below-node-connection-limit",
    "quorum-queues-without-elected-leaders/all-vhosts",
    "quorum-queues-without-elected-leaders/vhost/*",
)


def management_routes(node: ManagedNode, rates: Rates, secrets: AccountSecrets | None = None) -> tuple[Route, ...]:
    """The routes of a node."""
    return (
        *_overview(OverviewHandlers(node, rates)),
        *_health(HealthHandlers(node)),
        *_connections(ConnectionHandlers(node)),
        *_exchanges(ExchangeHandlers(node, rates)),
        *_queues(QueueHandlers(node, rates)),
        *_access(AccessHandlers(node, rates)),
        *_permissions(PermissionHandlers(node, secrets)),
        *_policies("policies", PolicyHandlers(operator=False)),
        *_policies("operator-policies", PolicyHandlers(operator=True)),
        *_definitions(DefinitionHandlers(node)),
    )


def _overview(of: OverviewHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", "overview", of.overview),
        Route("GET", "nodes", of.list_nodes),
        Route("GET", "nodes/*", of.show_node),
        Route("GET", "nodes/*/memory", of.show_memory),
        Route("GET", "cluster-name", of.cluster_name),
        Route("GET", "global-parameters", of.list_global_parameters),
        Route("PUT", "global-parameters/*", of.refuse_parameters),
        Route("DELETE", "global-parameters/*", of.refuse_parameters),
        Route("PUT", "cluster-name", of.refuse_parameters),
        Route("GET", "parameters/*/*/*", of.show_parameter),
        Route("PUT", "parameters/*/*/*", of.refuse_parameters),
        Route("DELETE", "parameters/*/*/*", of.refuse_parameters),
        Route("GET", "extensions", of.extensions),
        Route("GET", "version", of.version),
        Route("GET", "auth", of.login),
    )


def _health(of: HealthHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", "health/checks/alarms", of.alarms),
        Route("GET", "health/checks/local-alarms", of.local_alarms),
        Route("GET", "health/checks/is-in-service", of.in_service),
        Route("GET", "health/checks/ready-to-serve-clients", of.in_service),
        Route("GET", "health/checks/virtual-hosts", of.virtual_hosts),
        Route("GET", "health/checks/port-listener/*", of.port_listener),
        Route("GET", "health/checks/protocol-listener/*", of.protocol_listener),
        Route("GET", "healthchecks/node", of.in_service),
        Route("GET", "healthchecks/node/*", of.node_in_service),
        Route("GET", "aliveness-test/*", of.aliveness),
        *(Route("GET", f"health/checks/{check}", of.fulfilled) for check in CHECKS_FULFILLED),
    )


def _connections(of: ConnectionHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", "connections", of.list_connections),
        Route("GET", "vhosts/*/connections", of.list_connections),
        Route("GET", "connections/username/*", of.list_of_user),
        Route("DELETE", "connections/username/*", of.close_of_user),
        Route("GET", "connections/*", of.show_connection),
        Route("DELETE", "connections/*", of.close_connection),
        Route("GET", "connections/*/channels", of.list_of_connection),
        Route("GET", "channels", of.list_channels),
        Route("GET", "channels/*", of.show_channel),
        Route("GET", "vhosts/*/channels", of.list_channels),
        Route("GET", "consumers", of.list_consumers),
        Route("GET", "consumers/*", of.list_consumers),
    )


def _exchanges(of: ExchangeHandlers) -> tuple[Route, ...]:
    between = "bindings/*/e/*/*/*"
    return (
        Route("GET", "exchanges", of.list_exchanges),
        Route("GET", "exchanges/*", of.list_exchanges),
        Route("GET", "exchanges/*/*", of.show_exchange),
        Route("PUT", "exchanges/*/*", of.declare_exchange),
        Route("DELETE", "exchanges/*/*", of.delete_exchange),
        Route("POST", "exchanges/*/*/publish", messages.publish_message, limited_as=SEND),
        Route("GET", "exchanges/*/*/bindings/source", of.list_from_exchange),
        Route("GET", "exchanges/*/*/bindings/destination", of.list_to_exchange),
        Route("GET", "bindings", of.list_bindings),
        Route("GET", "bindings/*", of.list_bindings),
        Route("GET", between, of.list_between),
        Route("POST", between, of.bind),
        Route("GET", f"{between}/*", of.show_binding),
        Route("DELETE", f"{between}/*", of.unbind),
        Route("GET", "queues/*/*/bindings", of.list_of_queue),
    )


def _queues(of: QueueHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", "queues", of.list_queues),
        Route("GET", "queues/detailed", of.list_queues),
        Route("GET", "queues/*", of.list_queues),
        Route("GET", "queues/*/*", of.show_queue),
        Route("PUT", "queues/*/*", of.declare_queue),
        Route("DELETE", "queues/*/*", of.delete_queue),
        Route("DELETE", "queues/*/*/contents", of.purge_queue),
        Route("POST", "queues/*/*/get", messages.get_messages, gives=True),
    )


def _access(of: AccessHandlers) -> tuple[Route, ...]:
    nothing = ("topic-permissions", "vhost-limits", "vhost-limits/*", "user-limits", "user-limits/*")
    more = ("parameters", "parameters/*", "parameters/*/*", "feature-flags", "deprecated-features")
    nothing_of = ("vhosts/*/topic-permissions", "users/*/topic-permissions")
    refused = (
        ("PUT", "topic-permissions/*/*"),
        ("DELETE", "topic-permissions/*/*"),
        ("PUT", "user-limits/*/*"),
        ("DELETE", "user-limits/*/*"),
        ("PUT", "vhost-limits/*/*"),
        ("DELETE", "vhost-limits/*/*"),
    )
    return (
        Route("GET", "vhosts", of.list_hosts),
        Route("GET", "vhosts/*", of.show_host),
        Route("PUT", "vhosts/*", of.add_host),
        Route("DELETE", "vhosts/*", of.remove_host),
        *(Route("GET", path, of.list_nothing) for path in (*nothing, *nothing_of, *more, "deprecated-features/used")),
        *(Route(method, path, of.refuse_limits) for method, path in refused),
    )


def _permissions(of: PermissionHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", "whoami", of.whoami),
        Route("GET", "users", of.list_users),
        Route("GET", "users/*", of.show_user),
        Route("PUT", "users/*", of.put_user),
        Route("DELETE", "users/*", of.remove_user),
        Route("GET", "users/*/permissions", of.list_of_user),
        Route("GET", "permissions", of.list_permissions),
        Route("GET", "permissions/*/*", of.show_permission),
        Route("PUT", "permissions/*/*", of.put_permission),
        Route("DELETE", "permissions/*/*", of.remove_permission),
        Route("GET", "vhosts/*/permissions", of.list_permissions),
    )


def _policies(path: str, of: PolicyHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", path, of.list_policies),
        Route("GET", f"{path}/*", of.list_policies),
        Route("GET", f"{path}/*/*", of.show_policy),
        Route("PUT", f"{path}/*/*", of.set_policy),
        Route("DELETE", f"{path}/*/*", of.remove_policy),
    )


def _definitions(of: DefinitionHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", "definitions", of.export_all),
        Route("POST", "definitions", of.import_all),
        Route("GET", "definitions/*", of.export_host),
        Route("POST", "definitions/*", of.import_host),
        Route("GET", "all-configuration", of.export_all),
        Route("POST", "all-configuration", of.import_all),
    )
