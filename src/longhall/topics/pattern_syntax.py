"""The syntax of RE2's regular expressions, parsed into a tree.

Characters that no topic name can have are parsed and never match. Flags have their effect: `i` ignores case, `s` and
`m` change nothing in names without line ends, `U` changes what is captured and not what matches.
"""

from __future__ import annotations

import re
import string
import unicodedata
from typing import Final, final

import msgspec

CharacterSet = int  # A bit mask over ALPHABET.

NAME_CHARACTERS: Final = string.ascii_letters + string.digits + "._-"
ALPHABET: Final[dict[str, CharacterSet]] = {character: 1 << at for at, character in enumerate(NAME_CHARACTERS)}
EVERY: Final[CharacterSet] = (1 << len(NAME_CHARACTERS)) - 1
REPEAT_MAX: Final = 1_000
_DEPTH_MAX: Final = 100

_ASSERTIONS: Final = {"A": "begin", "z": "end", "b": "boundary", "B": "inside"}
_CONTROLS: Final = frozenset("aftnrv")
_NAMED_CLASSES: Final = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "ascii": NAME_CHARACTERS,
    "blank": "",
    "cntrl": "",
    "digit": string.digits,
    "graph": NAME_CHARACTERS,
    "lower": string.ascii_lowercase,
    "print": NAME_CHARACTERS,
    "punct": "._-",
    "space": "",
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}
_ESCAPED_CLASSES: Final = {"d": "digit", "s": "space", "w": "word"}
_CATEGORIES: Final = frozenset("CLMNPSZ") | frozenset(
    {"Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No"}
    | {"Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"}
)
_GROUP_OPENING: Final = re.compile(r"\?(?:P?<(\w+)>|([imsU]*(?:-[imsU]+)?)([:)]))")


class PatternNode(msgspec.Struct):
    """A part of an expression: set, assert, sequence, either or repeat."""

    kind: str
    characters: CharacterSet = 0
    assertion: str = ""
    children: tuple[PatternNode, ...] = ()
    least: int = 0
    most: int | None = None


def parse(expression: str) -> PatternNode:
    """The tree of the expression. Raises ValueError with the reason if it is not valid."""
    parser = _Parser(expression)
    node = parser.either(False, 0)
    if parser.more:
        raise ValueError("unexpected ): " + expression)
    return node


def set_of(characters: str) -> CharacterSet:
    return sum({ALPHABET[character] for character in characters if character in ALPHABET})


