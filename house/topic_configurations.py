"""docs/topic-configurations.md, generated: every configuration of a topic, its effect, and the test that shows it.

    python -m house.topic_configurations     writes the page

A test fails when the page is not what this module makes, when a configuration with an effect has no test here, and when
a test that is named here does not exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from longhall.broker.configuration import READ_ONLY, SETTINGS
from longhall.broker.options import HallOptions

PAGE: Final = Path("docs/topic-configurations.md")
_CONFIGURATION: Final = "tests/broker/test_configuration.py"
_CLEANER: Final = "tests/broker/test_log_cleaner.py"
_WHEN: Final = f"{_CLEANER}::test_what_is_compacted_and_when"
_CODEC: Final = f"{_CONFIGURATION}::test_batches_are_compressed_with_the_topics_codec_and_level"
_TIMES: Final = f"{_CONFIGURATION}::test_timestamps_are_checked_or_replaced"
_OLD: Final = f"{_CONFIGURATION}::test_old_messages_are_removed"
_PROFILES: Final = "tests/broker/test_profiles.py"
_PRODUCERS: Final = "tests/client/test_producer.py"
_PLACED: Final = "tests/doors/kafka/test_in_a_wing.py::test_a_wing_serves_its_own_lane_and_no_other"
_REUSE: Final = "tests/front/sealing/test_data_keys.py::test_a_key_is_asked_for_again_after_the_reuse_period"

TESTS: Final[dict[str, str]] = {
    "cleanup.policy": f"{_CLEANER}::test_without_a_policy_everything_is_kept",
    "compression.type": _CODEC,
    "compression.gzip.level": _CODEC,
    "compression.lz4.level": _CODEC,
    "compression.zstd.level": _CODEC,
    "delete.retention.ms": f"{_CLEANER}::test_tombstones_stay_for_the_time_that_the_topic_says",
    "max.message.bytes": f"{_CONFIGURATION}::test_a_batch_may_be_too_large",
    "message.timestamp.type": _TIMES,
    "message.timestamp.before.max.ms": _TIMES,
    "message.timestamp.after.max.ms": _TIMES,
    "min.cleanable.dirty.ratio": _WHEN,
    "min.compaction.lag.ms": _WHEN,
    "max.compaction.lag.ms": f"{_CLEANER}::test_the_longest_lag_compacts_a_quiet_partition",
    "min.insync.replicas": f"{_CONFIGURATION}::test_a_topic_asks_for_as_many_replicas_in_sync_as_it_needs",
    "retention.bytes": _OLD,
    "retention.ms": _OLD,
    "segment.bytes": _OLD,
    "segment.ms": f"{_CLEANER}::test_a_segment_is_closed_at_its_age",
    "segment.jitter.ms": f"{_CLEANER}::test_jitter_closes_segments_earlier_and_at_different_times",
    "longhall.durability": "tests/broker/test_commits.py",
    "longhall.acknowledge": "tests/cluster/test_acknowledging.py",
    "longhall.placement": _PLACED,
    "longhall.wings": _PLACED,
    "longhall.moves": "tests/cluster/placement/test_partition_mover.py",
    "longhall.archive": "tests/broker/test_archive_hold.py",
    "longhall.sealed": "tests/clients/sealed/test_doors.py::test_a_topic_is_sealed_batch_by_batch",
    "longhall.seal.reuse.ms": _REUSE,
    "longhall.seal.keys": "tests/broker/test_sealing.py::test_data_keys_are_not_for_users_to_set",
    "longhall.profile": f"{_PROFILES}::test_the_profile_decides_how_many_batches_a_reader_gets",
    "longhall.gather.bytes": f"{_PROFILES}::test_each_part_of_a_profile_can_be_tuned",
    "longhall.gather.ms": f"{_PROFILES}::test_each_part_of_a_profile_can_be_tuned",
    "longhall.producer.linger.ms": f"{_PRODUCERS}::test_the_profile_decides_how_many_batches_a_producer_sends",
    "longhall.producer.batch.bytes": f"{_PRODUCERS}::test_the_profile_decides_how_many_batches_a_producer_sends",
    "longhall.quota.bytes.per.second": "tests/doors/kafka/test_quotas.py",
    "longhall.quota.messages.per.second": "tests/broker/queues/sending/test_batch_send.py",
}

_HEAD: Final = """# Configurations of a topic

`house/topic_configurations.py` generates this page from the table in `broker/configuration.py`; a test compares them.
Every configuration is set through CreateTopics, AlterConfigs and IncrementalAlterConfigs of any Kafka client, with
`longhall topic`, and in every placement: a lone node, a cluster, workers, wings. Values are checked, and a wrong one is
refused with INVALID_CONFIG.
"""


def page() -> str:
    """The whole page."""
    options = HallOptions()
    effective: list[str] = []
    without: list[str] = []
    for name, setting in sorted(SETTINGS.items()):
        default = f"`{setting.default(options)}`" if setting.default(options) else "empty"
        if setting.no_effect:
            without.append(f"| `{name}` | {default} | {setting.meaning} | {setting.no_effect} |")
        else:
            meaning = setting.meaning + (" Not for users to set." if name in READ_ONLY else "")
            effective.append(f"| `{name}` | {default} | {meaning} | `{TESTS[name]}` |")
    return "\n".join(
        [
            _HEAD,
            "## With an effect",
            "",
            "| configuration | default | effect | test |",
            "|---|---|---|---|",
            *effective,
            "",
            "## Without an effect",
            "",
            "These belong to Kafka and have no meaning here. They are accepted, checked, stored and shown, because",
            "tools set them without being asked.",
            "",
            "| configuration | default | in Kafka | why it changes nothing |",
            "|---|---|---|---|",
            *without,
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
