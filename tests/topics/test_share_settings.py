"""The configuration of share groups: every setting, its bounds and its default."""

from __future__ import annotations

import pytest

from longhall.errors import Code, LonghallError
from longhall.topics.share_settings import SETTINGS, ShareSettings, check_share_configuration, duration_ms


def test_the_defaults_are_legal() -> None:
    check_share_configuration({name: setting.default for name, setting in SETTINGS.items()})
    settings = ShareSettings({})
    assert (settings.auto_offset_reset, settings.lock_ms, settings.delivery_count_limit) == ("latest", 30_000, 5)
    assert settings.reads_uncommitted
    assert not settings.lock_given


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "yesterday"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.isolation.level", "serializable"),
        ("share.record.lock.duration.ms", "999"),
        ("share.record.lock.duration.ms", "soon"),
        ("share.delivery.count.limit", "1"),
        ("share.partition.max.record.locks", "10001"),
        ("share.heartbeat.interval.ms", "-5"),
        ("share.session.timeout.ms", "5000"),
        ("share.renew.acknowledge.enable", "yes"),
    ],
)
def test_illegal_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(LonghallError) as refusal:
        check_share_configuration({name: value})
    assert refusal.value.code is Code.INVALID_CONFIGURATION
    assert name in str(refusal.value)


def test_durations() -> None:
    assert duration_ms("by_duration:PT1H30M") == 5_400_000
    assert duration_ms("by_duration:P2DT3S") == 172_803_000
    assert duration_ms("by_duration:PT0.5S") == 0
    assert duration_ms("by_duration:1h") is None
    assert duration_ms("earliest") is None
