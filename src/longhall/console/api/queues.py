"""Queues: create, list, describe, alter, purge, pause, resume and delete."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from longhall.cluster.rpc.operation import Caller
from longhall.console.api.asked import Asked, Reply
from longhall.console.api.settings import Fields, shown_settings, understood_settings
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Counts, Depth, QueueView
from longhall.queues.settings import QueueSettings
from longhall.service.queue_operations import (
    ConfigureQueue,
    CountQueue,
    CreateQueue,
    DeleteQueue,
    DescribeQueue,
    ListDeadLetterSources,
    ListQueues,
    MeasureQueue,
    PurgeQueue,
    SwitchQueue,
)

if TYPE_CHECKING:
    from longhall.service.router import Router

PAGE_MAX: Final = 1000
SLICE_QUEUES: Final = 25  # Measured per turn of the loop.

_DECIDED: Final = ("fifo", "partitions")


class NewQueue(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A queue to create. With `topic`, an existing topic is consumed as a queue."""

    name: Annotated[str, Meta(min_length=1, max_length=249)]
    topic: str = ""
    settings: Fields = {}


class Altered(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to change; null restores the default."""

    settings: Fields


class Listing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The query of a list of queues."""

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
    """A page of queues by name; `next` is the start of the next page (`after`), if there is one."""

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


async def create_queue(service: Router, asked: Asked) -> Reply:
    """POST /queues"""
    wish = asked.read(NewQueue)
    settings = understood_settings(wish.settings)
    check_fifo_name(wish.name, settings)
    await _check_letters(service, wish.name, settings, asked.caller)
    view = await service.call(CreateQueue(wish.name, settings, wish.topic), asked.caller)
    return Reply(await shape_of(service, view, asked.caller), HTTPStatus.CREATED)


def check_fifo_name(name: str, settings: QueueSettings) -> None:
    """Refuse a standard queue whose name says that it is a FIFO queue: SQS clients take the name for the kind."""
    if name.endswith(".fifo") and not settings.fifo:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"'{name}' is the name of a FIFO queue: set fifo, or choose a name without .fifo",
        )


async def list_queues(service: Router, asked: Asked) -> Reply:
    """GET /queues"""
    wish = asked.question(Listing)
    names = await service.call(ListQueues(wish.prefix), asked.caller)
    begin = bisect_right(names, wish.after) if wish.after else 0
    page = names[begin : begin + wish.limit]
    rows: list[QueueRow] = []
    for at in range(0, len(page), SLICE_QUEUES):
        found_rows = await asyncio.gather(*(_row(service, name, asked.caller) for name in page[at : at + SLICE_QUEUES]))
        rows += [row for row in found_rows if row is not None]
        await asyncio.sleep(0)
    more = begin + wish.limit < len(names)
    return Reply(QueuePage(queues=rows, next=page[-1] if more else ""))


async def describe_queue(service: Router, asked: Asked) -> Reply:
    """GET /queues/*"""
    return Reply(await shape_of(service, await found(service, asked.name, asked.caller), asked.caller))


async def alter_queue(service: Router, asked: Asked) -> Reply:
    """PATCH /queues/*"""
    view = await found(service, asked.name, asked.caller)
    settings = understood_settings(asked.read(Altered).settings, view.settings)
    for name in _DECIDED:
        if getattr(settings, name) != getattr(view.settings, name):
            raise LonghallError(Code.INVALID_CONFIGURATION, f"{name} is decided when a queue is made; make another one")
    await _check_letters(service, view.name, settings, asked.caller)
    await service.call(ConfigureQueue(view.name, settings), asked.caller)
    return Reply(await shape_of(service, await found(service, view.name, asked.caller), asked.caller))


async def delete_queue(service: Router, asked: Asked) -> Reply:
    """DELETE /queues/*"""
    await service.call(DeleteQueue(asked.name), asked.caller)
    return Reply({"name": asked.name})


async def purge_queue(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/purge"""
    await service.call(PurgeQueue(asked.name), asked.caller)
    return Reply(await shape_of(service, await found(service, asked.name, asked.caller), asked.caller))


async def pause_queue(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/pause"""
    await service.call(SwitchQueue(asked.name, True), asked.caller)
    return Reply(await shape_of(service, await found(service, asked.name, asked.caller), asked.caller))


async def resume_queue(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/resume"""
    await service.call(SwitchQueue(asked.name, False), asked.caller)
    return Reply(await shape_of(service, await found(service, asked.name, asked.caller), asked.caller))


async def _row(service: Router, name: str, caller: Caller) -> QueueRow | None:
    """A queue for the list; None if it was deleted meanwhile."""
    try:
        view = await found(service, name, caller)
        depth = await service.call(MeasureQueue(name), caller)
    except LonghallError as error:
        if error.code is Code.UNKNOWN_QUEUE:
            return None
        raise
    return QueueRow(
        name=view.name, fifo=view.settings.fifo, paused=view.paused, depth=depth, created_ms=view.created_ms
    )


async def found(service: Router, name: str, caller: Caller) -> QueueView:
    """The queue of this name, as its leader knows it. Raises UNKNOWN_QUEUE."""
    return await service.call(DescribeQueue(name), caller)


async def _check_letters(service: Router, name: str, settings: QueueSettings, caller: Caller) -> None:
    """Raises INVALID_CONFIGURATION unless the dead-letter queue exists and is another queue."""
    letters = settings.dead_letters
    if letters is None:
        return
    if letters.queue == name:
        raise LonghallError(Code.INVALID_CONFIGURATION, "a queue cannot keep its own dead letters; name another one")
    try:
        await found(service, letters.queue, caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        said = f"there is no queue '{letters.queue[:249]}' for the dead letters; create it first"
        raise LonghallError(Code.INVALID_CONFIGURATION, said) from None


async def shape_of(service: Router, view: QueueView, caller: Caller) -> QueueShape:
    """A queue for JSON."""
    return QueueShape(
        name=view.name,
        queue_id=view.queue_id,
        created_ms=view.created_ms,
        modified_ms=view.modified_ms,
        paused=view.paused,
        depth=await service.call(MeasureQueue(view.name), caller),
        counts=await service.call(CountQueue(view.name), caller),
        dead_letters_of=await service.call(ListDeadLetterSources(view.name), caller),
        settings=shown_settings(view.settings),
    )
