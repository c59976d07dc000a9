"""Programs that some tests need beside Python: asked for by name, and left out by name where they are missing."""

from __future__ import annotations

import shutil

from tests.left_out import leave_out


def need_command(name: str, purpose: str) -> str:
    """The path of a program, or the test is left out."""
    found = shutil.which(name)
    if found is None:
        leave_out(f"{purpose}: {name} is not on this machine")
    return found
