"""The program of a syncer: a process that only syncs, so that no interpreter lock delays an answer.

It is run by path, without `site` and without the package, and imports only what is built into the interpreter, to stay
small. Requests and answers are datagrams of a Unix socket pair, numbers are little-endian:

    request   number u64 | closed count u32 | opened count u32 | synced count u32 | closed slots, opened slots,
              synced slots u32 each; the opened files' descriptors are attached (SCM_RIGHTS), in the order of their
              slots
    answer    number u64 | errno u32        in the order of the requests; none for request number 0

A failed sync is never retried, because the kernel forgets which pages it could not write: syncs of that file fail from
then on. The process ends when its parent's end of the socket is closed, and ignores signals to the parent's group.

With the second argument `together`, requests that wait together are one pass: a file in several of them is synced once.
With the third argument, `syncfs=N`, a pass over many files is one `syncfs` of the file system of descriptor N: 200
files take 10 ms instead of 170. It may wait for writes of other programs, which a commit must not, so commits do not
use it. Descriptor N was opened before anything was written, because the kernel reports to a descriptor only failures
since it was opened. Failures in a file that was open before are queried from the file itself, without disk access.

Such a process also writes large files out in slices before it syncs them, and pauses after each: a sync with 250 MB to
write occupies the disk for as long as that takes, and commits, also of other nodes on that disk, would wait.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys
import time

REQUEST_BYTES_MAX = 65536
DESCRIPTORS_MAX = 250
PASS_REQUESTS_MAX = 256
TOGETHER_FILES_MIN = 48  # Fewer are synced one by one: syncfs may have to write dirty pages of other programs.
SLICE_BYTES = 4 << 20  # A few milliseconds of a fast disk.
WRITE_AND_WAIT = 7  # Flags of sync_file_range: wait for writes in progress, write, wait for that.
# Flag of sync_file_range: wait for writes in progress, and report failures since the last report to this descriptor.
WAIT = 1
# ENOSYS, EINVAL, ESPIPE, EOPNOTSUPP, EPERM: not supported here, which says nothing about any page.
NO_SLICES = (38, 22, 29, 95, 1)


def _u32(message: bytes, at: int) -> int:
    return int.from_bytes(message[at : at + 4], "little")


class Syncer:
    """The descriptors by slot, and the errno of files whose sync failed."""

    def __init__(self, socket: _socket.socket, together: bool, file_system: int = -1) -> None:
        self.socket = socket
        self.together = together
        self.file_system = file_system  # A descriptor on the file system if it may be synced as a whole, else -1.
        self.descriptors: dict[int, int] = {}
        self.failed: dict[int, int] = {}
        self.forgotten: list[int] = []
        self.slices = together

    def run(self) -> None:
        while True:
            requests = [self.receive(0)]
            # Commits are handled one at a time; only other requests are combined.
            while self.together and requests[-1] is not None and len(requests) < PASS_REQUESTS_MAX:
                requests.append(self.receive(_socket.MSG_DONTWAIT))
            synced: set[int] = set()
            if self.together:
                wanted = {slot for request in requests if request is not None for slot in request[1]}
                if len(wanted) >= TOGETHER_FILES_MIN and self.file_system >= 0:
                    synced = self.sync_together(sorted(wanted))
            for request in requests:
                if request is None:
                    continue
                number, slots = request
                code = 0
                for slot in slots:
                    if slot not in synced:
                        self.sync(slot)
                        synced.add(slot)
                    code = code or self.failed.get(slot, 0)
                if number:
                    self.socket.send(number.to_bytes(8, "little") + code.to_bytes(4, "little"))
            # Files closed while a request of this pass still named them were open until here.
            self.close_forgotten()

    def receive(self, flags: int) -> tuple[int, list[int]] | None:
        try:
            message, ancillary, _, _ = self.socket.recvmsg(REQUEST_BYTES_MAX, 8192, flags)
        except BlockingIOError:
            return None
        if not message:
            posix._exit(0)
        closed, opened, wanted = _u32(message, 8), _u32(message, 12), _u32(message, 16)
        slots = [_u32(message, at) for at in range(20, len(message), 4)]
        assert len(slots) == closed + opened + wanted
        self.forgotten.extend(slots[:closed])
        passed = b"".join(data for _, _, data in ancillary)
        for index, slot in enumerate(slots[closed : closed + opened]):
            self.descriptors[slot] = int.from_bytes(passed[index * 4 : index * 4 + 4], sys.byteorder)
        return int.from_bytes(message[:8], "little"), slots[closed + opened :]

    def close_forgotten(self) -> None:
        for slot in self.forgotten:
            posix.close(self.descriptors.pop(slot))
            self.failed.pop(slot, None)
        self.forgotten.clear()

    def sync(self, slot: int) -> None:
        if slot in self.failed:
            return
        try:
            if self.slices:
                self.write_out(self.descriptors[slot])
            posix.fdatasync(self.descriptors[slot])
        except OSError as error:
            self.failed[slot] = error.errno or 5

    def write_out(self, descriptor: int) -> None:
        """Write a large file out slice by slice, with a pause after each as long as the slice took.

        A failure here counts as a failed sync: the kernel reports a page that it could not write only once.
        """
        size = posix.fstat(descriptor).st_size
        if size <= 2 * SLICE_BYTES:
            return
        import ctypes  # Imported here for the reason given below.

        write = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
        for position in range(0, size, SLICE_BYTES):
            began = time.monotonic()
            place = (ctypes.c_int64(position), ctypes.c_int64(SLICE_BYTES))
            if write is None or write(descriptor, *place, WRITE_AND_WAIT) != 0:
                code = ctypes.get_errno() if write is not None else NO_SLICES[0]
                if code not in NO_SLICES:
                    raise OSError(code or 5, "what was written did not reach the disk")
                self.slices = False
                return
            time.sleep(time.monotonic() - began)

    def sync_together(self, slots: list[int]) -> set[int]:
        """Sync these files with one call, as far as they are on that file system; returns which are."""
        import ctypes  # Imported only where it is used: it makes the process a third larger.

        library = ctypes.CDLL(None, use_errno=True)
        device = posix.fstat(self.file_system).st_dev
        there = {slot for slot in slots if posix.fstat(self.descriptors[slot]).st_dev == device}
        for slot in there:
            try:
                if self.slices:
                    self.write_out(self.descriptors[slot])
            except OSError as error:
                self.failed.setdefault(slot, error.errno or 5)
        if library.syncfs(self.file_system) != 0:
            code = ctypes.get_errno() or 5
            for slot in there:
                self.failed.setdefault(slot, code)
        check = getattr(library, "sync_file_range", None)
        for slot in there:
            place = (ctypes.c_int64(0), ctypes.c_int64(0))
            if check is not None and check(self.descriptors[slot], *place, WAIT) != 0:
                code = ctypes.get_errno()
                if code not in NO_SLICES:
                    self.failed.setdefault(slot, code or 5)
        return there


def _file_system(options: list[str]) -> int:
    for option in options:
        if option.startswith("syncfs="):
            return int(option[len("syncfs=") :])
    return -1


if __name__ == "__main__":
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
    try:
        options = sys.argv[2:]
        Syncer(_socket.socket(fileno=int(sys.argv[1])), "together" in options, _file_system(options)).run()
    except (BrokenPipeError, ConnectionResetError):
        posix._exit(0)  # The parent has ended.
