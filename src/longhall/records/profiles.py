"""Profiles of a topic or queue: one word that sets the batching of its producers, of the broker and of its consumers.

    profile       producers wait, and send     the broker gathers for a reader      what it is for
    balanced      5 ms, 512 KiB                nothing: it answers at once          the default
    throughput    50 ms, 960 KiB               64 KiB, or what comes within 50 ms   many messages at the least cost
    latency       0 ms, 64 KiB                 nothing                              each message as soon as possible

The broker gathers for every reader of the log and every receiver of the queue that is ready to wait. Producers and
consumers of Longhall take their part from the topic's configuration; other clients have settings of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

PROFILE: Final = "longhall.profile"
LINGER_MS: Final = "longhall.producer.linger.ms"
BATCH_BYTES: Final = "longhall.producer.batch.bytes"
GATHER_BYTES: Final = "longhall.gather.bytes"
GATHER_MS: Final = "longhall.gather.ms"
BY_PROFILE: Final = -1  # The value of the profile.

BALANCED: Final = "balanced"


class Batching(NamedTuple):
    """The batching of one topic."""

    linger_ms: int  # How long a producer waits for more messages of a batch,
    batch_bytes_max: int  # and the size at which it sends at once.
    gather_bytes: int  # The broker answers a reader that can wait when it has this much,
    gather_ms: int  # or this long after it has something.


PROFILES: Final = {
    BALANCED: Batching(5, 512 * 1024, 0, 0),
    "throughput": Batching(50, 960 * 1024, 64 * 1024, 50),
    "latency": Batching(0, 64 * 1024, 0, 0),
}


def batching_of(values: Mapping[str, str]) -> Batching:
    """The batching that a topic's configuration asks for: its own values, else those of its profile."""
    chosen = PROFILES.get(values.get(PROFILE, BALANCED), PROFILES[BALANCED])
    own = [int(values.get(name, BY_PROFILE)) for name in (LINGER_MS, BATCH_BYTES, GATHER_BYTES, GATHER_MS)]
    return Batching(*[one if one != BY_PROFILE else default for one, default in zip(own, chosen, strict=True)])
