"""Where things go whose creator named no placement: the table of the rule, row by row."""

from __future__ import annotations

import pytest

from longhall.broker import default_placement as rule
from longhall.broker.default_placement import GroupFeature, default_placement, groups_support, lanes_of
from longhall.broker.topic_administration import configure_topic, create_topic
from longhall.cluster.placement.placement_rules import check_queue
from longhall.queues.settings import AmqpSettings, DeadLetters, DeliveryHours, QueueSettings, RetryPolicy
from tests.broker.desk import Desk, Life
from tests.broker.test_topic_placement import wings_of

LETTERS = DeadLetters(queue="dead")
PLAIN = AmqpSettings(host="/", name="q")
HALL, SHARE, PARTS = "hall", "share", "parts"

ALL = frozenset(GroupFeature)
NONE: frozenset[GroupFeature] = frozenset()

QUEUES: list[tuple[QueueSettings, str, str]] = [  # With the placements while groups lack every feature, and have all.
    (QueueSettings(), SHARE, SHARE),
    (QueueSettings(partitions=3), PARTS, PARTS),
    (QueueSettings(partitions=3, hours=DeliveryHours(from_minute=0, to_minute=60)), PARTS, PARTS),
    (QueueSettings(partitions=3, retry=RetryPolicy(first_ms=10)), PARTS, PARTS),
    (QueueSettings(partitions=3, fifo=True), SHARE, SHARE),
    (QueueSettings(partitions=3, fifo=True, deduplication="id", deduplication_scope="group"), PARTS, PARTS),
    (QueueSettings(partitions=3, deduplication="id"), SHARE, SHARE),
    (QueueSettings(partitions=3, deduplication="content"), SHARE, SHARE),
    (QueueSettings(partitions=3, priorities=5), SHARE, SHARE),
    (QueueSettings(partitions=3, messages_max=10), SHARE, SHARE),
    (QueueSettings(partitions=3, bytes_max=10_000), SHARE, SHARE),
    (QueueSettings(partitions=3, one_by_one=True), SHARE, SHARE),
    (QueueSettings(partitions=3, delivery="at-most-once"), SHARE, SHARE),
    (QueueSettings(partitions=3, late_stamped="head"), SHARE, SHARE),
    (QueueSettings(audit="deliveries"), HALL, SHARE),
    (QueueSettings(partitions=3, audit="deliveries"), HALL, SHARE),
    (QueueSettings(partitions=2, parts_max=8, messages_max=10), HALL, SHARE),
    (QueueSettings(amqp=PLAIN), HALL, SHARE),
    (QueueSettings(amqp=AmqpSettings(host="/", name="q", owner="session")), HALL, HALL),
    (QueueSettings(amqp=AmqpSettings(host="/", name="q", auto_delete=True)), HALL, HALL),
    (QueueSettings(amqp=AmqpSettings(host="/", name="q", expires_ms=1000)), HALL, HALL),
    (QueueSettings(amqp=AmqpSettings(host="/", name="q", letters_exchange="x")), HALL, HALL),
]


@pytest.mark.parametrize("row", QUEUES, ids=lambda row: str(row)[:80])
def test_a_queue_goes_where_all_its_rules_hold(row: tuple[QueueSettings, str, str]) -> None:
    settings, without, with_all = row
    for features, wanted in ((NONE, without), (ALL, with_all)):
        found = default_placement(3, settings.partitions, {}, settings, None, features.__contains__)
        assert found == wanted
        if found != HALL:  # The same settings with this placement in so many words are not refused.
            wings = tuple(range(1, 1 + lanes_of(found, settings.partitions)))
            check_queue(QueueSettings(**{**_fields(settings), "placement": found, "wings": wings}))  # type: ignore[arg-type]
        assert default_placement(1, settings.partitions, {}, settings, None, features.__contains__) == HALL