@final
class _Parser:
    """A recursive descent over the expression. `ignore_case` is an argument: it ends with its group."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._flags_case = False  # Flags without a group hold until the end of the enclosing one.

    @property
    def more(self) -> bool:
        return self._at < len(self._text)

    def either(self, ignore_case: bool, depth: int) -> PatternNode:
        if depth > _DEPTH_MAX:
            raise ValueError("expression nests too deeply")
        branches = []
        self._flags_case = ignore_case
        while True:
            branches.append(self._sequence(depth))
            if not self._take("|"):
                break
        return branches[0] if len(branches) == 1 else PatternNode("either", children=tuple(branches))

    def _sequence(self, depth: int) -> PatternNode:
        children: list[PatternNode] = []
        while self.more and self._text[self._at] not in "|)":
            if self._text.startswith("\\Q", self._at):
                children.extend(self._quoted())
                if not children:
                    continue
                atom: PatternNode | None = children.pop()  # A quantifier after a quotation is for its last character.
            else:
                atom = self._atom(depth)
            if atom is not None:
                children.append(self._repeated(atom))
        return PatternNode("sequence", children=tuple(children))

    def _atom(self, depth: int) -> PatternNode | None:
        start = self._at
        character = self._next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return PatternNode("set", characters=self._class(start))
        if character == ".":
            return PatternNode("set", characters=EVERY)
        if character == "^":
            return PatternNode("assert", assertion="begin")
        if character == "$":
            return PatternNode("assert", assertion="end")
        if character in "*+?":
            raise ValueError(f"missing argument to repetition operator: {character}")
        if character == "\\":
            return self._escape()
        return self._literal(character)

    def _group(self, depth: int) -> PatternNode | None:
        outer = ignore_case = self._flags_case
        if self._text.startswith("?", self._at):
            opening = _GROUP_OPENING.match(self._text, self._at)
            if opening is None:
                raise ValueError(f"invalid or unsupported Perl syntax: ({self._text[self._at : self._at + 3]}")
            self._at = opening.end()
            if opening[2] is not None:
                on, _, off = opening[2].partition("-")
                ignore_case = ("i" in on or ignore_case) and "i" not in off
                if opening[3] == ")":
                    self._flags_case = ignore_case
                    return None
        inside = self.either(ignore_case, depth + 1)
        if not self._take(")"):
            raise ValueError("missing closing )")
        self._flags_case = outer
        return inside

    def _repeated(self, atom: PatternNode) -> PatternNode:
        repeats = 0
        while self.more:
            bounds = self._quantifier()
            if bounds is None:
                break
            repeats += 1
            if repeats > 1:
                raise ValueError("invalid nested repetition operator")
            least, most = bounds
            atom = PatternNode("repeat", children=(atom,), least=least, most=most)
            self._take("?")
        return atom

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        counted = re.compile(r"\{(\d+)(?:(,)(\d*))?\}").match(self._text, self._at)
        if counted is None:
            return None  # RE2 reads a brace that is no counter as itself.
        self._at = counted.end()
        least = int(counted[1][:5])
        most = least if counted[2] is None else int(counted[3][:5]) if counted[3] else None
        if least > REPEAT_MAX or (most is not None and (most > REPEAT_MAX or most < least)):
            raise ValueError(f"invalid repeat count: {counted[0]}")
        return least, most

    # Characters

    def _literal(self, character: str) -> PatternNode:
        found = set_of(character)
        return PatternNode("set", characters=_both_cases(found) if self._flags_case else found)

    def _quoted(self) -> list[PatternNode]:
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at + 2 : end if end >= 0 else len(self._text)]
        self._at = end + 2 if end >= 0 else len(self._text)
        return [self._literal(one) for one in quoted]

    def _escape(self) -> PatternNode:
        if not self.more:
            raise ValueError("trailing backslash at end of expression")
        character = self._text[self._at]
        if character in _ASSERTIONS:
            self._at += 1
            return PatternNode("assert", assertion=_ASSERTIONS[character])
        found = self._escaped_class()
        if found is not None:
            return PatternNode("set", characters=found)
        return self._literal(self._escaped_character())

    def _escaped_class(self) -> CharacterSet | None:
        r"""\d, \D, \s, \S, \w, \W, \pN, \p{Lu}, \P{Lu}; None if it is something else."""
        character = self._text[self._at]
        if character.lower() in _ESCAPED_CLASSES:
            self._at += 1
            found = set_of(_NAMED_CLASSES[_ESCAPED_CLASSES[character.lower()]])
            return found if character.islower() else EVERY & ~found
        if character not in "pP":
            return None
        named = re.compile(r"[pP](?:\{(\^?)(\w+)\}|([A-Z]))").match(self._text, self._at)
        if named is None:
            raise ValueError("invalid character class range: \\" + self._text[self._at : self._at + 2])
        self._at = named.end()
        found = _category(named[2] or named[3])
        return EVERY & ~found if (character == "P") != bool(named[1]) else found

    def _escaped_character(self) -> str:
        """One character after a backslash. Those that names cannot have need no exact value."""
        character = self._next()
        if character in _CONTROLS:
            return " "
        if character == "x":
            coded = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}").match(self._text, self._at)
            if coded is None or int(coded[1] or coded[2], 16) > 0x10FFFF:
                raise ValueError("invalid escape sequence: \\x")
            self._at = coded.end()
            return chr(int(coded[1] or coded[2], 16))
        octal = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}").match(self._text, self._at - 1)
        if octal is not None:
            self._at = octal.end()
            return chr(int(octal[0], 8))
        if character.isascii() and not character.isalnum():
            return character
        raise ValueError(f"invalid escape sequence: \\{character}")

    def _class(self, start: int) -> CharacterSet:
        """A class in brackets, after the opening one."""
        negated = self._take("^")
        found: CharacterSet = 0
        first = True
        while first or not self._text.startswith("]", self._at):
            if not self.more:
                raise ValueError(f"missing closing ]: {self._text[start:]}")
            first = False
            found |= self._class_item()
        self._at += 1
        if self._flags_case:
            found = _both_cases(found)
        return EVERY & ~found if negated else found

    def _class_item(self) -> CharacterSet:
        if self._text.startswith("[:", self._at):
            named = re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at)
            if named is not None:
                if named[2] not in _NAMED_CLASSES:
                    raise ValueError(f"invalid character class range: {named[0]}")
                self._at = named.end()
                found = set_of(_NAMED_CLASSES[named[2]])
                return EVERY & ~found if named[1] else found
        low = self._class_character()
        if isinstance(low, int):
            return low
        high: str | CharacterSet = low
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            self._at += 1
            high = self._class_character() if self.more else low
        if isinstance(high, int) or high < low:
            raise ValueError(f"invalid character class range: {low}-{high if isinstance(high, str) else ''}")
        return sum(bit for character, bit in ALPHABET.items() if low <= character <= high)

    def _class_character(self) -> str | CharacterSet:
        character = self._next()
        if character != "\\":
            return character
        if not self.more:
            raise ValueError("trailing backslash at end of expression")
        found = self._escaped_class()
        return self._escaped_character() if found is None else found

    def _next(self) -> str:
        if not self.more:
            raise ValueError("unexpected end of expression")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, character: str) -> bool:
        if self._text.startswith(character, self._at):
            self._at += 1
            return True
        return False


def _both_cases(characters: CharacterSet) -> CharacterSet:
    for character, bit in ALPHABET.items():
        if characters & bit:
            characters |= ALPHABET[character.swapcase()]
    return characters


def _category(name: str) -> CharacterSet:
    """The characters of a Unicode category or script."""
    if name in _CATEGORIES:
        return sum(bit for character, bit in ALPHABET.items() if unicodedata.category(character).startswith(name))
    if name == "Any":
        return EVERY
    if name == "Latin":
        return set_of(string.ascii_letters)
    if name == "Common":
        return EVERY & ~set_of(string.ascii_letters)
    if re.fullmatch(r"[A-Z][a-z]+(_[A-Z][a-z]+)*", name) and name in _SCRIPTS:
        return 0
    raise ValueError(f"invalid character class range: \\p{{{name}}}")


# Scripts that expressions name in practice; no topic name has their characters.
_SCRIPTS: Final = frozenset(
    {"Arabic", "Armenian", "Cyrillic", "Georgian", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Thai"}
)
