"""The topics of a hall as consumer groups with server-side assignment see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from longhall.broker.hall import Hall
from longhall.topics.assignors import SubscribedTopic


@final
class HallTopics:
    """A `TopicCatalogue`: what clients see of the topics of a hall, wherever their partitions are led."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    @property
    def version(self) -> int:
        return self._hall.topics_version

    def find(self, name: str) -> SubscribedTopic | None:
        route = self._hall.shown(name)
        return SubscribedTopic(route[0].topic_id, name, len(route)) if route else None

    def names(self) -> Iterable[str]:
        return self._hall.routes.keys()