def _fields(settings: QueueSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def test_a_queue_is_with_its_dead_letters_until_they_move_between_groups() -> None:
    there = QueueSettings(placement=SHARE, wings=(7,))
    for hosts in (0, 3):
        dying = QueueSettings(partitions=3, dead_letters=LETTERS)
        assert default_placement(hosts, 3, {}, dying, there, NONE.__contains__) == SHARE
        assert default_placement(hosts, 3, {}, dying, QueueSettings(placement=HALL), NONE.__contains__) == HALL
    assert default_placement(3, 3, {}, dying, there, ALL.__contains__) == PARTS
    audited = QueueSettings(dead_letters=LETTERS, audit="deliveries")
    apart = QueueSettings(placement=PARTS, wings=(7, 8))
    follows = (ALL - {GroupFeature.DEAD_LETTERS}).__contains__
    assert default_placement(3, 1, {}, audited, there, follows) == SHARE
    assert default_placement(3, 1, {}, audited, apart, follows) == HALL  # An audit is in one group.
    chunked = QueueSettings(partitions=3, dead_letters=LETTERS, whole_bytes_max=1 << 20)
    assert default_placement(3, 3, {}, chunked, there, ALL.__contains__) == SHARE
    assert default_placement(3, 3, {}, dying, None, NONE.__contains__) == PARTS  # There is no such queue yet.


@pytest.mark.parametrize(
    ("partitions", "configuration", "wanted"),
    [
        (1, {}, SHARE),
        (6, {}, PARTS),
        (6, {"cleanup.policy": "compact"}, PARTS),
        (6, {"longhall.archive": "required"}, PARTS),
        (6, {"longhall.quota.bytes.per.second": "1000"}, SHARE),
        (6, {"longhall.quota.messages.per.second": "-1"}, PARTS),
    ],
)
def test_a_topic_is_spread_when_groups_have_transactions(
    partitions: int, configuration: dict[str, str], wanted: str
) -> None:
    assert default_placement(3, partitions, configuration, supports=ALL.__contains__) == wanted
    assert default_placement(1, partitions, configuration, supports=ALL.__contains__) == HALL
    assert default_placement(3, partitions, configuration, supports=NONE.__contains__) == HALL


def test_a_topic_that_must_be_archived_stays_in_the_hall_while_groups_lack_archives() -> None:
    supports = (ALL - {GroupFeature.ARCHIVES}).__contains__
    assert default_placement(3, 6, {"longhall.archive": "required"}, supports=supports) == HALL
    assert default_placement(3, 6, {}, supports=supports) == PARTS


def test_the_constant_decides_what_groups_support(monkeypatch: pytest.MonkeyPatch) -> None:
    for feature in GroupFeature:
        monkeypatch.setattr(rule, "SUPPORTED", dict.fromkeys(ALL - {feature}, 4))
        assert [groups_support(one) for one in GroupFeature] == [one is not feature for one in GroupFeature]
        assert [groups_support(one, 3) for one in GroupFeature] == [False] * len(GroupFeature)


def test_a_topic_without_a_placement_is_created_in_wings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "SUPPORTED", dict.fromkeys(ALL, 3))

    async def play(life: Life) -> None:
        wings = wings_of(life)
        wings.spreads = True
        hall = life.hall
        found = {
            "usual": await create_topic(hall, "usual", -1, {}),
            "few": await create_topic(hall, "few", 2, {}),
            "many": await create_topic(hall, "many", 7, {}),
            "archived": await create_topic(hall, "archived", 7, {"longhall.archive": "required"}),
            "said": await create_topic(hall, "said", 7, {"longhall.placement": "hall"}),
            "assigned": await create_topic(hall, "assigned", 7, {}, copies_min=None),
            "copied": await create_topic(hall, "copied", 7, {}, copies_min=4),
        }
        assert {name: topic.options.wings for name, topic in found.items() if topic is not None} == {
            "usual": [3],
            "few": [3, 1],
            "many": [3, 1, 2],
            "archived": [3, 1, 2],
            "said": [],
            "assigned": [],
            "copied": [],
        }
        assert "choose" not in wings.asked, "nothing waits"
        assert wings.asked == ["furnish"] * 4
        assert await create_topic(hall, "checked", 3, {}, True) is None
        await configure_topic(hall, "usual", {"retention.ms": "5"})
        usual = hall.topic("usual")
        assert usual is not None
        assert usual.options.wings == [3]
        await configure_topic(hall, "usual", {"longhall.archive": "required"})
        assert usual.options.wings == [3]

    Desk().live(play)
