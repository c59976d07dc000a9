"""The member file: the identity of a data directory in a cluster, written before the node takes part.

It has the node's number, an id that tells the directory from a copy of it, a count of the node's starts, and whether
the last run ended cleanly. A node that was not stopped cleanly must not lead before it has caught up, so the mark is
removed before the node registers, and set again when everything is on the disk.

It also has the revision of the newest record that the node has seen: a coordinator may lose its data or be restored
from a backup, and is not believed against what its nodes have seen.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.coordination.ports import ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.world.ports import Disk, Entropy

MEMBER_FILE: Final = "member.json"


class MemberFile(msgspec.Struct, kw_only=True):
    """The contents of the member file."""

    node: int = 0  # 0 until it has one.
    directory: str
    life: int = 0
    clean: bool = True  # A new directory is.
    revision: int = -1  # Of the newest record of the cluster that the node has seen: an older one is not believed.
    rebuilt: int = 0  # How often that record had been rebuilt.
    role: str = ""  # The role of the node that last used the directory; empty for one that does everything.
    drains: list[int] = []  # The drained nodes and wings at that time, in case the coordinator loses them.
    wings: list[ReplicationGroup] = []


def read_member_file(disk: Disk, entropy: Entropy) -> MemberFile:
    """The member file of the directory; a new one, not written yet, if there is none."""
    if not disk.exists(MEMBER_FILE):
        return MemberFile(directory=entropy.bytes(16).hex())
    file = disk.open(MEMBER_FILE)
    data = file.read_at(0, file.size())
    file.close()
    try:
        return msgspec.json.decode(data, type=MemberFile)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.STORAGE_DAMAGED, f"{MEMBER_FILE} cannot be read ({error}): restore it") from None


def write_member_file(disk: Disk, member_file: MemberFile) -> None:
    """Write the file atomically, and wait for the disk."""
    new = MEMBER_FILE + ".new"
    if disk.exists(new):
        disk.remove(new)
    file = disk.open(new, create=True)
    file.write_at(0, (msgspec.json.encode(member_file) + b"\n",))
    disk.sync_now(file)
    file.close()
    disk.rename(new, MEMBER_FILE)
    disk.sync_directory("")
