"""`longhall version`: the installed version."""

from __future__ import annotations

import platform

from longhall.cli.options import OutputOption
from longhall.cli.output import Format, show_facts


def version(output: OutputOption = Format.TABLE) -> None:
    """Show the version, and whether the hot rooms are compiled."""
    from longhall.records import varint

    facts = {
        "longhall": installed_version(),
        "python": platform.python_version(),
        "hot_rooms": "compiled" if (varint.__file__ or "").endswith((".so", ".pyd")) else "pure Python",
    }
    show_facts(facts, output)


def installed_version() -> str:
    """The version of the installed package; a checkout on the path has none."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("longhall")
    except PackageNotFoundError:
        return "unknown (not installed)"
