"""Routing against a naive oracle, and the rules of declarations, bindings and cycles."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code
from longhall.exchanges.events import BindingAdded, BindingRemoved, ExchangeDeclared, ExchangeDeleted, VirtualHostAdded
from longhall.exchanges.exchange import DIRECT, FANOUT, HEADERS, TOPIC, BindingTarget
from longhall.exchanges.field_table import encode_table
from longhall.exchanges.header_match import MATCHES, HeaderMatch
from longhall.exchanges.topic_trie import TopicTrie
from longhall.exchanges.topology import NO_HEADERS, Topology

HOST = "/"

words = st.sampled_from(["a", "b", "cc", "", "*x"])
keys = st.lists(words, max_size=5).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "cc", "*", "#", ""]), max_size=5).map(".".join)


def fits(pattern: str, key: str) -> bool:
    """The definition, word by word."""

    def walk(left: list[str], right: list[str]) -> bool:
        if not left:
            return not right
        if left[0] == "#":
            return any(walk(left[1:], right[at:]) for at in range(len(right) + 1))
        return bool(right) and (left[0] == "*" or left[0] == right[0]) and walk(left[1:], right[1:])

    return walk(pattern.split(".") if pattern else [], key.split(".") if key else [])


@given(st.lists(patterns, max_size=12), st.lists(keys, max_size=6), st.data())
def test_the_trie_matches_what_the_definition_matches(bound: list[str], asked: list[str], data: st.DataObject) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for at, pattern in enumerate(bound):
        trie.add(pattern, at)
    gone = data.draw(st.sets(st.integers(0, max(len(bound) - 1, 0)), max_size=len(bound))) if bound else set()
    for at in gone:
        trie.remove(bound[at], at)
    for key in asked:
        expected = {at for at, pattern in enumerate(bound) if at not in gone and fits(pattern, key)}
        assert set(trie.match(key)) == expected


def test_many_hashes_cost_no_exponential_time() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add(".".join(["#", "a"] * 20 + ["z"]), 1)
    assert not trie.match(".".join(["a"] * 200))


values = st.sampled_from([None, 1, 2, True, False, "1", "x", 1.0])
tables = st.dictionaries(st.sampled_from(["k", "l", "x-m"]), values, max_size=3)


@given(tables, tables, st.sampled_from([*MATCHES, ""]))
def test_headers_match_as_the_definition_says(arguments: dict[str, Any], headers: dict[str, Any], match: str) -> None:
    with_x = match.endswith("-with-x")
    wanted = {name: value for name, value in arguments.items() if with_x or not name.startswith("x-")}
    hits = [
        name in headers
        and (value is None or (headers[name] == value and isinstance(headers[name], bool) == isinstance(value, bool)))
        for name, value in wanted.items()
    ]
    expected = any(hits) if match.startswith("any") else all(hits)
    condition = HeaderMatch({**arguments, **({"x-match": match} if match else {})})
    assert condition.fits(headers) == expected


def declare(topology: Topology, name: str, kind: str, auto_delete: bool = False, **arguments: Any) -> None:
    table = encode_table({re.sub("_", "-", key): value for key, value in arguments.items()}) if arguments else b""
    event = ExchangeDeclared(
        host=HOST, name=name, kind=kind, durable=True, auto_delete=auto_delete, internal=False, arguments=table
    )
    decided = topology.decide_declare(event)
    assert isinstance(decided, ExchangeDeclared)
    topology.apply(decided)


def binding(source: str, to: str, key: str = "", to_exchange: bool = False, arguments: bytes = b"") -> BindingAdded:
    return BindingAdded(host=HOST, source=source, to_exchange=to_exchange, destination=to, key=key, arguments=arguments)


def bind(topology: Topology, event: BindingAdded) -> None:
    decided = topology.decide_bind(event)
    assert isinstance(decided, BindingAdded)
    topology.apply(decided)


def routed(topology: Topology, exchange: str, *keys: str, headers: dict[str, Any] | None = None) -> set[str]:
    found = topology.route(HOST, exchange, keys, headers or NO_HEADERS, lambda queue: queue != "missing")
    assert not isinstance(found, Code)
    assert len(found) == len(set(found))
    return set(found)


def test_each_kind_routes_by_its_rule_and_a_queue_gets_one_copy() -> None:
    topology = Topology()
    for kind in (DIRECT, FANOUT, TOPIC, HEADERS):
        declare(topology, kind, kind)
    bind(topology, binding(DIRECT, "one", "k"))
    bind(topology, binding(DIRECT, "one", "l"))
    bind(topology, binding(FANOUT, "one", "any"))
    bind(topology, binding(FANOUT, "two"))
    bind(topology, binding(TOPIC, "one", "a.*"))
    bind(topology, binding(TOPIC, "one", "a.#"))
    bind(topology, binding(HEADERS, "one", arguments=encode_table({"k": 1, "x-match": "any"})))
    assert routed(topology, DIRECT, "k") == {"one"}
    assert routed(topology, DIRECT, "k", "l") == {"one"}  # CC.
    assert routed(topology, DIRECT, "no") == set()
    assert routed(topology, FANOUT, "") == {"one", "two"}
    assert routed(topology, TOPIC, "a.b") == {"one"}
    assert routed(topology, TOPIC, "b") == set()
    assert routed(topology, HEADERS, "", headers={"k": 1}) == {"one"}
    assert routed(topology, HEADERS, "", headers={"k": 2}) == set()
    assert routed(topology, "", "one", "missing") == {"one"}
    assert topology.route(HOST, "none", ["k"], NO_HEADERS, bool) is Code.UNKNOWN_EXCHANGE


def test_cycles_of_exchanges_and_alternates_end() -> None:
    topology = Topology()
    declare(topology, "a", FANOUT)
    declare(topology, "b", DIRECT, alternate_exchange="c")
    declare(topology, "c", DIRECT, alternate_exchange="b")
    bind(topology, binding("a", "a", to_exchange=True))
    bind(topology, binding("a", "b", to_exchange=True))
    bind(topology, binding("c", "found", "k"))
    assert routed(topology, "a", "k") == {"found"}
    assert routed(topology, "a", "other") == set()


def test_a_change_of_bindings_changes_remembered_routes() -> None:
    topology = Topology()
    declare(topology, "x", DIRECT)
    assert routed(topology, "x", "k") == set()
    bind(topology, binding("x", "one", "k"))
    assert routed(topology, "x", "k") == {"one"}
    topology.queue_removed(HOST, "one")
    assert routed(topology, "x", "k") == set()


def test_an_automatic_exchange_goes_with_its_last_binding_and_takes_those_before_it_along() -> None:
    topology = Topology()
    declare(topology, "first", FANOUT, auto_delete=True)
    declare(topology, "second", FANOUT, auto_delete=True)
    bind(topology, binding("first", "second", to_exchange=True))
    bind(topology, binding("second", "queue"))
    topology.queue_removed(HOST, "queue")
    assert topology.exchange(HOST, "first") is None
    assert topology.exchange(HOST, "second") is None
    assert topology.rows() == []


def test_decisions_refuse_what_cannot_be() -> None:
    topology = Topology()
    declare(topology, "x", DIRECT)
    bind(topology, binding("x", "queue", "k"))
    assert topology.decide_delete(HOST, "x", if_unused=True) is Code.EXCHANGE_IN_USE
    assert isinstance(topology.decide_delete(HOST, "x", if_unused=False), ExchangeDeleted)
    assert topology.decide_delete(HOST, "none", if_unused=False) is None
    assert topology.decide_delete("none", "x", if_unused=False) is Code.UNKNOWN_VIRTUAL_HOST
    assert topology.decide_bind(binding("none", "queue")) is Code.UNKNOWN_EXCHANGE
    assert topology.decide_bind(binding("x", "none", to_exchange=True)) is Code.UNKNOWN_EXCHANGE
    assert topology.decide_bind(binding("x", "queue", "k")) is None
    absent = BindingRemoved(host=HOST, source="x", to_exchange=False, destination="queue", key="l", arguments=b"")
    assert topology.decide_unbind(absent) is None


def test_a_snapshot_restores_everything() -> None:
    topology = Topology()
    topology.apply(VirtualHostAdded(name="other"))
    declare(topology, "x", TOPIC, alternate_exchange="amq.fanout")
    bind(topology, binding("x", "queue", "a.#"))
    bind(topology, binding("amq.fanout", "rest"))
    restored = Topology()
    restored.restore(topology.snapshot())
    assert restored.rows() == topology.rows()
    assert routed(restored, "x", "a.b") == {"queue"}
    assert routed(restored, "x", "c") == {"rest"}
    assert restored.bindings_to(HOST, BindingTarget(False, "queue")) == topology.bindings_to(
        HOST, BindingTarget(False, "queue")
    )
