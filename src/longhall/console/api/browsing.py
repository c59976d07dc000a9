"""Browsing: peek, search and list leases without leasing; rewind and fork."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.messages import COUNT_MAX, FILTER_CHARACTERS_MAX, MessageOut, message_out
from longhall.console.api.queues import found, shape_of
from longhall.console.api.settings import Fields, understood_settings
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Page
from longhall.service.queue_operations import ForkQueue, ListLeases, PeekMessages, RewindQueue, SearchMessages

if TYPE_CHECKING:
    from longhall.service.router import Router

PEEK_MAX: Final = 1000  # Messages of one page; fewer if they are large.

_Moment = Annotated[int, Meta(ge=0)]
_Filter = Annotated[str, Meta(max_length=FILTER_CHARACTERS_MAX)]


class Peeking(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A peek: the number of messages, the start (`next` of the page before), and whether to show settled ones."""

    count: Annotated[int, Meta(ge=1, le=PEEK_MAX)] = 10
    after: str = ""
    settled: bool = False


class Searching(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A search. All given conditions must hold: a filter on attributes, a text in the body, the time sent."""

    filter: _Filter = ""
    text: str = ""
    from_ms: _Moment = 0
    until_ms: _Moment = 0
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 10
    after: str = ""
    settled: bool = False


class SeenOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message with its position and state."""

    lane: int
    offset: int
    state: str
    until_ms: int = 0
    message: MessageOut


class PageOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of messages; `next` is the start of the next page (`after`), if there is one."""

    messages: list[SeenOut]
    next: str = ""


class LeasePlace(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The number of leases, and the start (`next` of the page before)."""

    count: Annotated[int, Meta(ge=1, le=PEEK_MAX)] = 10
    after: str = ""


class LeaseOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A leased message, without its body."""

    message_id: str
    lane: int
    offset: int
    until_ms: int
    attempts: int = 0
    first_received_ms: int = 0
    sent_ms: int = 0
    group: str = ""


class LeasesOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of leases; it may be empty and still have a `next`."""

    leases: list[LeaseOut]
    next: str = ""


class Destination(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The start of a redelivery: a time, offsets by lane, or else the oldest retained message."""

    to_ms: _Moment | None = None
    offsets: dict[int, int] | None = None

    def place(self) -> str | int | dict[int, int]:
        """The destination as an operation has it."""
        if self.to_ms is not None and self.offsets is not None:
            raise LonghallError(Code.INVALID_REQUEST, "say either to_ms or offsets")
        if self.offsets is not None:
            return self.offsets
        return "start" if self.to_ms is None else self.to_ms


class Forking(Destination, kw_only=True, forbid_unknown_fields=True):
    """The same for a new queue over the same log; settings that are not given are those of the old queue."""

    name: Annotated[str, Meta(min_length=1, max_length=249)]
    settings: Fields = {}


async def peek_messages(service: Router, asked: Asked) -> Reply:
    """GET /queues/*/messages"""
    wish = asked.question(Peeking)
    operation = PeekMessages(asked.name, wish.count, wish.after, wish.settled)
    return Reply(_page(await service.call(operation, asked.caller)))


async def list_leases(service: Router, asked: Asked) -> Reply:
    """GET /queues/*/leases"""
    wish = asked.question(LeasePlace)
    page = await service.call(ListLeases(asked.name, wish.count, wish.after), asked.caller)
    leases = [
        LeaseOut(
            message_id=seen.delivery.message_id,
            lane=seen.lane,
            offset=seen.offset,
            until_ms=seen.until_ms,
            attempts=seen.delivery.attempts,
            first_received_ms=seen.delivery.first_received_ms,
            sent_ms=seen.delivery.sent_ms,
            group=seen.delivery.group,
        )
        for seen in page.messages
    ]
    return Reply(LeasesOut(leases=leases, next=page.next))


async def search_messages(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/search"""
    wish = asked.read(Searching)
    operation = SearchMessages(
        asked.name, wish.filter, wish.text, wish.from_ms, wish.until_ms, wish.count, wish.after, wish.settled
    )
    page = await service.call(operation, asked.caller)
    return Reply(_page(page))


async def rewind_queue(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/rewind"""
    await service.call(RewindQueue(asked.name, asked.read(Destination).place()), asked.caller)
    return Reply(await shape_of(service, await found(service, asked.name, asked.caller), asked.caller))


async def fork_queue(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/fork"""
    wish = asked.read(Forking)
    settings = understood_settings(wish.settings, (await found(service, asked.name, asked.caller)).settings)
    view = await service.call(ForkQueue(asked.name, wish.name, wish.place(), settings), asked.caller)
    return Reply(await shape_of(service, view, asked.caller), HTTPStatus.CREATED)


def _page(page: Page) -> PageOut:
    return PageOut(
        messages=[
            SeenOut(
                lane=seen.lane,
                offset=seen.offset,
                state=seen.state,
                until_ms=seen.until_ms,
                message=message_out(seen.delivery),
            )
            for seen in page.messages
        ],
        next=page.next,
    )
