"""Queues as things: made, listed, looked at, changed, emptied, stopped and removed."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.settings import Fields, shown_settings, understood_settings
from longhall.console.api.verbs import Queues
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Counts, Depth, QueueView
from longhall.queues.settings import QueueSettings

PAGE_MAX: Final = 1000
SLICE_QUEUES: Final = 25  # Measured in one turn of the loop.

_DECIDED: Final = ("fifo", "partitions")


class NewQueue(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What makes a queue. With `topic`, a topic that is there already is consumed as a queue."""

    name: Annotated[str, Meta(min_length=1, max_length=249)]
    topic: str = ""
    settings: Fields = {}


class Altered(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to be otherwise; null is the default."""

    settings: Fields


class Listing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which queues."""

    prefix: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class QueueRow(msgspec.Struct, kw_only=True):
    """A queue in a list."""

    name: str
    fifo: bool
    paused: bool
    depth: Depth
    created_ms: int


class QueuePage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Some queues by name; `next` is where to go on (`after`), if there are more."""

    queues: list[QueueRow]
    next: str = ""


class QueueShape(msgspec.Struct, kw_only=True):
    """One queue."""

    name: str
    queue_id: str
    created_ms: int
    modified_ms: int
    paused: bool
    depth: Depth
    counts: Counts
    dead_letters_of: list[str]
    settings: Fields


async def create_queue(queues: Queues, asked: Asked) -> Reply:
    """POST /queues"""
    wish = asked.read(NewQueue)
    settings = understood_settings(wish.settings)
    _check_letters(queues, wish.name, settings)
    if wish.topic:
        view = await queues.declare(wish.name, wish.topic, settings)
    else:
        view = await queues.create(wish.name, settings)
    return Reply(await shape_of(queues, view), HTTPStatus.CREATED)


async def list_queues(queues: Queues, asked: Asked) -> Reply:
    """GET /queues"""
    wish = asked.question(Listing)
    names = queues.names(wish.prefix)
    begin = bisect_right(names, wish.after) if wish.after else 0
    page = names[begin : begin + wish.limit]
    rows: list[QueueRow] = []
    for name in page:
        if rows and len(rows) % SLICE_QUEUES == 0:
            await asyncio.sleep(0)
        view = queues.view(name)
        if view is None:
            continue  # It went away meanwhile.
        rows.append(
            QueueRow(
                name=view.name,
                fifo=view.settings.fifo,
                paused=view.paused,
                depth=await queues.weigh(view.name),
                created_ms=view.created_ms,
            )
        )
    more = begin + wish.limit < len(names)
    return Reply(QueuePage(queues=rows, next=page[-1] if more else ""))


async def describe_queue(queues: Queues, asked: Asked) -> Reply:
    """GET /queues/*"""
    return Reply(await shape_of(queues, found(queues, asked.name)))


async def alter_queue(queues: Queues, asked: Asked) -> Reply:
    """PATCH /queues/*"""
    view = found(queues, asked.name)
    settings = understood_settings(asked.read(Altered).settings, view.settings)
    for name in _DECIDED:
        if getattr(settings, name) != getattr(view.settings, name):
            raise LonghallError(Code.INVALID_CONFIGURATION, f"{name} is decided when a queue is made; make another one")
    _check_letters(queues, view.name, settings)
    await queues.configure(view.name, settings)
    return Reply(await shape_of(queues, found(queues, view.name)))


async def delete_queue(queues: Queues, asked: Asked) -> Reply:
    """DELETE /queues/*"""
    await queues.delete(asked.name)
    return Reply({"name": asked.name})


async def purge_queue(queues: Queues, asked: Asked) -> Reply:
    """POST /queues/*/purge"""
    await queues.purge(asked.name)
    return Reply(await shape_of(queues, found(queues, asked.name)))


async def pause_queue(queues: Queues, asked: Asked) -> Reply:
    """POST /queues/*/pause"""
    await queues.switch(asked.name, True)
    return Reply(await shape_of(queues, found(queues, asked.name)))


async def resume_queue(queues: Queues, asked: Asked) -> Reply:
    """POST /queues/*/resume"""
    await queues.switch(asked.name, False)
    return Reply(await shape_of(queues, found(queues, asked.name)))


def found(queues: Queues, name: str) -> QueueView:
    """The queue of this name. Raises UNKNOWN_QUEUE."""
    view = queues.view(name)
    if view is None:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{name[:249]}'.")
    return view


def _check_letters(queues: Queues, name: str, settings: QueueSettings) -> None:
    """Dead letters must have a place to go to, and not their own queue."""
    letters = settings.dead_letters
    if letters is None:
        return
    if letters.queue == name:
        raise LonghallError(Code.INVALID_CONFIGURATION, "a queue cannot keep its own dead letters; name another one")
    if queues.view(letters.queue) is None:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"there is no queue '{letters.queue[:249]}' for the dead letters; create it first",
        )


async def shape_of(queues: Queues, view: QueueView) -> QueueShape:
    """A queue for JSON."""
    return QueueShape(
        name=view.name,
        queue_id=view.queue_id,
        created_ms=view.created_ms,
        modified_ms=view.modified_ms,
        paused=view.paused,
        depth=await queues.weigh(view.name),
        counts=await queues.tally(view.name),
        dead_letters_of=queues.sources(view.name),
        settings=shown_settings(view.settings),
    )
