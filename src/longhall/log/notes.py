"""Notes: an entry that the log gets once for many entries, in the same frame as they are.

A source of notes appends them in `write`, which is called before the frame of the entries may be closed: at the end of
a round, and before the next append or atomic write if `is_due`. A frame survives a crash as a whole, on every replica,
so the entries and the note about them do too.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

NOTE_BYTES_MIN = 64 * 1024  # Of the open frame: from here on, what is to be noted is noted at once.


@mypyc_attr(allow_interpreted_subclasses=True)
class Notes:
    """The interface of objects that write notes; it has no state of its own."""

    def is_due(self) -> bool:
        """True if the next append may close the frame of entries that nothing is noted of yet."""
        return False

    def write(self) -> None:
        """Append what is to be noted, if there is something, to the frame that is open."""
