"""Background jobs for the janitor under test."""

from __future__ import annotations

import os

from longhall.errors import Code, LonghallError
from longhall.world.ports import Disk


def count(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    return {"files": disk.list(""), "niceness": os.nice(0), "argument": arguments["argument"]}


def die(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    os._exit(3)


def miss(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    disk.open("missing")
    return {}


def refuse(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    raise LonghallError(Code.STORAGE_DAMAGED, "refused by the test job")


def stumble(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    raise ZeroDivisionError("raised by the test job")


BACKGROUND_JOBS = {"count": count, "die": die, "miss": miss, "refuse": refuse, "stumble": stumble}
