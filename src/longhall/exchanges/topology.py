"""All exchanges and bindings, by virtual host: how they change, and where a message goes.

decide_*() reads and returns an event or a refusal; apply() alone mutates. Routing visits each exchange once, so cycles
of bindings and of alternate exchanges end. The default exchange has no bindings: its routing key is the name of a
queue. Removing a queue removes its bindings, and an exchange that is deleted automatically goes with its last binding:
both follow from the events, so every replica does the same.

This module does not know queues; the caller says which exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from longhall.errors import Code
from longhall.exchanges.events import (
    BindingAdded,
    BindingRemoved,
    ExchangeDeclared,
    ExchangeDeleted,
    ExchangeEvent,
    PolicyRemoved,
    PolicySet,
    VirtualHostAdded,
    VirtualHostRemoved,
)
from longhall.exchanges.exchange import (
    DIRECT,
    FANOUT,
    HEADERS,
    TOPIC,
    BindingKey,
    BindingTarget,
    Exchange,
    key_of,
)
from longhall.exchanges.names import DEFAULT_HOST, hall_name
from longhall.exchanges.policies import ALTERNATE, Policies

DEFAULT_EXCHANGE: Final = ""
EXCHANGES_MAX: Final = 20_000
BINDINGS_MAX: Final = 1_000_000
HOSTS_MAX: Final = 1_000
ROUTES_MAX: Final = 10_000  # Remembered routes.
PREDECLARED: Final = (
    ("amq.direct", DIRECT, False),
    ("amq.fanout", FANOUT, False),
    ("amq.headers", HEADERS, False),
    ("amq.match", HEADERS, False),
    ("amq.rabbitmq.trace", TOPIC, True),
    ("amq.topic", TOPIC, False),
)
NO_HEADERS: Final[Mapping[str, Any]] = {}

Exists = Callable[[str], bool]


@final
class VirtualHost:
    """The exchanges of one virtual host, with those that every virtual host has."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exchanges: dict[str, Exchange] = {}
        for exchange, kind, internal in PREDECLARED:
            declared = ExchangeDeclared(
                host=name,
                name=exchange,
                kind=kind,
                durable=True,
                auto_delete=False,
                internal=internal,
                arguments=b"",
            )
            self.exchanges[exchange] = Exchange(declared)


