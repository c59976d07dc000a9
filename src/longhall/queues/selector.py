"""Selectors in the syntax of JMS and STOMP: `city = 'Oslo' AND price > 10`.

    condition   = term { OR term }
    term        = factor { AND factor }
    factor      = [NOT] ( "(" condition ")" | predicate )
    predicate   = operand ( = | <> | < | <= | > | >= ) operand
                | name [NOT] IN ( 'text' {, 'text'} )
                | name [NOT] LIKE 'pattern' [ESCAPE 'c']          % is any run of characters, _ is one
                | operand [NOT] BETWEEN operand AND operand
                | name IS [NOT] NULL
                | name                                            true if its text is "true"
    operand     = name | number | 'text' | TRUE | FALSE

A name is an attribute; so is `"any characters"` in double quotes. `$key`, `$group`, `$priority` and `$correlation` are
fields of the message. In texts '' is a quote. As in SQL, a predicate on an absent attribute is unknown, and only
messages for which the condition is true match. Texts have no order; numbers compare exactly, with numbers and with
numeric text. There is no arithmetic.

A selector compiles to a `Filter`, bounded in length and nesting. Selectors do not read bodies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final, NoReturn

from longhall.errors import Code, LonghallError
from longhall.queues.envelope import Fields
from longhall.queues.filters import Filter, Value, compared, compile_policy, number_of, values_of

TEXT_CHARACTERS_MAX: Final = 16 * 1024
TOKENS_MAX: Final = 1024
NESTING_MAX: Final = 32

# The three truth values of SQL.
TRUE: Final = 1
FALSE: Final = 0
UNKNOWN: Final = -1

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r'|(?P<quoted>"[^"]+")'
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_.$-]*)"
    r"|(?P<sign><>|<=|>=|[=<>(),]))"
)
_WORDS: Final = frozenset({"AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE"})
_SIGNS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})


class _Node:
    """A node of the syntax tree; `says` evaluates it to TRUE, FALSE or UNKNOWN."""

    def says(self, message: Fields) -> int:
        raise NotImplementedError


class _Operand:
    """A name, or a literal value."""

    def __init__(self, name: str, value: Value) -> None:
        self.name = name
        self.value = value

    def of(self, message: Fields) -> Value:
        """The value for this message; None if the attribute is absent."""
        if not self.name:
            return self.value
        values = values_of(message, self.name)
        return values[0] if values else None


class _Junction(_Node):
    """OR, which one TRUE decides, or AND, which one FALSE decides."""

    def __init__(self, parts: list[_Node], decisive: int) -> None:
        self.parts = parts
        self.decisive = decisive

    def says(self, message: Fields) -> int:
        answer = FALSE if self.decisive == TRUE else TRUE
        for part in self.parts:
            said = part.says(message)
            if said == self.decisive:
                return said
            if said == UNKNOWN:
                answer = UNKNOWN
        return answer


class _Not(_Node):
    def __init__(self, part: _Node) -> None:
        self.part = part

    def says(self, message: Fields) -> int:
        said = self.part.says(message)
        return said if said == UNKNOWN else TRUE - said


class _Compare(_Node):
    def __init__(self, sign: str, left: _Operand, right: _Operand) -> None:
        self.sign = sign
        self.left = left
        self.right = right

    def says(self, message: Fields) -> int:
        left = self.left.of(message)
        right = self.right.of(message)
        if left is None or right is None:
            return UNKNOWN
        return _compared(self.sign, left, right)


class _Truth(_Node):
    def __init__(self, operand: _Operand) -> None:
        self.operand = operand

    def says(self, message: Fields) -> int:
        value = self.operand.of(message)
        return UNKNOWN if value is None else _compared("=", value, True)


class _Null(_Node):
    def __init__(self, operand: _Operand) -> None:
        self.operand = operand

    def says(self, message: Fields) -> int:
        return TRUE if self.operand.of(message) is None else FALSE


class _In(_Node):
    def __init__(self, operand: _Operand, wanted: frozenset[str]) -> None:
        self.operand = operand
        self.wanted = wanted

    def says(self, message: Fields) -> int:
        value = self.operand.of(message)
        if value is None:
            return UNKNOWN
        return TRUE if value in self.wanted else FALSE


class _Like(_Node):
    def __init__(self, operand: _Operand, pieces: list[list[str]]) -> None:
        self.operand = operand
        self.pieces = pieces

    def says(self, message: Fields) -> int:
        value = self.operand.of(message)
        if value is None:
            return UNKNOWN
        return TRUE if isinstance(value, str) and like_fits(value, self.pieces) else FALSE


class Selector(Filter):
    """A compiled selector."""

    def __init__(self, root: _Node) -> None:
        self.root = root

    def matches(self, message: Fields) -> bool:
        return self.root.says(message) == TRUE


def _compared(sign: str, left: Value, right: Value) -> int:
    if isinstance(left, bool) or isinstance(right, bool):
        same = _truth(left) is not None and _truth(left) == _truth(right)
        return _equality(sign, same)
    if isinstance(left, str) and isinstance(right, str) and sign in ("=", "<>"):
        return _equality(sign, left == right)
    one = number_of(left)
    other = number_of(right)
    if one is None or other is None:
        return _equality(sign, False)
    return TRUE if compared(sign, one, other) else FALSE


def _equality(sign: str, same: bool) -> int:
    """The result of a comparison of values without an order."""
    if sign == "=":
        return TRUE if same else FALSE
    return TRUE if sign == "<>" and not same else FALSE


def _truth(value: Value) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return None


def like_pieces(pattern: str, escape: str) -> list[list[str]]:
    """The pattern between its %, each piece as characters; "" is any one character."""
    pieces: list[list[str]] = [[]]
    escaped = False
    for character in pattern:
        if escaped:
            pieces[-1].append(character)
            escaped = False
        elif character == escape:
            escaped = True
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("" if character == "_" else character)
    return pieces


def like_fits(value: str, pieces: list[list[str]]) -> bool:
    """Match each piece at its earliest position, the first and the last at the ends; the cost is at most a product."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(value) == len(first) and _stands(value, 0, first)
    end = len(value) - len(last)
    if len(first) > end or not _stands(value, 0, first) or not _stands(value, end, last):
        return False
    at = len(first)
    for piece in pieces[1:-1]:
        while at + len(piece) <= end and not _stands(value, at, piece):
            at += 1
        if at + len(piece) > end:
            return False
        at += len(piece)
    return True


