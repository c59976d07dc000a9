"""Messages larger than one request: they are sent and received in parts.

    POST uploads -> id ;  PUT uploads/id/parts/0 ... n-1 ;  POST uploads/id  -> the message is there, whole
    POST receive -> parts, receipt ;  POST part {receipt, number} -> bytes

A message is not visible until its upload is finished. An unfinished upload expires.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import BYTES, Asked, Reply
from longhall.console.api.messages import MessageFields, outgoing_of, sent_one
from longhall.errors import Code, LonghallError
from longhall.queues.chunks import CHUNK_BYTES, CHUNKS_MAX
from longhall.service.queue_operations import AbortUpload, AddUploadPart, BeginUpload, FinishUpload, ReadPart

if TYPE_CHECKING:
    from longhall.service.router import Router

_DIGITS_MAX: Final = 6


class Begun(msgspec.Struct, kw_only=True):
    """An open upload, with the largest size of a part in bytes."""

    upload_id: str
    part_bytes_max: int


class Finishing(MessageFields, kw_only=True, forbid_unknown_fields=True):
    """The number of parts, and all fields of the message except its body."""

    parts: Annotated[int, Meta(ge=1, le=CHUNKS_MAX)]


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The receipt of a message and the number of a part."""

    receipt: str
    number: Annotated[int, Meta(ge=0, lt=CHUNKS_MAX)]


async def begin_upload(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/uploads"""
    upload_id = await service.call(BeginUpload(asked.name), asked.caller)
    return Reply(Begun(upload_id=upload_id, part_bytes_max=CHUNK_BYTES), HTTPStatus.CREATED)


async def add_part(service: Router, asked: Asked) -> Reply:
    """PUT /queues/*/uploads/*/parts/*"""
    name, upload_id, number = asked.names
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
        raise LonghallError(Code.INVALID_REQUEST, "a part has a number, from 0 on")
    if asked.body and asked.content_type != BYTES:
        raise LonghallError(Code.INVALID_REQUEST, f"a part is {BYTES}; say so in Content-Type")
    await service.call(AddUploadPart(name, upload_id, int(number), asked.body), asked.caller)
    return Reply({})


async def finish_upload(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/uploads/*"""
    wish = asked.read(Finishing)
    operation = FinishUpload(asked.name, asked.names[1], wish.parts, outgoing_of(wish, b""))
    answer = await service.call(operation, asked.caller)
    if answer.code is not None:
        raise LonghallError(answer.code, answer.message)
    return Reply(sent_one(answer))


async def abort_upload(service: Router, asked: Asked) -> Reply:
    """DELETE /queues/*/uploads/*"""
    await service.call(AbortUpload(asked.name, asked.names[1]), asked.caller)
    return Reply({})


async def read_part(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/part"""
    wish = asked.read(Part)
    return Reply(await service.call(ReadPart(asked.name, wish.receipt, wish.number), asked.caller))
