"""How a job reports to its caller and learns that it is to end."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]  # Prints one line.
Show = Callable[[int, int], None]  # Shows progress: how much is done, and of how much.
Wait = Callable[[float], bool]  # Sleeps for so many seconds; True if the job is to end.
