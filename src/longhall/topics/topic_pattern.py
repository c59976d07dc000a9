r"""Regular expressions over topic names, in RE2's syntax, matched in linear time.

A member of a consumer group may send any expression, and every topic of the hall is compared with it on the event loop.
A backtracking engine could be made to run for hours, so that the expression becomes a finite automaton here: the cost
is bounded by the length of the name. A topic name has only 65 different characters, so a set of characters is a bit
mask over them.

The whole name has to match. Groups, captured or not, flags, anchors, lazy quantifiers, classes, escapes and \Q...\E
are understood; what RE2 does not know (backreferences, look-around, possessive quantifiers) is refused, as RE2 does.
"""

from __future__ import annotations

import string
from typing import Final, final

from longhall.topics.pattern_syntax import ALPHABET, CharacterSet, PatternNode, parse

PATTERN_LENGTH_MAX: Final = 1_000
_POSITIONS_MAX: Final = 2_000  # States of the automaton.
_CACHE_MAX: Final = 2_000  # Sets of states that are remembered.

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")


@final
class _State:
    """A state of the automaton: it reads a character of `reads`, or it checks `asserts`, or it goes on freely."""

    __slots__ = ("asserts", "follows", "reads")

    def __init__(self) -> None:
        self.reads: CharacterSet = 0
        self.asserts = ""
        self.follows: list[int] = []


@final
class TopicPattern:
    """A compiled expression. Raises ValueError with the reason if the expression is not valid."""

    def __init__(self, expression: str) -> None:
        if len(expression) > PATTERN_LENGTH_MAX:
            raise ValueError(f"the expression is longer than {PATTERN_LENGTH_MAX} characters")
        self.expression = expression
        self._states: list[_State] = []
        self._accepts = self._new_state()
        self._start = self._build(parse(expression), self._accepts)
        # (states before a character, the previous character is a word, the character) to the states after it.
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """True if the whole name matches."""
        states = frozenset({self._start})
        before = ""
        for character in name:
            key = (states, before, character)
            after = self._steps.get(key)
            if after is None:
                after = self._step(states, before, character)
                if len(self._steps) >= _CACHE_MAX:
                    self._steps.clear()
                self._steps[key] = after
            if not after:
                return False
            states = after
            before = "word" if character in _WORD else "other"
        return self._accepts in self._closure(states, before, "")

    def _step(self, states: frozenset[int], before: str, character: str) -> frozenset[int]:
        bit = ALPHABET.get(character, 0)
        after = "word" if character in _WORD else "other"
        found: set[int] = set()
        for number in self._closure(states, before, after):
            state = self._states[number]
            if state.reads & bit:
                found.update(state.follows)
        return frozenset(found)

    def _closure(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """All states that are reached without reading a character, between these two kinds of characters."""
        found = set(states)
        waiting = list(states)
        while waiting:
            state = self._states[waiting.pop()]
            if state.reads or (state.asserts and not _holds(state.asserts, before, after)):
                continue
            for follower in state.follows:
                if follower not in found:
                    found.add(follower)
                    waiting.append(follower)
        return found

    # Building: each node becomes states that end in `then`; the number of its first state is returned.

    def _new_state(self) -> int:
        if len(self._states) >= _POSITIONS_MAX:
            raise ValueError("the expression is too large")
        self._states.append(_State())
        return len(self._states) - 1

    def _build(self, node: PatternNode, then: int) -> int:
        if node.kind == "set":
            first = self._new_state()
            self._states[first].reads = node.characters
            self._states[first].follows.append(then)
            # A set of characters that no topic name has reads nothing and goes nowhere.
            if not node.characters:
                self._states[first].asserts = "never"
            return first
        if node.kind == "assert":
            first = self._new_state()
            self._states[first].asserts = node.assertion
            self._states[first].follows.append(then)
            return first
        if node.kind == "sequence":
            for child in reversed(node.children):
                then = self._build(child, then)
            return then
        if node.kind == "either":
            branches = [self._build(child, then) for child in node.children]
            first = self._new_state()
            self._states[first].follows.extend(branches)
            return first
        return self._build_repeat(node, then)

    def _build_repeat(self, node: PatternNode, then: int) -> int:
        (child,) = node.children
        if node.most is None:
            loop = self._new_state()
            self._states[loop].follows.extend((self._build(child, loop), then))
            then = loop
        else:
            for _ in range(node.most - node.least):
                optional = self._new_state()
                # Each optional repetition may be left out together with those after it.
                self._states[optional].follows.extend((self._build(child, then), then))
                then = optional
        for _ in range(node.least):
            then = self._build(child, then)
        return then


def _holds(assertion: str, before: str, after: str) -> bool:
    if assertion == "begin":
        return before == ""
    if assertion == "end":
        return after == ""
    if assertion == "never":
        return False
    is_boundary = (before == "word") != (after == "word")
    return is_boundary if assertion == "boundary" else not is_boundary