def _stands(value: str, at: int, piece: list[str]) -> bool:
    for index, character in enumerate(piece):
        if character and value[at + index] != character:
            return False
    return True


def compile_filter(text: str) -> Filter:
    """Compile a policy if the text begins with `{`, else a selector. Raises INVALID_REQUEST with the reason."""
    return compile_policy(text) if text.lstrip().startswith("{") else compile_selector(text)


def compile_selector(text: str) -> Selector:
    """Compile a selector. Raises INVALID_REQUEST with the reason."""
    if len(text) > TEXT_CHARACTERS_MAX:
        _refuse(f"it is longer than {TEXT_CHARACTERS_MAX} characters")
    parser = _Parser(_tokens(text))
    root = parser.condition(1)
    if parser.token[0] != "end":
        _refuse(f"unexpected {parser.token[1]!r}")
    return Selector(root)


def rename_fields(text: str, rename: Callable[[str], str]) -> str:
    """The same selector with other names. Raises INVALID_REQUEST for text that is no token."""
    parts: list[str] = []
    for kind, token in _lexemes(text):
        if kind == "quoted":
            token = f'"{rename(token[1:-1])}"'
        elif kind == "name" and token.upper() not in _WORDS:
            token = rename(token)
        parts.append(token)
    return " ".join(parts)


