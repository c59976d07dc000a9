"""Queues in the exposition: the names that dashboards will look for."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from longhall.console.families import HallFamilies
from longhall.console.metrics import Registry
from longhall.console.sources import QueueStatus
from tests.console.fake_hall import FakeClock, FakeHall


async def scraped(hall: FakeHall) -> dict[tuple[str, str, str], float]:
    registry = Registry()
    HallFamilies(hall, FakeClock()).register(registry)
    text = (await registry.render()).decode()
    return {
        (
            sample.name,
            sample.labels["queue"],
            sample.labels.get("reason") or sample.labels.get("fate", ""),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("longhall_queue_")
    }


async def test_every_queue_has_its_numbers() -> None:
    samples = await scraped(FakeHall())
    assert samples["longhall_queue_messages_ready", "jobs", ""] == 5
    assert samples["longhall_queue_messages_in_flight", "jobs", ""] == 2
    assert samples["longhall_queue_messages_delayed", "jobs", ""] == 1
    assert samples["longhall_queue_messages", "jobs", ""] == 8
    assert samples["longhall_queue_oldest_message_age_seconds", "jobs", ""] == 1.5
    assert samples["longhall_queue_messages_sent_total", "jobs", ""] == 9
    assert samples["longhall_queue_deliveries_total", "jobs", ""] == 3
    assert samples["longhall_queue_leases_outlived_total", "jobs", ""] == 1
    assert samples["longhall_queue_dead_letters_total", "jobs", "attempts"] == 2
    assert samples["longhall_queue_dead_letters_total", "jobs", "expired"] == 1
    assert samples["longhall_queue_fates_total", "jobs", "settled"] == 4
    assert samples["longhall_queue_fates_lost_total", "jobs", ""] == 2
    assert samples["longhall_queue_paused", "idle", ""] == 1
    assert samples["longhall_queue_dead_letters_total", "idle", "attempts"] == 0
    assert samples["longhall_queue_messages_settled_total", "idle", ""] == 0


async def test_a_name_may_hold_anything() -> None:
    hall = FakeHall()
    hall.queue_list = [QueueStatus('a"b\\c\n', 1, 0, 0, 0, 0.0, False, 0, 0, 0, {"length": 4})]
    samples = await scraped(hall)
    assert samples["longhall_queue_messages_ready", 'a"b\\c\n', ""] == 1
    assert samples["longhall_queue_dead_letters_total", 'a"b\\c\n', "length"] == 4
