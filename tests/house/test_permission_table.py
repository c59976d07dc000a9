"""Nothing is unguarded: every operation, Kafka API and HTTP route has a permission, and docs/permissions.md has it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from house.permission_table import PAGE, may, render, unguarded
from longhall import console
from longhall.cluster.rpc.operation import Operation
from longhall.console.api.access import access_routes
from longhall.console.api.accounts import AccountHandlers
from longhall.console.api.exchanges import EXCHANGE_ROUTES, definition_routes
from longhall.console.api.groups import GROUP_ROUTES
from longhall.console.api.hosts import HOST_ROUTES
from longhall.console.api.keys import KEY_ROUTES
from longhall.console.api.limits import LIMIT_ROUTES
from longhall.console.api.recovery import recovery_routes
from longhall.console.api.routes import ROUTES
from longhall.console.api.scrub import SCRUB_ROUTES
from longhall.console.api.service import Route
from longhall.console.api.upgrade import UPGRADE_ROUTES
from longhall.console.management.routes import management_routes
from longhall.console.route_permissions import BY_OPERATIONS, TABLES, permission_of
from longhall.directory.access_rules import AccessAction, Kind
from longhall.front.operation_permissions import BY_KAFKA, OF_SESSION, OPERATION_PERMISSIONS
from longhall.front.roles import ROLES
from longhall.service.call_codec import OPERATIONS

NONE: Any = None


def _routes() -> list[tuple[str, Route]]:
    some = (*ROUTES, *LIMIT_ROUTES, *EXCHANGE_ROUTES, *KEY_ROUTES)
    own = (*some, *HOST_ROUTES, *GROUP_ROUTES, *SCRUB_ROUTES, *UPGRADE_ROUTES)
    accounts = AccountHandlers(NONE, NONE).routes()
    made = (*accounts, *access_routes(NONE), *definition_routes(NONE, NONE, NONE, NONE), *recovery_routes(NONE))
    managed = management_routes(NONE, NONE)
    return [*(("/api/v1/", one) for one in (*own, *made)), *(("/api/", one) for one in managed)]


def _defined() -> set[tuple[str, str]]:
    """Method and path of all routes that are written down in a table anywhere in the console."""
    modules = [
        importlib.import_module(one.name) for one in pkgutil.walk_packages(console.__path__, "longhall.console.")
    ]
    tables = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    return {(one.method, one.path) for table in tables for one in table if isinstance(one, Route)}


def _subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind, *(found for one in kind.__subclasses__() for found in _subclasses(one))}


def test_every_operation_and_every_kafka_api_has_a_permission() -> None:
    assert unguarded() == [], "add it to front/operation_permissions.py or doors/kafka/permissions.py"


def test_every_operation_of_the_program_is_in_the_list_that_is_walked() -> None:
    defined = {one for one in _subclasses(Operation) if one.__module__.startswith("longhall.")}
    bases = {one for one in defined if one.__name__.endswith("Operation")}
    assert defined - bases == set(OPERATIONS)


@pytest.mark.parametrize(("prefix", "route"), _routes(), ids=lambda one: str(one)[:60])
def test_every_route_has_a_permission(prefix: str, route: Route) -> None:
    assert permission_of(prefix, route.method, route.path) is not None, "add it to console/route_permissions.py"


def test_every_route_of_the_program_is_in_the_list_that_is_walked() -> None:
    assert _defined() - {(route.method, route.path) for _, route in _routes()} == set()


def test_no_row_is_left_of_a_route_that_is_gone() -> None:
    known = {(prefix, f"{route.method} {route.path}") for prefix, route in _routes()}
    for prefix, table in TABLES.items():
        assert {key for key in table if (prefix, key) not in known} == set()


def test_routes_that_rely_on_operations_pass_the_caller_on() -> None:
    """A handler that asks the service for somebody else would be a way around the permissions of its client."""
    for prefix, route in _routes():
        if permission_of(prefix, route.method, route.path) is BY_OPERATIONS and route.handler is not None:
            source = inspect.getsource(inspect.getmodule(route.handler))  # type: ignore[arg-type]
            assert "service.dispatch(" not in source, route.path


def test_rows_without_a_need_are_known() -> None:
    free = {
        kind.__name__ for kind, row in OPERATION_PERMISSIONS.items() if row.note in (OF_SESSION.note, BY_KAFKA.note)
    }
    assert free == {
        "AnswerKafkaRequest",
        "CancelConsumer",
        "EndHeld",
        "GiveCredit",
        "LimitChannel",
        "WithdrawCredit",
    }


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == render(), "run ./dev permissions"


def test_the_roles_are_what_their_names_say() -> None:
    assert list(ROLES) == ["administrator", "operator", "producer", "consumer", "viewer"]
    expected = {
        (AccessAction.WRITE, Kind.QUEUE): {"administrator", "producer"},
        (AccessAction.READ, Kind.QUEUE): {"administrator", "consumer"},
        (AccessAction.CREATE, Kind.QUEUE): {"administrator", "operator"},
        (AccessAction.DESCRIBE, Kind.QUEUE): set(ROLES),
        (AccessAction.ALTER, Kind.CLUSTER): {"administrator"},
        (AccessAction.ALTER, Kind.USER): {"administrator"},
        (AccessAction.CLUSTER_ACTION, Kind.CLUSTER): {"administrator", "operator"},
        (AccessAction.DESCRIBE, Kind.CLUSTER): {"administrator", "operator", "viewer"},
        (AccessAction.READ, Kind.GROUP): {"administrator", "consumer"},
    }
    for pair, roles in expected.items():
        assert {role for role in ROLES if may(role, [(pair,)])} == roles, pair