def _lexemes(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each token, as written."""
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            _refuse(f"unexpected text {text[at : at + 20].strip()!r}")
        yield match.lastgroup, match.group(match.lastgroup)
        at = match.end()


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token; keywords have the kind "word" and are in capitals."""
    found: list[tuple[str, str]] = []
    for kind, token in _lexemes(text):
        if kind == "text":
            token = token[1:-1].replace("''", "'")
        elif kind == "quoted":
            kind, token = "name", token[1:-1]
        elif kind == "name" and token.upper() in _WORDS:
            kind, token = "word", token.upper()
        found.append((kind, token))
        if len(found) > TOKENS_MAX:
            _refuse(f"it has more than {TOKENS_MAX} parts")
    found.append(("end", "the end"))
    return found


class _Parser:
    """A recursive-descent parser with one method for each line of the grammar."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> tuple[str, str]:
        return self.tokens[self.at]

    def take(self, kind: str, text: str = "") -> str | None:
        """Consume the next token if it has this kind and text; else None."""
        found = self.tokens[self.at]
        if found[0] != kind or (text and found[1] != text):
            return None
        self.at += 1
        return found[1]

    def need(self, kind: str, text: str = "") -> str:
        taken = self.take(kind, text)
        if taken is None:
            _refuse(f"{text or 'a ' + kind} was expected instead of {self.token[1]!r}")
        return taken

    def condition(self, depth: int) -> _Node:
        if depth > NESTING_MAX:
            _refuse(f"it is nested more than {NESTING_MAX} deep")
        parts = [self.term(depth)]
        while self.take("word", "OR"):
            parts.append(self.term(depth))
        return parts[0] if len(parts) == 1 else _Junction(parts, TRUE)

    def term(self, depth: int) -> _Node:
        parts = [self.factor(depth)]
        while self.take("word", "AND"):
            parts.append(self.factor(depth))
        return parts[0] if len(parts) == 1 else _Junction(parts, FALSE)

    def factor(self, depth: int) -> _Node:
        negated = False
        while self.take("word", "NOT"):
            negated = not negated
        if self.take("sign", "("):
            node = self.condition(depth + 1)
            self.need("sign", ")")
        else:
            node = self.predicate()
        return _Not(node) if negated else node

    def predicate(self) -> _Node:
        left = self.operand()
        kind, text = self.token
        if kind == "sign" and text in _SIGNS:
            self.at += 1
            return _Compare(text, left, self.operand())
        if self.take("word", "IS"):
            negated = self.take("word", "NOT") is not None
            self.need("word", "NULL")
            return _Not(_Null(left)) if negated else _Null(left)
        negated = self.take("word", "NOT") is not None
        node = self.membership(left)
        if node is None:
            if negated:
                _refuse("NOT behind a name is followed by IN, LIKE or BETWEEN")
            return _Truth(left)
        return _Not(node) if negated else node

    def membership(self, left: _Operand) -> _Node | None:
        if self.take("word", "IN"):
            self.need("sign", "(")
            wanted = [self.need("text")]
            while self.take("sign", ","):
                wanted.append(self.need("text"))
            self.need("sign", ")")
            return _In(left, frozenset(wanted))
        if self.take("word", "LIKE"):
            pattern = self.need("text")
            escape = self.need("text") if self.take("word", "ESCAPE") else ""
            if len(escape) > 1:
                _refuse("ESCAPE takes one character")
            return _Like(left, like_pieces(pattern, escape))
        if self.take("word", "BETWEEN"):
            low = self.operand()
            self.need("word", "AND")
            return _Junction([_Compare(">=", left, low), _Compare("<=", left, self.operand())], FALSE)
        return None

    def operand(self) -> _Operand:
        kind, text = self.token
        self.at += 1
        if kind == "name":
            return _Operand(text, None)
        if kind == "text":
            return _Operand("", text)
        if kind == "number":
            return _Operand("", Decimal(text))
        if kind == "word" and text in ("TRUE", "FALSE"):
            return _Operand("", text == "TRUE")
        _refuse(f"a name or a value was expected instead of {text!r}")


def _refuse(why: str) -> NoReturn:
    raise LonghallError(Code.INVALID_REQUEST, f"selector: {why}")
