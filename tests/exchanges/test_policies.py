"""Policies: which one holds, what is refused, and that alternate exchanges follow them."""

from __future__ import annotations

from typing import Any

import pytest

from longhall.errors import LonghallError
from longhall.exchanges.events import BindingAdded, ExchangeDeclared, PolicyRemoved, PolicySet
from longhall.exchanges.patterns import compile_pattern
from longhall.exchanges.policies import Policies, check_policy
from longhall.exchanges.topology import NO_HEADERS, Topology


def policy(name: str, pattern: str = ".*", priority: int = 0, apply_to: str = "queues", **other: Any) -> PolicySet:
    definition = other.pop("definition", {"max-length": 1})
    return PolicySet(
        host="/", name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition=definition, **other
    )


def test_only_the_matching_policy_of_the_highest_priority_holds() -> None:
    policies = Policies()
    for one in (
        policy("low", "^orders"),
        policy("high", "^orders\\.", 7),
        policy("quorum", "orders", 9, "quorum_queues"),
        policy("bound", "^orders", operator=True),
        policy("exchanges", "orders", 99, "exchanges", definition={"alternate-exchange": "lost"}),
    ):
        policies.apply(one)

    def holds(name: str, kind: str = "classic", operator: bool = False) -> str:
        found = policies.of_queue(operator, "/", name, kind)
        return found.name if found is not None else ""

    assert [holds("orders"), holds("orders.eu"), holds("orders.eu", "quorum"), holds("other")] == [
        "low",
        "high",
        "quorum",
        "",
    ]
    assert holds("orders.eu", operator=True) == "bound"
    assert policies.of_queue(False, "elsewhere", "orders", "classic") is None
    policies.apply(PolicyRemoved(host="/", name="high"))
    assert holds("orders.eu") == "low"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (policy("p", definition={}), "empty"),
        (policy("p", definition={"max-priority": 3}), "no effect"),
        (policy("p", definition={"ha-mode": "exactly"}), "one of all"),
        (policy("p", definition={"max-length": "3"}), "integer"),
        (policy("p", definition={"max-length": True}), "integer"),
        (policy("p", definition={"overflow": "drop"}), "one of"),
        (policy("p", definition={"alternate-exchange": "x"}), "setting of exchanges"),
        (policy("p", definition={"dead-letter-routing-key": "x"}), "needs a dead-letter-exchange"),
        (policy("p", apply_to="exchanges"), "no setting of exchanges"),
        (policy("p", apply_to="streams"), "streams"),
        (policy("p", apply_to="everything"), "apply-to"),
        (policy("p", "("), "no regular expression"),
        (policy("p", operator=True, definition={"dead-letter-exchange": "x"}), "no effect"),
        (policy("p", operator=True, apply_to="exchanges", definition={"max-length": 1}), "operator"),
    ],
)
def test_what_a_policy_cannot_do_is_refused_with_the_reason(wrong: PolicySet, why: str) -> None:
    with pytest.raises(LonghallError, match=why):
        check_policy(wrong)


@pytest.mark.parametrize("slow", ["(a+)+$", "(.*)*", "(a|a*)+b", "a*b*c*d*e", r"(a)\1", "x" * 2000, "(?:a{1,999}){9}b"])
def test_a_pattern_that_could_take_forever_is_refused(slow: str) -> None:
    with pytest.raises(LonghallError):
        compile_pattern(slow)


@pytest.mark.parametrize("usual", [".*", "^(?!amq\\.).*", "^celery", "^(orders|payments)\\..*$", "[a-z]+-[0-9]{1,3}$"])
def test_the_usual_patterns_are_taken(usual: str) -> None:
    assert compile_pattern(usual).search("orders.eu-12") is not None or usual == "^celery"


def test_the_alternate_exchange_of_a_policy_holds_until_it_goes_and_yields_to_the_declared_one() -> None:
    topology = Topology()
    for name, kind in (("source", "direct"), ("lost", "fanout")):
        topology.apply(
            ExchangeDeclared(
                host="/", name=name, kind=kind, durable=True, auto_delete=False, internal=False, arguments=b""
            )
        )
    topology.apply(BindingAdded(host="/", source="lost", to_exchange=False, destination="q", key="", arguments=b""))

    def routed() -> object:
        return topology.route("/", "source", ["k"], NO_HEADERS, lambda name: True)

    assert routed() == ()
    topology.apply(policy("p", "^source$", apply_to="exchanges", definition={"alternate-exchange": "lost"}))
    assert routed() == ("q",)
    again = Topology()
    again.restore(topology.snapshot())
    assert again.rows() == topology.rows()
    assert again.route("/", "source", ["k"], NO_HEADERS, lambda name: True) == ("q",)
    topology.apply(PolicyRemoved(host="/", name="p"))
    assert routed() == ()
