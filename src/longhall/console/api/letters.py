"""Dead letters, and any other message of a queue: list, read, edit, move."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.bodies import (
    Given,
    Text,
    Typed,
    shown,
    shown_attributes,
    understood,
    understood_attributes,
)
from longhall.console.api.messages import COUNT_MAX, FILTER_CHARACTERS_MAX
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Attempt, Letter, MoveTask
from longhall.queues.redrive import CHOSEN_MAX, RATE_MAX
from longhall.service.queue_operations import CancelMove, EditLetter, ListLetters, ListMoves, ReadLetter, StartMove

if TYPE_CHECKING:
    from longhall.service.router import Router


class LetterPlace(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The number of messages, and the start (`next` of the page before)."""

    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 10
    after: str = ""


class LetterOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message, with the history of its dead-lettering if it is a dead letter."""

    message_id: str
    lane: int
    offset: int
    body: Text
    attributes: dict[str, str | Typed] = {}
    key: Text | None = None
    group: str = ""
    priority: int = 0
    sent_ms: int = 0
    died_ms: int = 0
    reason: str = ""
    source: str = ""
    attempts: int = 0
    first_received_ms: int = 0
    history: list[Attempt] = []
    deaths: list[str] = []
    reply_to: str = ""
    correlation_id: str = ""
    leased: bool = False


class LettersOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of messages; `next` is the start of the next page (`after`), if there is one."""

    letters: list[LetterOut]
    next: str = ""


class Editing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new body, new attributes (which replace all), or both."""

    body: Text | None = None
    attributes: dict[str, Given] | None = None


class NewMove(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The target (empty: each message returns to its source), and the rate in messages a second (0: no limit)."""

    target: str = ""
    rate_max: Annotated[int, Meta(ge=0, le=RATE_MAX)] = 0
    ids: Annotated[list[str], Meta(max_length=CHOSEN_MAX)] = []  # Empty for all.
    filter: Annotated[str, Meta(max_length=FILTER_CHARACTERS_MAX)] = ""  # Only messages that match.


class Moves(msgspec.Struct, kw_only=True):
    """The moves of a queue, the newest first."""

    moves: list[MoveTask]


async def list_letters(service: Router, asked: Asked) -> Reply:
    """GET /queues/*/letters"""
    wish = asked.question(LetterPlace)
    page = await service.call(ListLetters(asked.name, wish.count, wish.after), asked.caller)
    return Reply(LettersOut(letters=[_letter(letter) for letter in page.letters], next=page.next_from))


async def show_letter(service: Router, asked: Asked) -> Reply:
    """GET /queues/*/letters/*"""
    return Reply(_letter(await service.call(ReadLetter(asked.name, asked.names[1]), asked.caller)))


async def edit_letter(service: Router, asked: Asked) -> Reply:
    """PATCH /queues/*/letters/*"""
    wish = asked.read(Editing)
    if wish.body is None and wish.attributes is None:
        raise LonghallError(Code.INVALID_REQUEST, "nothing to change: give a body or attributes")
    body = None if wish.body is None else understood(wish.body)
    attributes = None if wish.attributes is None else understood_attributes(wish.attributes)
    operation = EditLetter(asked.name, asked.names[1], body, attributes)
    return Reply(_letter(await service.call(operation, asked.caller)))


async def start_move(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/moves"""
    wish = asked.read(NewMove)
    operation = StartMove(asked.name, wish.target, wish.rate_max, wish.ids, wish.filter)
    move = await service.call(operation, asked.caller)
    return Reply(move, HTTPStatus.CREATED)


async def list_moves(service: Router, asked: Asked) -> Reply:
    """GET /queues/*/moves"""
    return Reply(Moves(moves=await service.call(ListMoves(asked.name), asked.caller)))


async def cancel_move(service: Router, asked: Asked) -> Reply:
    """DELETE /moves/*"""
    return Reply(await service.call(CancelMove(asked.name), asked.caller))


def _letter(letter: Letter) -> LetterOut:
    return LetterOut(
        message_id=letter.message_id,
        lane=letter.lane,
        offset=letter.offset,
        body=shown(letter.body),
        attributes=shown_attributes(letter.attributes),
        key=None if letter.key is None else shown(letter.key),
        group=letter.group,
        priority=letter.priority,
        sent_ms=letter.sent_ms,
        died_ms=letter.died_ms,
        reason=letter.reason,
        source=letter.source,
        attempts=letter.attempts,
        first_received_ms=letter.first_received_ms,
        history=letter.history,
        deaths=letter.deaths,
        reply_to=letter.reply_to,
        correlation_id=letter.correlation_id,
        leased=letter.leased,
    )
