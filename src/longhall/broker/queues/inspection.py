"""Messages as operators see them: reads that lease nothing, and edits of single messages."""

from __future__ import annotations

from typing import final

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.letters import Attributes, edit_letter, letter, letters
from longhall.broker.queues.delivery.browse import Sought, browse
from longhall.broker.queues.write import served_queue
from longhall.queues.messages import Letter, LetterPage, Page


@final
class QueueInspection:
    """The messages of the queues that this process leads. A position is that of the page before."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def peek(self, name: str, count_max: int, from_offset: int | str = "", settled: bool = False) -> Page:
        """Messages with their state; `settled` includes settled messages."""
        return await self._browse(name, Sought(settled=settled), count_max, from_offset)

    async def leased(self, name: str, count_max: int, from_offset: int | str = "") -> Page:
        """The messages that are leased now."""
        return await self._browse(name, Sought(leased=True), count_max, from_offset)

    async def search(
        self,
        name: str,
        filter: str = "",
        text: str = "",
        from_ms: int = 0,
        until_ms: int = 0,
        count_max: int = 100,
        from_offset: int | str = "",
        settled: bool = False,
    ) -> Page:
        """The messages that match: by attributes, by a text in their bodies, by the time of their send."""
        return await self._browse(name, Sought(filter, text, from_ms, until_ms, settled), count_max, from_offset)

    async def _browse(self, name: str, sought: Sought, count_max: int, from_offset: int | str) -> Page:
        return await browse(self._hall, served_queue(self._hall, name), sought, count_max, from_offset)

    async def letters(self, name: str, count_max: int = 100, from_: str = "") -> LetterPage:
        """The messages of a queue, each with the history of its dead-lettering."""
        return await letters(self._hall, served_queue(self._hall, name), count_max, from_)

    async def letter(self, name: str, message_id: str) -> Letter:
        """One of these messages. UNKNOWN_MESSAGE if the queue does not have it."""
        return await letter(self._hall, served_queue(self._hall, name), message_id)

    async def edit_letter(
        self,
        name: str,
        message_id: str,
        body: bytes | None = None,
        attributes: Attributes | None = None,
        seal: bytes = b"",
    ) -> Letter:
        """Replace the body of a message, its attributes (all of them) or both. MESSAGE_LEASED while it is leased."""
        return await edit_letter(self._hall, served_queue(self._hall, name), message_id, body, attributes, seal)
