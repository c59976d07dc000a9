"""A soak whose node loses the end of its log while it is dead. Run with a seed and a directory; 1 if it was noticed.

It is a program of its own, because a client library may abort its process at such a node.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from soak import reckoning
from soak.kill import Soak, Violation

LOST_BYTES_MIN = 20_000  # The first rounds may have little more than the topics in their log, which must stay.


def lose_the_end(data: Path) -> None:
    """Remove the last part of the log, as a power cut without syncs would."""
    # Files have their whole size from the start; spare ones have no header, and each header has the file's log
    # position.
    files = [(content, file) for file in (data / "wal").iterdir() if (content := file.read_bytes())[:4] == b"LHWL"]
    content, file = max(files, key=lambda found: found[0][8:16])
    size = len(content.rstrip(b"\0"))
    if size // 5 >= LOST_BYTES_MIN:
        os.truncate(file, size - size // 5)
        print(f"lost {size // 5} bytes", flush=True)


def main(seed: str, directory: str) -> int:
    reckoning.READ_SECONDS_MAX = 3.0  # type: ignore[misc]  # What is lost does not come back by waiting.
    Path(directory).mkdir()
    try:
        Soak(Path(directory), seed=int(seed), meanwhile=lose_the_end).run(4)
    except Violation as violation:
        print(violation, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # The clients' threads still request what the node lost.
