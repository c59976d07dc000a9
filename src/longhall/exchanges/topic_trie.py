"""The bindings of a topic exchange, as a trie over the words of their patterns.

A word of a pattern is a literal, `*` (one word) or `#` (any number of words). Matching walks the trie with the words of
the key, so its cost depends on the key and the branches that fit, not on the number of bindings.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar, final

ANY_WORD: Final = "*"
ANY_WORDS: Final = "#"

T = TypeVar("T")


@final
class _Node(Generic[T]):
    """A position in the patterns: the next words, and how often each target is bound here."""

    __slots__ = ("next", "targets")

    def __init__(self) -> None:
        self.next: dict[str, _Node[T]] = {}
        self.targets: dict[T, int] = {}


@final
class TopicTrie(Generic[T]):
    """Patterns with their targets. A target may be added several times for a pattern, and is matched once."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, pattern: str, target: T) -> None:
        """Bind a target."""
        node = self._root
        for word in words_of(pattern):
            following = node.next.get(word)
            if following is None:
                following = node.next[word] = _Node()
            node = following
        node.targets[target] = node.targets.get(target, 0) + 1

    def remove(self, pattern: str, target: T) -> None:
        """Undo one `add`."""
        path = [self._root]
        words = words_of(pattern)
        for word in words:
            path.append(path[-1].next[word])
        left = path[-1].targets[target] - 1
        if left:
            path[-1].targets[target] = left
            return
        del path[-1].targets[target]
        for at in range(len(words), 0, -1):
            if path[at].next or path[at].targets:
                break
            del path[at - 1].next[words[at - 1]]

    def match(self, key: str) -> dict[T, None]:
        """The targets whose patterns match this key, each once."""
        found: dict[T, None] = {}
        words = words_of(key)
        count = len(words)
        # Each state is visited once: without this a pattern with several # would cost exponential time.
        seen: set[tuple[int, int]] = set()
        stack: list[tuple[_Node[T], int]] = [(self._root, 0)]
        while stack:
            node, at = stack.pop()
            mark = (id(node), at)
            if mark in seen:
                continue
            seen.add(mark)
            if at == count:
                for target in node.targets:
                    found[target] = None
            else:
                following = node.next.get(words[at])
                if following is not None:
                    stack.append((following, at + 1))
                one = node.next.get(ANY_WORD)
                if one is not None:
                    stack.append((one, at + 1))
            several = node.next.get(ANY_WORDS)
            if several is not None:
                for behind in range(at, count + 1):
                    stack.append((several, behind))
        return found


def words_of(key: str) -> list[str]:
    """The words of a key or pattern. An empty key has none."""
    return key.split(".") if key else []
