"""Everything that can be asked of the API, in one table."""

from __future__ import annotations

from typing import Final

from longhall.console.api import messages, moves, queues
from longhall.console.api.service import Route

ROUTES: Final = (
    Route("GET", "queues", queues.list_queues),
    Route("POST", "queues", queues.create_queue),
    Route("GET", "queues/*", queues.describe_queue),
    Route("PATCH", "queues/*", queues.alter_queue),
    Route("DELETE", "queues/*", queues.delete_queue),
    Route("POST", "queues/*/purge", queues.purge_queue),
    Route("POST", "queues/*/pause", queues.pause_queue),
    Route("POST", "queues/*/resume", queues.resume_queue),
    Route("POST", "queues/*/messages", messages.send_messages),
    Route("POST", "queues/*/receive", messages.receive_messages, waits=True),
    Route("POST", "queues/*/settle", messages.settle_messages),
    Route("POST", "queues/*/leases", messages.change_leases),
    Route("GET", "queues/*/moves", moves.list_moves),
    Route("POST", "queues/*/moves", moves.start_move),
    Route("DELETE", "moves/*", moves.cancel_move),
)
