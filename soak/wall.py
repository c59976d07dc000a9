"""A settable wall clock for one process: its time of day is shifted by the value in a file.

The shift is done by a small preloaded library that is compiled here; the monotonic clock is unchanged, as on a real
machine whose clock is set.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final, final

SOURCE: Final = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *shift_s;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("LONGHALL_SOAK_WALL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED)
        shift_s = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && shift_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *shift_s;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec read;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &read))
        return -1;
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (now)
        *now = read.tv_sec;
    return read.tv_sec;
}
"""


@final
class Wall:
    """The shift file of one process. `environment` is the environment to start the process with."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.set(0)
        self.environment = {"LD_PRELOAD": str(library), "LONGHALL_SOAK_WALL": str(file)}

    def set(self, shift_s: int) -> None:
        """Shift the clock by this many seconds from now on."""
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.write(struct.pack("@l", shift_s))


def build(home: Path) -> Path | None:
    """Compile the library; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, library = home / "wall.c", home / "wall.so"
    source.write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, check=False)
    return library if done.returncode == 0 else None