@final
class Topology:
    """The state of all exchanges."""

    def __init__(self) -> None:
        self.hosts: dict[str, VirtualHost] = {DEFAULT_HOST: VirtualHost(DEFAULT_HOST)}
        self.policies = Policies()
        self.version = 0  # Counts changes.
        self._exchange_count = 0
        self._binding_count = 0
        self._sources: dict[tuple[str, BindingTarget], dict[tuple[str, BindingKey], None]] = {}  # By destination.
        self._routes: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self._has_headers: dict[tuple[str, str], bool] = {}

    def exchange(self, host: str, name: str) -> Exchange | None:
        """An exchange by name. The default exchange is not one of them."""
        found = self.hosts.get(host)
        return found.exchanges.get(name) if found is not None else None

    def bindings_to(self, host: str, to: BindingTarget) -> list[tuple[str, BindingKey]]:
        """The bindings of a queue or an exchange as a destination, each with the name of its source."""
        return list(self._sources.get((host, to), ()))

    # Deciding

    def decide_add_host(self, name: str) -> VirtualHostAdded | Code | None:
        """None if it exists."""
        if name in self.hosts:
            return None
        return VirtualHostAdded(name=name) if len(self.hosts) < HOSTS_MAX else Code.OVERLOADED

    def decide_remove_host(self, name: str) -> VirtualHostRemoved | Code:
        """The default virtual host stays."""
        if name not in self.hosts:
            return Code.UNKNOWN_VIRTUAL_HOST
        return VirtualHostRemoved(name=name) if name != DEFAULT_HOST else Code.INVALID_REQUEST

    def decide_declare(self, event: ExchangeDeclared) -> ExchangeDeclared | Code | None:
        """None if an exchange of this name exists: the caller compares the declarations."""
        host = self.hosts.get(event.host)
        if host is None:
            return Code.UNKNOWN_VIRTUAL_HOST
        if event.name in host.exchanges:
            return None
        return event if self._exchange_count < EXCHANGES_MAX else Code.OVERLOADED

    def decide_delete(self, host: str, name: str, if_unused: bool) -> ExchangeDeleted | Code | None:
        """None if there is none."""
        exchange = self.exchange(host, name)
        if exchange is None:
            return None if host in self.hosts else Code.UNKNOWN_VIRTUAL_HOST
        if if_unused and exchange.bindings:
            return Code.EXCHANGE_IN_USE
        return ExchangeDeleted(host=host, name=name)

    def decide_bind(self, event: BindingAdded) -> BindingAdded | Code | None:
        """None if the binding exists."""
        exchange = self.exchange(event.host, event.source)
        if exchange is None or (event.to_exchange and self.exchange(event.host, event.destination) is None):
            return Code.UNKNOWN_EXCHANGE
        if key_of(event) in exchange.bindings:
            return None
        return event if self._binding_count < BINDINGS_MAX else Code.OVERLOADED

    def decide_unbind(self, event: BindingRemoved) -> BindingRemoved | None:
        """None if there is no such binding."""
        exchange = self.exchange(event.host, event.source)
        return event if exchange is not None and key_of(event) in exchange.bindings else None

    # Routing

    def route(
        self, host: str, name: str, keys: Sequence[str], headers: Mapping[str, Any], exists: Exists
    ) -> tuple[str, ...] | Code:
        """The queues of a message, each once. UNKNOWN_EXCHANGE if there is no exchange of this name."""
        if len(keys) == 1:
            found = self._routes.get((host, name, keys[0]))
            if found is not None:
                return found
        if name == DEFAULT_EXCHANGE:
            named = dict.fromkeys(hall_name(host, key) for key in keys)
            return tuple([queue for queue in named if exists(queue)])
        start = self.exchange(host, name)
        if start is None:
            return Code.UNKNOWN_EXCHANGE
        queues: dict[str, None] = {}
        by_headers = self._visit(self.hosts[host], start, keys, headers, queues)
        routed = tuple([queue for queue in queues if exists(queue)])
        if len(keys) == 1 and not by_headers:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[host, name, keys[0]] = routed
        return routed

    def wants_headers(self, host: str, name: str) -> bool:
        """True if the route from this exchange may depend on headers."""
        known = self._has_headers.get((host, name))
        if known is None:
            start = self.exchange(host, name)
            known = start is not None and self._reaches_headers(self.hosts[host], start)
            if len(self._has_headers) >= ROUTES_MAX:
                self._has_headers.clear()
            self._has_headers[host, name] = known
        return known

    def _reaches_headers(self, host: VirtualHost, start: Exchange) -> bool:
        seen = {start.name: None}
        stack = [start]
        while stack:
            exchange = stack.pop()
            if exchange.kind == HEADERS:
                return True
            names = [binding.to.name for binding in exchange.bindings if binding.to.to_exchange]
            for name in [*names, exchange.alternate]:
                following = host.exchanges.get(name)
                if following is not None and name not in seen:
                    seen[name] = None
                    stack.append(following)
        return False

    def _visit(
        self,
        host: VirtualHost,
        start: Exchange,
        keys: Sequence[str],
        headers: Mapping[str, Any],
        queues: dict[str, None],
    ) -> bool:
        """Collect queues; True if headers have decided something."""
        by_headers = False
        seen = {start.name: None}
        stack = [start]
        while stack:
            exchange = stack.pop()
            by_headers = by_headers or exchange.kind == HEADERS
            matched = exchange.match(keys, headers)
            names = [to.name for to in matched if to.to_exchange]
            if not matched and exchange.alternate:
                names = [exchange.alternate]
            for to in matched:
                if not to.to_exchange:
                    queues[to.name] = None
            for name in names:
                following = host.exchanges.get(name)
                if following is not None and name not in seen:
                    seen[name] = None
                    stack.append(following)
        return by_headers

    # Applying

    def apply(self, event: ExchangeEvent) -> None:
        """Apply an event: the only way in which exchanges change, beside `queue_removed`."""
        self._changed()
        match event:
            case VirtualHostAdded():
                self.hosts[event.name] = VirtualHost(event.name)
            case VirtualHostRemoved():
                for name in list(self.hosts[event.name].exchanges):
                    self._delete(event.name, name)
                self.hosts.pop(event.name)
                self.policies.host_removed(event.name)
            case ExchangeDeclared():
                exchange = self.hosts[event.host].exchanges[event.name] = Exchange(event)
                self._follow_policy(exchange)
                self._exchange_count += 1
            case ExchangeDeleted():
                self._delete(event.host, event.name)
            case BindingAdded():
                exchange = self.hosts[event.host].exchanges[event.source]
                before = len(exchange.bindings)
                binding = exchange.bind(event)
                self._binding_count += len(exchange.bindings) - before
                self._sources.setdefault((event.host, binding.to), {})[event.source, binding] = None
            case BindingRemoved():
                self._unbind(event.host, event.source, key_of(event))
            case PolicySet() | PolicyRemoved():
                self.policies.apply(event)
                for exchange in self.hosts[event.host].exchanges.values() if event.host in self.hosts else ():
                    self._follow_policy(exchange)

    def _follow_policy(self, exchange: Exchange) -> None:
        """Set the alternate exchange: as declared, else as a policy says."""
        policy = self.policies.of_exchange(exchange.declared.host, exchange.name) if len(self.policies) else None
        alternate = policy.definition.get(ALTERNATE, "") if policy is not None else ""
        exchange.alternate = exchange.declared_alternate or alternate

    def queue_removed(self, host: str, queue: str) -> None:
        """Remove the bindings of a queue that is gone."""
        self._changed()
        for source, binding in self.bindings_to(host, BindingTarget(False, queue)):
            self._unbind(host, source, binding)

    def _changed(self) -> None:
        self.version += 1
        self._routes.clear()
        self._has_headers.clear()

    def queues_changed(self) -> None:
        """A queue was created: remembered routes may lack it."""
        self._routes.clear()

    def _unbind(self, host: str, source: str, binding: BindingKey) -> None:
        exchange = self.exchange(host, source)
        if exchange is None or not exchange.unbind(binding):
            return
        self._binding_count -= 1
        sources = self._sources[host, binding.to]
        del sources[source, binding]
        if not sources:
            del self._sources[host, binding.to]
        if exchange.declared.auto_delete and not exchange.bindings:
            self._delete(host, source)

    def _delete(self, host: str, name: str) -> None:
        exchange = self.hosts[host].exchanges.pop(name, None)
        if exchange is None:
            return
        self._exchange_count -= not name.startswith("amq.")
        for binding in list(exchange.bindings):
            exchange.unbind(binding)
            self._binding_count -= 1
            sources = self._sources[host, binding.to]
            del sources[name, binding]
            if not sources:
                del self._sources[host, binding.to]
        for source, binding in self.bindings_to(host, BindingTarget(True, name)):
            self._unbind(host, source, binding)

    # Snapshots

    def snapshot(self) -> list[Any]:
        """For `restore`: virtual hosts with their declared exchanges and all bindings."""
        rows: list[Any] = []
        for host in self.hosts.values():
            exchanges = [
                [one.name, one.kind, one.durable, one.auto_delete, one.internal, one.arguments]
                for one in (exchange.declared for exchange in host.exchanges.values())
                if not _is_predeclared(one.name)
            ]
            bindings = [
                [exchange.name, binding.to.to_exchange, binding.to.name, binding.key, binding.arguments]
                for exchange in host.exchanges.values()
                for binding in exchange.bindings
            ]
            policies = [
                [one.name, one.operator, one.pattern, one.apply_to, one.priority, one.definition]
                for operator in (False, True)
                for one in self.policies.rows(operator)
                if one.host == host.name
            ]
            # Only if there are any: older nodes of the same feature level read three fields.
            rows.append([host.name, exchanges, bindings, *([policies] if policies else [])])
        return rows

    def rows(self) -> list[str]:
        """Everything but what every hall has, in an order that does not depend on its history."""
        rows: list[str] = []
        for host, exchanges, bindings, *policies in self.snapshot():
            if host != DEFAULT_HOST or exchanges or bindings or policies:
                known = [[*row[:5], sorted(row[5].items())] for row in policies[0]] if policies else []
                rows.append(repr((host, sorted(exchanges), sorted(bindings), *([known] if known else []))))
        return sorted(rows)

    def restore(self, rows: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        for host, exchanges, bindings, *policies in rows:
            if host not in self.hosts:
                self.apply(VirtualHostAdded(name=host))
            for name, operator, pattern, apply_to, priority, definition in policies[0] if policies else ():
                self.apply(
                    PolicySet(
                        host=host,
                        name=name,
                        operator=operator,
                        pattern=pattern,
                        apply_to=apply_to,
                        priority=priority,
                        definition=definition,
                    )
                )
            for name, kind, durable, auto_delete, internal, arguments in exchanges:
                self.apply(
                    ExchangeDeclared(
                        host=host,
                        name=name,
                        kind=kind,
                        durable=durable,
                        auto_delete=auto_delete,
                        internal=internal,
                        arguments=arguments,
                    )
                )
            for source, to_exchange, destination, key, arguments in bindings:
                self.apply(
                    BindingAdded(
                        host=host,
                        source=source,
                        to_exchange=to_exchange,
                        destination=destination,
                        key=key,
                        arguments=arguments,
                    )
                )


def _is_predeclared(name: str) -> bool:
    return any(name == one[0] for one in PREDECLARED)
