"""Objects that hold a connection and are closed at the end of a `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Resource(ABC):
    """Something with a `close`, which may be called more than once."""

    @abstractmethod
    def close(self) -> None:
        """Release everything that is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
