"""What an answer says about a batch: it was appended, it was refused, or its outcome is unknown."""

from __future__ import annotations

from typing import Final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from simulation.checkers.log import LogOracle
from simulation.checkers.sends import Outcome, Send

# After these errors the batch may have been appended: time-outs, and a disk that failed after the append.
_UNDECIDED: Final = frozenset({7, 13, 19, 20, 56, -1})


async def produce_once(
    hall: Hall,
    log: LogOracle,
    send: Send,
    batch: bytes,
    *,
    transactional_id: str | None = None,
    joins_by_writing: bool = False,
) -> Refused | Unreachable | None:
    """Send once and report to the oracle; returns the reason if it was not acknowledged."""
    try:
        placed = await hall.records.produce(
            send.place.topic,
            send.place.partition,
            batch,
            transactional_id=transactional_id,
            joins_by_writing=joins_by_writing,
            create=False,
        )
    except Unreachable as failure:
        log.lost_sight(send)
        return failure
    except Refused as refusal:
        if refusal.error_code in _UNDECIDED:
            log.lost_sight(send)
        elif send.outcome is Outcome.OPEN:
            log.refused(send)
        return refusal
    log.sent(send, placed.base_offset)
    return None
