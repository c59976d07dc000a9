"""The batching of a producer by the profile of its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.client.producer import Options
from longhall.client.refusals import Refused
from longhall.errors import Code
from longhall.records.profiles import batching_of

if TYPE_CHECKING:
    from longhall.client.hall import Hall


async def with_profile(hall: Hall, topic: str, options: Options, linger_ms: int | None = None) -> Options:
    """The options with the batching that the topic asks for; `linger_ms` overrides its part of it.

    A topic that does not exist yet has the defaults, and so has one of another broker, which knows no profiles.
    """
    try:
        settings = await hall.topics.settings(topic)
    except Refused as refusal:
        if refusal.code is not Code.UNKNOWN_TOPIC:
            raise
        settings = ()
    batching = batching_of({setting.name: setting.value for setting in settings if setting.value is not None})
    linger_ms = batching.linger_ms if linger_ms is None else linger_ms
    return options._replace(linger_ms=linger_ms, batch_bytes_max=batching.batch_bytes_max)
