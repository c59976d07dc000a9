"""One exchange: its declaration, its bindings, and the destinations of a message.

    kind       a binding matches if
    direct     its key equals the routing key
    fanout     always
    topic      its pattern matches the routing key (`topic_trie`)
    headers    its arguments match the headers (`header_match`)

An exchange of kind `x-delayed-message` routes like the kind in its argument `x-delayed-type`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from longhall.exchanges.events import BindingAdded, BindingRemoved, ExchangeDeclared
from longhall.exchanges.field_table import decode_table
from longhall.exchanges.header_match import HeaderMatch
from longhall.exchanges.topic_trie import TopicTrie

DIRECT: Final = "direct"
FANOUT: Final = "fanout"
TOPIC: Final = "topic"
HEADERS: Final = "headers"
DELAYED: Final = "x-delayed-message"
DELAYED_TYPE: Final = "x-delayed-type"
ALTERNATE: Final = "alternate-exchange"
KINDS: Final = (DIRECT, FANOUT, TOPIC, HEADERS)


class BindingTarget(NamedTuple):
    """A queue of the hall, or an exchange of the same virtual host."""

    to_exchange: bool
    name: str


class BindingKey(NamedTuple):
    """What makes a binding of an exchange different from its others."""

    to: BindingTarget
    key: str
    arguments: bytes


@final
class Exchange:
    """The state of one exchange. Only `apply` of the topology changes it."""

    def __init__(self, declared: ExchangeDeclared) -> None:
        self.declared = declared
        self.name = declared.name
        self.arguments: dict[str, Any] = decode_table(declared.arguments)[0] if declared.arguments else {}
        self.is_delayed = declared.kind == DELAYED
        self.kind = str(self.arguments.get(DELAYED_TYPE, DIRECT)) if self.is_delayed else declared.kind
        alternate = self.arguments.get(ALTERNATE)
        self.declared_alternate = alternate if isinstance(alternate, str) else ""
        self.alternate = self.declared_alternate  # A policy sets it if the declaration does not.
        self.bindings: dict[BindingKey, None] = {}
        self._by_key: dict[str, dict[BindingTarget, int]] = {}
        self._trie: TopicTrie[BindingTarget] = TopicTrie()
        self._conditions: dict[BindingKey, HeaderMatch] = {}

    def bind(self, event: BindingAdded) -> BindingKey:
        """Add a binding; no effect if it exists."""
        binding = key_of(event)
        if binding in self.bindings:
            return binding
        self.bindings[binding] = None
        if self.kind == TOPIC:
            self._trie.add(binding.key, binding.to)
        elif self.kind == HEADERS:
            self._conditions[binding] = HeaderMatch(decode_table(binding.arguments)[0] if binding.arguments else {})
        else:
            targets = self._by_key.setdefault("" if self.kind == FANOUT else binding.key, {})
            targets[binding.to] = targets.get(binding.to, 0) + 1
        return binding

    def unbind(self, binding: BindingKey) -> bool:
        """Remove a binding; False if there is none."""
        if binding not in self.bindings:
            return False
        del self.bindings[binding]
        if self.kind == TOPIC:
            self._trie.remove(binding.key, binding.to)
        elif self.kind == HEADERS:
            del self._conditions[binding]
        else:
            key = "" if self.kind == FANOUT else binding.key
            targets = self._by_key[key]
            targets[binding.to] -= 1
            if not targets[binding.to]:
                del targets[binding.to]
                if not targets:
                    del self._by_key[key]
        return True

    def match(self, keys: Sequence[str], headers: Mapping[str, Any]) -> dict[BindingTarget, None]:
        """The destinations of a message with these routing keys, each once."""
        if self.kind == HEADERS:
            return {binding.to: None for binding, condition in self._conditions.items() if condition.fits(headers)}
        if self.kind == FANOUT:
            return dict.fromkeys(self._by_key.get("", ()))
        if self.kind == TOPIC:
            found = self._trie.match(keys[0])
            for key in keys[1:]:
                found.update(self._trie.match(key))
            return found
        matched: dict[BindingTarget, None] = {}
        for key in keys:
            matched.update(dict.fromkeys(self._by_key.get(key, ())))
        return matched


def key_of(event: BindingAdded | BindingRemoved) -> BindingKey:
    """The binding of an event."""
    return BindingKey(BindingTarget(event.to_exchange, event.destination), event.key, event.arguments)
