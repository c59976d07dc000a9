"""The file of the embedded tree: one small file, replaced as a whole by every commit.

    0  u32  magic "LHCT"       8  u32  CRC-32C of the body
    4  u16  version           12  u32  size of the body
    6  u16  0                 16  body: msgpack [clock, [[path, data, version, created], ...]]

Values of sessions are not in it: no session outlives the process. A body of a later version of Longhall may have more
elements after those that this one knows.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final

import msgspec
from crc32c import crc32c

from longhall.coordination.nodes import Nodes
from longhall.coordination.tree import Node
from longhall.errors import Code, LonghallError
from longhall.world.ports import Disk, File

PATH: Final = "coordination.tree"
_NEW: Final = PATH + ".new"
_MAGIC: Final = b"LHCT"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHHII")


def stage(disk: Disk, nodes: Nodes) -> File:
    """Write a tree beside the saved one. On OSError the saved one is unchanged."""
    kept = [[path, node.data, node.version, node.created] for path, node in nodes.items() if not node.owner]
    body = msgspec.msgpack.encode([nodes.clock, kept])
    file = disk.open(_NEW, create=True)
    try:
        file.truncate(0)
        file.write_at(0, (_HEADER.pack(_MAGIC, _VERSION, 0, crc32c(body), len(body)), body))
    except OSError:
        file.close()
        raise
    return file


async def publish(disk: Disk, file: File) -> None:
    """Make the staged tree the saved one, durably. After OSError it is unknown which of the two a restart finds."""
    synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(failure: OSError | None) -> None:
        if synced.done():
            return
        if failure is None:
            synced.set_result(None)
        else:
            synced.set_exception(failure)

    try:
        disk.sync([file], done)
        await synced
    finally:
        file.close()
    disk.rename(_NEW, PATH)
    disk.sync_directory("")


def load(disk: Disk) -> Nodes:
    """The tree as it was saved last, or an empty one."""
    nodes = Nodes()
    if not disk.exists(PATH):
        return nodes
    file = disk.open(PATH)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    damaged = LonghallError(Code.STORAGE_DAMAGED, f"{PATH} is damaged: restore the data directory from a copy")
    if len(data) < _HEADER.size:
        raise damaged
    magic, version, _, crc, size = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != _MAGIC or size != len(body) or crc32c(body) != crc:
        raise damaged
    if version > _VERSION:
        raise LonghallError(Code.UNSUPPORTED_VERSION, f"{PATH} was written by a newer Longhall: start that version")
    clock, kept, *_ = msgspec.msgpack.decode(body)
    nodes.clock = clock
    for path, value, number, created, *_ in kept:
        nodes.put_back(path, Node(value, number, created, 0))
    return nodes
