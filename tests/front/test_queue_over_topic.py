"""A queue over a topic is another door to its messages: who reads or writes there needs the permission for both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import RULE_KIND, AccessAction, AccessRule, Kind, Pattern, encode_rule
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.front.guard import AccessGuard
from longhall.front.identity import USER_KIND
from longhall.front.permissions import AccessRefused, Need, RequestOrigin
from longhall.queues.messages import QueueView
from longhall.queues.settings import QueueSettings
from longhall.service import queue_operations as queues

EVE = Caller("eve", "127.0.0.1", "default", USER_KIND)
ORIGIN = RequestOrigin("127.0.0.1", False, 1_000)
OWN = AccessRule(subject="user:eve", action=AccessAction.ALL, kind=Kind.QUEUE, name="eve-", pattern=Pattern.PREFIX)


def _guard(*rules: AccessRule, policy: str = "") -> AccessGuard:
    """Eve may do everything with her queues; `eve-over` is over the topic `prices`."""
    put = [DirectoryEntry(RULE_KIND, str(number), encode_rule(rule)) for number, rule in enumerate((OWN, *rules))]
    directory = Directory()
    directory.apply(DirectoryChanged(put=put, removed=[]))
    settings = QueueSettings(door={"Policy": policy}) if policy else QueueSettings()
    views = {
        "eve-over": QueueView(name="eve-over", queue_id="01", settings=QueueSettings(), topic="prices"),
        "eve-own": QueueView(name="eve-own", queue_id="02", settings=settings),
    }
    return AccessGuard(directory, lambda: 1_000, views.get, authenticates=lambda: True)


def _topic(action: AccessAction, *, allow: bool = True) -> AccessRule:
    return AccessRule(subject="user:eve", action=action, kind=Kind.TOPIC, name="prices", allow=allow)


WRITES: list[Any] = [queues.SendMessages("eve-over", []), queues.StartMove("eve-own", "eve-over", 0)]
READS: list[Any] = [queues.ReceiveMessages("eve-over", 1), queues.PeekMessages("eve-over", 1)]


@pytest.mark.parametrize("operation", [*WRITES, *READS], ids=lambda one: type(one).__name__)
def test_the_permission_for_the_topic_is_needed_too(operation: Any) -> None:
    needed = AccessAction.WRITE if operation in WRITES else AccessAction.READ
    other = AccessAction.READ if operation in WRITES else AccessAction.WRITE
    for rules in ((), (_topic(other),), (_topic(AccessAction.ALL), _topic(needed, allow=False))):
        with pytest.raises(AccessRefused):
            _guard(*rules).check(operation, EVE)
    _guard(_topic(needed)).check(operation, EVE)


def test_the_topic_is_named_to_those_who_may_see_it_only() -> None:
    with pytest.raises(AccessRefused, match="'eve-over'"):
        _guard().check(WRITES[0], EVE)
    with pytest.raises(AccessRefused, match="'prices'"):
        _guard(_topic(AccessAction.DESCRIBE)).check(WRITES[0], EVE)


def test_the_cursor_is_its_owners() -> None:
    guard = _guard()
    guard.check(queues.PurgeQueue("eve-over"), EVE)
    guard.check(queues.DescribeQueue("eve-over"), EVE)
    guard.check(queues.SendMessages("eve-own", []), EVE)


def test_what_is_not_known_here_is_named_after_a_check() -> None:
    guard = _guard()
    guard.check(queues.SendMessages("eve-elsewhere", []), EVE)
    assert list(guard.unseen) == ["eve-elsewhere"]
    guard.check_describe("eve-other", EVE)
    assert list(guard.unseen) == ["eve-elsewhere"], "others leave no traces"
    guard.check(queues.SendMessages("eve-own", []), EVE)
    assert not guard.unseen


@pytest.mark.parametrize("effect", ["Allow", "Deny"])
def test_explanations_know_the_policy_of_a_queue(effect: str) -> None:
    statement = {"Effect": effect, "Principal": "*", "Action": "sqs:*", "Resource": "*"}
    guard = _guard(policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    user = "bob" if effect == "Allow" else "eve"
    found = guard.explain(user, Need(AccessAction.WRITE, Kind.QUEUE, "eve-own"), ORIGIN)
    assert found.allowed is (effect == "Allow")
    assert "the policy of queue 'eve-own'" in found.reason


def test_explanations_know_the_topic_of_a_queue() -> None:
    found = _guard().explain("eve", Need(AccessAction.WRITE, Kind.QUEUE, "eve-over"), ORIGIN)
    assert not found.allowed
    assert found.reason == "the queue is over the topic 'prices': no rule allows it"
    assert _guard().explain("eve", Need(AccessAction.DELETE, Kind.QUEUE, "eve-over"), ORIGIN).allowed
