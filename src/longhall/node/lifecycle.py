"""The life of a node process: start, say so, run until told to stop, and end with a word and an exit code."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import signal
import sys
from typing import Final

import msgspec

from longhall.errors import LonghallError
from longhall.node.addresses import parse_address
from longhall.node.assembly import Node
from longhall.node.logs import configure
from longhall.node.settings import Settings
from longhall.world.real.descriptors import raise_descriptor_limit
from longhall.world.real.memory import give_back_memory, keep_memory
from longhall.world.real.world import RealWorld, real_world

OK: Final = 0
REFUSED: Final = 1
DISK_FAILED: Final = 5

# A young generation this large is collected rarely; what hot paths make dies by itself.
GC_YOUNG_OBJECTS: Final = 50_000

FILES_SHARE: Final = 3  # Segments may take this part of the descriptors; connections need the rest.
FILES_MIN: Final = 32


def run(settings: Settings) -> int:
    """Run a node until SIGTERM or SIGINT; returns the exit code."""
    import uvloop

    keep_memory()
    files_max = max(FILES_MIN, raise_descriptor_limit() // FILES_SHARE)
    settings = msgspec.structs.replace(settings, open_files_max=min(settings.open_files_max, files_max))
    output = configure(settings.log_level, settings.log_format)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_live(settings))
    finally:
        output.close()


async def _live(settings: Settings) -> int:
    try:
        world = real_world(settings.data)
    except OSError as error:
        return _refuse(_about_directory(settings, error))
    try:
        return await _serve(world, settings)
    except LonghallError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(_about(settings, error))
    finally:
        world.close()


async def _serve(world: RealWorld, settings: Settings) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[OSError | None] = loop.create_future()

    def end(error: OSError | None = None) -> None:
        if not ended.done():
            ended.set_result(error)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    node = Node(world, settings)
    if settings.credentials or settings.keys:
        loop.add_signal_handler(signal.SIGHUP, node.known.reload)
    await node.start(end)
    gc.collect()
    gc.freeze()  # What lives from the start lives to the end: no need to look at it again.
    give_back_memory()
    gc.set_threshold(GC_YOUNG_OBJECTS, 20, 20)
    _announce(settings, node)
    failure = await ended
    if settings.ready_file:
        _remove(settings.ready_file)
    if failure is not None:
        print(
            f"longhall: the disk failed ({failure.strerror or failure}); what was acknowledged is safe. "
            "Look at the disk, then start again: recovery finds what is there",
            file=sys.stderr,
        )
        return DISK_FAILED
    await node.stop()
    return OK


def _announce(settings: Settings, node: Node) -> None:
    addresses = {"kafka": str(node.kafka), "sqs": str(node.sqs), "http": str(node.http)}
    doors = ", ".join(f"{door} {address}" for door, address in addresses.items())
    print(f"longhall: ready; {doors}, data {settings.data}", flush=True)
    if settings.ready_file:
        beside = settings.ready_file + ".new"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), **addresses}, file)
            file.write("\n")
        os.replace(beside, settings.ready_file)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _refuse(message: str) -> int:
    print(f"longhall: {message}", file=sys.stderr)
    return REFUSED


def _about_directory(settings: Settings, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return f"cannot use {settings.data} ({error.strerror}): choose another with --data, or change its owner"
    return f"cannot use {settings.data}: {error.strerror or error}"


def _about(settings: Settings, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE or "address already in use" in str(error).lower():
        # Of them, a port that was chosen freely cannot be taken; the system names the other one in its message.
        addresses = (settings.kafka, settings.sqs, settings.http)
        chosen = [address for address in addresses if parse_address(address).port]
        taken = [address for address in chosen if str(parse_address(address).port) in str(error)] or chosen
        return f"{' or '.join(taken)} is taken: stop whoever has it, or choose others with --kafka, --sqs and --http"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES):
        addresses = (settings.kafka, settings.sqs, settings.http)
        return f"cannot listen at {', '.join(addresses)} ({error.strerror}): choose others"
    if error.errno == errno.ENOSPC:
        return f"there is no space left in {settings.data}: free some, or choose another directory with --data"
    return str(error)
