"""The log events of exchanges: part of the catalogue. The meaning of a released event never changes."""

from __future__ import annotations

from typing import Any

import msgspec


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """The base of these events; the tag is stored and identifies the event."""


class VirtualHostAdded(_Event, frozen=True, tag="virtual-host-added"):
    """There is a virtual host of this name."""

    name: str


class VirtualHostRemoved(_Event, frozen=True, tag="virtual-host-removed"):
    """The virtual host is gone with its exchanges; its queues have events of their own."""

    name: str


class ExchangeDeclared(_Event, frozen=True, tag="exchange-declared"):
    """An exchange exists. `arguments` is a field table."""

    host: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes


class ExchangeDeleted(_Event, frozen=True, tag="exchange-deleted"):
    """An exchange is gone, with the bindings from it and to it."""

    host: str
    name: str


class BindingAdded(_Event, frozen=True, tag="binding-added"):
    """Messages of an exchange go to a queue of the hall, or to another exchange of the virtual host."""

    host: str
    source: str
    to_exchange: bool
    destination: str
    key: str
    arguments: bytes


class BindingRemoved(_Event, frozen=True, tag="binding-removed"):
    """The binding is gone; an exchange that is deleted automatically goes with its last binding."""

    host: str
    source: str
    to_exchange: bool
    destination: str
    key: str
    arguments: bytes


class PolicySet(_Event, frozen=True, tag="policy-set"):
    """A policy or operator policy exists, in place of one of the same name. The definition has integers and texts."""

    host: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: dict[str, Any]
    operator: bool = False


class PolicyRemoved(_Event, frozen=True, tag="policy-removed"):
    """The policy is gone."""

    host: str
    name: str
    operator: bool = False


ExchangeEvent = (
    VirtualHostAdded
    | VirtualHostRemoved
    | ExchangeDeclared
    | ExchangeDeleted
    | BindingAdded
    | BindingRemoved
    | PolicySet
    | PolicyRemoved
)
