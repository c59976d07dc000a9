"""Who a data directory is in a cluster: a small file beside the data, written before the node takes part in anything.

It says which number the node has, tells one directory from a copy of it, counts the node's lives, and whether the last
of them ended cleanly. A directory that was not left cleanly must not lead before it has caught up with the others, so
the mark is taken away before the node is seen and set again when everything is on the disk.

It also keeps what the coordinator had on record when the node last looked: the coordinator may lose its data or be
restored from a backup, and is not believed against what its nodes have seen.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.coordination.ports import ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.world.ports import Disk, Entropy

CARD: Final = "member.json"


class MemberFile(msgspec.Struct, kw_only=True):
    """See the module."""

    node: int = 0  # 0 until there is one.
    directory: str
    life: int = 0
    clean: bool = True  # A directory that nobody has used is.
    revision: int = -1  # Of the newest record of the cluster that the node has seen: an older one is not believed.
    rebuilt: int = 0  # How often that record had been rebuilt.
    drains: list[int] = []  # What stood beside the record then, in case the coordinator loses it.
    wings: list[ReplicationGroup] = []


def read_member_file(disk: Disk, entropy: Entropy) -> MemberFile:
    """The member_file of the directory; a new one, not written yet, if there is none."""
    if not disk.exists(CARD):
        return MemberFile(directory=entropy.bytes(16).hex())
    file = disk.open(CARD)
    data = file.read_at(0, file.size())
    file.close()
    try:
        return msgspec.json.decode(data, type=MemberFile)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.STORAGE_DAMAGED, f"{CARD} cannot be read ({error}): restore it") from None


def write_member_file(disk: Disk, member_file: MemberFile) -> None:
    """Put it on the disk, whole or not at all. Waits for the disk."""
    new = CARD + ".new"
    if disk.exists(new):
        disk.remove(new)
    file = disk.open(new, create=True)
    file.write_at(0, (msgspec.json.encode(member_file) + b"\n",))
    disk.sync_now(file)
    file.close()
    disk.rename(new, CARD)
    disk.sync_directory("")
