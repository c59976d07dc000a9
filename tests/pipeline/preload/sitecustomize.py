"""Has Spark's daemons of Python workers import what workers need before they fork them: each is there at once.

Python imports this by itself when it starts with this directory on its path, as all of Python that the suite's session
starts does. Spark imports after the fork, since what has threads must not fork. What is imported here is kept from
starting any, and that is looked at: a daemon that has some all the same begins anew without.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

DAEMON: Final = ["-m", "pyspark.daemon"]
SWITCH: Final = "LONGHALL_TESTS_PRELOAD"
WITHOUT_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
MODULES: Final = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
    "longhall.pipeline.archive.work",
    "longhall.pipeline.queue_source",
    "longhall.pipeline.replay.player",
    "longhall.pipeline.source",
    "longhall.pipeline.stream",
    "longhall.pipeline.sink",
    "longhall.pipeline.reading",
    "longhall.pipeline.writing",
)


def preload() -> None:
    """Import all of it, or nothing."""
    os.environ |= WITHOUT_THREADS
    for name in MODULES:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, SWITCH: "no"})


if sys.orig_argv[1:3] == DAEMON and os.environ.get(SWITCH) != "no":
    preload()
