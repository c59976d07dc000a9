"""All routes of the API, in one table."""

from __future__ import annotations

from typing import Final

from longhall.console.api import browsing, letters, messages, queues, uploads
from longhall.console.api.service import Route
from longhall.directory.rate_limits import SEND, SETTLE

ROUTES: Final = (
    Route("GET", "queues", queues.list_queues),
    Route("POST", "queues", queues.create_queue),
    Route("GET", "queues/*", queues.describe_queue),
    Route("PATCH", "queues/*", queues.alter_queue),
    Route("DELETE", "queues/*", queues.delete_queue),
    Route("POST", "queues/*/purge", queues.purge_queue),
    Route("POST", "queues/*/pause", queues.pause_queue),
    Route("POST", "queues/*/resume", queues.resume_queue),
    Route("POST", "queues/*/rewind", browsing.rewind_queue),
    Route("POST", "queues/*/fork", browsing.fork_queue),
    Route("GET", "queues/*/messages", browsing.peek_messages, gives=True),
    Route("POST", "queues/*/search", browsing.search_messages, gives=True),
    Route("POST", "queues/*/messages", messages.send_messages, limited_as=SEND),
    Route("POST", "queues/*/uploads", uploads.begin_upload, limited_as=SEND),
    Route("PUT", "queues/*/uploads/*/parts/*", uploads.add_part, limited_as=SEND),
    Route("POST", "queues/*/uploads/*", uploads.finish_upload, limited_as=SEND),
    Route("DELETE", "queues/*/uploads/*", uploads.abort_upload),
    Route("POST", "receive", messages.receive_any, waits=True, gives=True),
    Route("POST", "queues/*/receive", messages.receive_messages, waits=True, gives=True),
    Route("POST", "queues/*/settle", messages.settle_messages, limited_as=SETTLE),
    Route("POST", "queues/*/answer", messages.answer_message, limited_as=SEND),
    Route("GET", "queues/*/leases", browsing.list_leases, gives=True),
    Route("POST", "queues/*/leases", messages.change_leases, limited_as=SETTLE),
    Route("POST", "queues/*/part", uploads.read_part, gives=True),
    Route("GET", "queues/*/letters", letters.list_letters, gives=True),
    Route("GET", "queues/*/letters/*", letters.show_letter, gives=True),
    Route("PATCH", "queues/*/letters/*", letters.edit_letter),
    Route("GET", "queues/*/moves", letters.list_moves),
    Route("POST", "queues/*/moves", letters.start_move),
    Route("DELETE", "moves/*", letters.cancel_move),
)
