"""Decisions on permission: denies win, actions imply others, conditions hold or not, and the cache never lies."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.directory.access_rules import (
    AccessAction,
    AccessRule,
    Kind,
    Pattern,
    check_rule,
    decode_rule,
    encode_rule,
    rule_id,
)
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.front.permissions import ALLOWED_BY, DENIED_BY, AccessModel, Need, RequestOrigin
from longhall.front.roles import ROLES

HERE = RequestOrigin("10.1.2.3", False, 1_000)


def _rule(subject: str, action: str, resource: str, **more: object) -> AccessRule:
    kind, _, name = resource.partition(":")
    pattern = Pattern.PREFIX if name.endswith("*") and name != "*" else Pattern.LITERAL
    name = name[:-1] if pattern is Pattern.PREFIX else name
    fields: dict[str, object] = {"pattern": pattern, **more}
    return AccessRule(subject=subject, action=AccessAction(action), kind=Kind(kind), name=name, **fields)  # type: ignore[arg-type]


def _may(
    rules: list[AccessRule], action: str, resource: str, user: str = "ann", origin: RequestOrigin = HERE, **roles: str
) -> bool:
    model = AccessModel()
    model.load(rules, {name: (role,) for name, role in roles.items()})
    kind, _, name = resource.partition(":")
    return model.permissions(user).allows(Need(AccessAction(action), Kind(kind), name), origin)


def test_what_no_rule_allows_is_refused() -> None:
    assert not _may([], "read", "topic:orders")
    assert _may([_rule("user:ann", "read", "topic:orders")], "read", "topic:orders")
    assert not _may([_rule("user:ann", "read", "topic:orders")], "write", "topic:orders")
    assert not _may([_rule("user:bob", "read", "topic:orders")], "read", "topic:orders")


def test_any_deny_wins() -> None:
    allow = _rule("user:ann", "all", "topic:*")
    for subject in ("user:ann", "*", "role:producer"):
        for name in ("orders", "ord*", "*"):
            rules = [allow, _rule(subject, "write", f"topic:{name}", allow=False)]
            assert not _may(rules, "write", "topic:orders", ann="producer"), (subject, name)
            assert _may(rules, "read", "topic:orders", ann="producer"), "only what is named is denied"


def test_no_rule_locks_an_administrator_out() -> None:
    rules = [_rule("*", "all", "topic:*", allow=False), _rule("user:ann", "all", "cluster:*", allow=False)]
    assert _may(rules, "read", "topic:orders", ann="administrator")
    assert _may(rules, "alter", "cluster:kafka-cluster", ann="administrator")
    assert not _may(rules, "read", "topic:orders", ann="operator")


@pytest.mark.parametrize("action", ["read", "write", "delete", "alter"])
def test_who_may_act_may_describe(action: str) -> None:
    assert _may([_rule("user:ann", action, "group:g")], "describe", "group:g")
    assert not _may([_rule("user:ann", action, "group:g")], "describe-configs", "group:g")


def test_configure_is_what_rabbitmq_means() -> None:
    rules = [_rule("user:ann", "configure", "queue:q")]
    assert all(_may(rules, action, "queue:q") for action in ("create", "delete", "alter", "describe", "alter-configs"))
    assert not _may(rules, "read", "queue:q")
    assert not _may(rules, "write", "queue:q")


def test_a_queue_and_its_topic_are_one_resource() -> None:
    rules = [_rule("user:ann", "all", "topic:*"), _rule("*", "read", "queue:orders", allow=False)]
    assert not _may(rules, "read", "topic:orders")
    assert not _may(rules, "read", "queue:orders")
    assert _may(rules, "read", "queue:bills")


def test_somebody_without_a_name_has_the_rules_for_everyone_only() -> None:
    assert _may([_rule("*", "read", "topic:news")], "read", "topic:news", user="")
    assert not _may([_rule("user:", "read", "topic:news")], "read", "topic:news", user="")


def test_conditions_hold_for_one_request_and_not_for_the_next() -> None:
    office = _rule("user:ann", "read", "topic:t", addresses=("10.0.0.0/8", "2001:db8::/32"))
    assert _may([office], "read", "topic:t", origin=RequestOrigin("10.9.9.9", False, 0))
    assert _may([office], "read", "topic:t", origin=RequestOrigin("::ffff:10.9.9.9", False, 0))
    assert _may([office], "read", "topic:t", origin=RequestOrigin("2001:db8::1", False, 0))
    assert not _may([office], "read", "topic:t", origin=RequestOrigin("11.0.0.1", False, 0))
    assert not _may([office], "read", "topic:t", origin=RequestOrigin("", False, 0))
    sealed = [_rule("user:ann", "read", "topic:t"), _rule("*", "all", "topic:*", allow=False, tls=False)]
    assert _may(sealed, "read", "topic:t", origin=RequestOrigin("", True, 0))
    assert not _may(sealed, "read", "topic:t", origin=RequestOrigin("", False, 0))
    brief = [_rule("user:ann", "read", "topic:t", from_ms=100, until_ms=200)]
    assert [_may(brief, "read", "topic:t", origin=RequestOrigin("", False, at)) for at in (99, 100, 199, 200)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_pattern_sees_the_names_of_its_virtual_host_alone() -> None:
    rules = [_rule("user:ann", "read", "queue:^shop", pattern=Pattern.REGEX, host="eu")]
    assert _may(rules, "read", f"queue:{hall_name('eu', 'shop/1')}")
    assert not _may(rules, "read", f"queue:{hall_name('eu', 'a-shop')}")
    assert not _may(rules, "read", f"queue:{hall_name('/', 'shop')}")
    assert not _may([_rule("user:ann", "read", "queue:", pattern=Pattern.REGEX, host="eu")], "read", "queue:x")
    model = AccessModel()
    model.load(rules, {})
    assert model.permissions("ann").may_enter("eu")
    assert not model.permissions("ann").may_enter("us")


def test_explanations_name_the_rules() -> None:
    deny = _rule("*", "write", "topic:orders", allow=False)
    office = _rule("user:ann", "read", "topic:orders", addresses=("192.168.0.0/16",))
    model = AccessModel()
    model.load([deny, office, _rule("user:ann", "write", "topic:*")], {"root": ("administrator",)})
    ann = model.permissions("ann")
    assert ann.explain(Need(AccessAction.WRITE, Kind.TOPIC, "orders"), HERE).rules == [deny]
    read = ann.explain(Need(AccessAction.READ, Kind.TOPIC, "orders"), HERE)
    assert not read.allowed
    assert read.rules == [office]
    assert "conditions" in read.reason
    assert ann.explain(Need(AccessAction.DELETE, Kind.TOPIC, "orders"), HERE).reason == "no rule allows it"
    assert model.permissions("root").explain(Need(AccessAction.DELETE, Kind.TOPIC, "orders"), HERE).allowed


def test_an_idempotent_producer_needs_to_write_to_some_topic() -> None:
    model = AccessModel()
    model.load([_rule("user:ann", "write", "topic:a"), _rule("user:bob", "read", "topic:a")], {})
    assert model.permissions("ann").allows_some(AccessAction.WRITE, Kind.TOPIC, HERE)
    assert not model.permissions("bob").allows_some(AccessAction.WRITE, Kind.TOPIC, HERE)
    model.load([_rule("user:ann", "write", "topic:a"), _rule("*", "write", "topic:*", allow=False)], {})
    assert not model.permissions("ann").allows_some(AccessAction.WRITE, Kind.TOPIC, HERE)


_rules = st.builds(
    lambda subject, action, name, allow, tls: _rule(subject, action, f"topic:{name}", allow=allow, tls=tls),
    st.sampled_from(["user:ann", "role:r", "*", "user:bob"]),
    st.sampled_from([str(action) for action in AccessAction]),
    st.sampled_from(["a", "ab", "a*", "b*", "*"]),
    st.booleans(),
    st.sampled_from([None, True, False]),
)


@given(st.lists(_rules, max_size=8), st.sampled_from(sorted(AccessAction)), st.sampled_from(["a", "ab", "abc", "b"]))
def test_compiled_decisions_are_those_of_the_definition(
    rules: list[AccessRule], action: AccessAction, name: str
) -> None:
    model = AccessModel()
    model.load(rules, {"ann": ("r",)})
    for tls in (True, False, True):  # The second and third decisions come from what is remembered.
        held = [
            rule
            for rule in rules
            if rule.subject != "user:bob"
            and rule.tls in (None, tls)
            and fnmatch.fnmatchcase(name, rule.name + ("*" if rule.pattern is Pattern.PREFIX else ""))
        ]
        denied = any(not rule.allow and rule.action in DENIED_BY[action] for rule in held)
        expected = not denied and any(rule.allow and rule.action in ALLOWED_BY[action] for rule in held)
        origin = RequestOrigin("", tls, 0)
        assert model.permissions("ann").allows(Need(action, Kind.TOPIC, name), origin) is expected
        assert model.permissions("ann").explain(Need(action, Kind.TOPIC, name), origin).allowed is expected


@pytest.mark.parametrize(
    "rule",
    [
        _rule("ann", "read", "topic:t"),
        _rule("user:", "read", "topic:t"),
        _rule("user:ann", "read", "topic:"),
        _rule("user:ann", "read", "topic:" + "t" * 250),
        _rule("user:ann", "read", "topic:(", pattern=Pattern.REGEX),
        _rule("user:ann", "read", "cluster:other"),
        _rule("user:ann", "read", "topic:t", addresses=("10.0.0.0/99",)),
        _rule("user:ann", "read", "topic:t", from_ms=10, until_ms=10),
        _rule("user:ann", "read", "topic:t", host="eu"),
    ],
)
def test_rules_that_mean_nothing_are_refused(rule: AccessRule) -> None:
    with pytest.raises(LonghallError) as refused:
        check_rule(rule)
    assert refused.value.code is Code.INVALID_REQUEST


def test_rules_are_stored_by_what_they_say() -> None:
    rule = _rule("user:ann", "read", "topic:t*", addresses=("10.0.0.0/8",), tls=True)
    assert decode_rule(encode_rule(rule)) == rule
    assert rule_id(rule) == rule_id(_rule("user:ann", "read", "topic:t*", addresses=("10.0.0.0/8",), tls=True))
    assert rule_id(rule) != rule_id(_rule("user:ann", "read", "topic:t"))
    assert decode_rule(b"\x80") is None


def test_roles_that_every_installation_has() -> None:
    for name, rules in ROLES.items():
        for rule in rules:
            check_rule(rule)
            assert rule.subject == f"role:{name}"
            assert rule.allow
    assert not _may([], "read", "topic:t", ann="operator")
    assert not _may([], "alter", "cluster:*", ann="operator")
    assert _may([], "delete", "topic:t", ann="operator")
    assert _may([], "write", "topic:t", ann="producer")
    assert not _may([], "read", "topic:t", ann="producer")
    assert _may([], "read", "group:g", ann="consumer")
    assert not _may([], "write", "topic:t", ann="consumer")
    assert _may([], "describe", "topic:t", ann="viewer")
    assert not _may([], "read", "topic:t", ann="viewer")
