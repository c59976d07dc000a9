"""The rules for a batch as a whole, checked before its entries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from longhall.doors.sqs.wire.faults import (
    BATCH_IDS_NOT_DISTINCT,
    EMPTY_BATCH,
    INVALID_BATCH_ID,
    TOO_MANY_ENTRIES,
    SqsError,
)
from longhall.doors.sqs.wire.requests import Entry

ENTRIES_MAX: Final = 10
ID_LETTERS_MAX: Final = 80

_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{ID_LETTERS_MAX}}}")


def check_batch(entries: Sequence[Entry], entry_name: str) -> None:
    """Between one and ten entries with proper, distinct ids. Raises SqsError."""
    if not entries:
        raise SqsError(EMPTY_BATCH, f"There should be at least one {entry_name} in the request.")
    if len(entries) > ENTRIES_MAX:
        said = f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {len(entries)}."
        raise SqsError(TOO_MANY_ENTRIES, said)
    seen: set[str] = set()
    for entry in entries:
        name = entry.id
        plain = name.isalnum() and name.isascii() and len(name) <= ID_LETTERS_MAX  # True for most ids.
        if not plain and _ID.fullmatch(name) is None:
            said = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
            raise SqsError(INVALID_BATCH_ID, said + f"It can be at most {ID_LETTERS_MAX} letters long.")
        if name in seen:
            raise SqsError(BATCH_IDS_NOT_DISTINCT, f"Id {name} repeated.")
        seen.add(name)
