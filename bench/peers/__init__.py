"""What a bench needs of a broker, whoever made it.

A peer is a context manager: entering starts one node on loopback in a directory of its own, leaving stops it and
removes what it made. The bench knows nothing of a broker beyond this: an address for clients and a process to weigh.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Broker(Protocol):
    """One running node."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """`host:port` for Kafka clients."""
        ...

    @property
    def pid(self) -> int:
        """The root of the broker's process tree."""
        ...

    @property
    def directory(self) -> Path:
        """Everything the node keeps."""
        ...

    @property
    def start_seconds(self) -> float:
        """From the start of the process to the first successful metadata answer."""
        ...

    def start(self) -> None: ...

    def stop(self) -> None:
        """Stop cleanly (SIGTERM) and wait; the data stays until the context is left."""
        ...

    def kill(self) -> None:
        """SIGKILL to every process of the node; the data stays until the context is left."""
        ...
