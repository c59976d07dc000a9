"""Filter policies in the form of SNS: which messages match, by attributes, key, group, priority and correlation id.

A policy is a JSON object. Every name in it must match, and a name matches if one of its conditions does:

    {"city": ["Oslo", {"prefix": "Ber"}], "price": [{"numeric": [">", 10, "<=", 20]}], "$priority": [3, 4]}

    condition                             matches
    "text", 12.5, true, null              the attribute is just that (null: the JSON null in a String.Array)
    {"prefix": "a"}, {"suffix": "z"}      text that begins, ends so
    {"equals-ignore-case": "oslo"}        text, whatever the case
    {"wildcard": "a*z"}                   text; * is any run of characters
    {"anything-but": X}                   the attribute is there and is not X: a text, a number, a list of them, or
                                          {"prefix": ..}, {"suffix": ..}, {"wildcard": ..}, {"equals-ignore-case": ..}
    {"numeric": [op, n]}                  =, <, <=, >, >=; two pairs make a range: [">=", 0, "<", 100]
    {"exists": true}                      the attribute is there; with false: it is not
    "$or": [policy, policy, ...]          beside names: one of these policies matches, and so must the rest

`$key`, `$group`, `$priority` and `$correlation` are fields of the message. An attribute of type String.Array (a JSON
list) matches if one of its elements does. Numbers match Number attributes and, unlike in SNS, numeric text, because
headers of Kafka producers have no type. Comparison is exact, in decimals. Addresses ("cidr") are not supported.

A filter is compiled once and evaluated for each message. Size and nesting are bounded. Filters do not read bodies.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from mypy_extensions import mypyc_attr

from longhall.errors import Code, LonghallError
from longhall.queues.envelope import Fields

TEXT_BYTES_MAX: Final = 64 * 1024
CONDITIONS_MAX: Final = 512
NESTING_MAX: Final = 8
STARS_MAX: Final = 8
NUMBER_CHARACTERS_MAX: Final = 48

KEY: Final = "$key"
GROUP: Final = "$group"
PRIORITY: Final = "$priority"
CORRELATION: Final = "$correlation"
OR: Final = "$or"

# A text, a number, true, false, or None for JSON's null.
Value = str | int | Decimal | bool | None
Number = int | Decimal


@mypyc_attr(allow_interpreted_subclasses=True)
class Filter:
    """A compiled condition over the fields of a message."""

    def matches(self, message: Fields) -> bool:
        raise NotImplementedError


class All(Filter):
    """Matches if every part matches; always, without parts."""

    def __init__(self, parts: list[Filter]) -> None:
        self.parts = parts

    def matches(self, message: Fields) -> bool:
        for part in self.parts:
            if not part.matches(message):
                return False
        return True


class Some(Filter):
    """Matches if one part matches."""

    def __init__(self, parts: list[Filter]) -> None:
        self.parts = parts

    def matches(self, message: Fields) -> bool:
        for part in self.parts:
            if part.matches(message):
                return True
        return False


class Named(Filter):
    """Matches if a value under `name` meets one of the conditions."""

    def __init__(self, name: str, conditions: list[Condition]) -> None:
        self.name = name
        self.conditions = conditions

    def matches(self, message: Fields) -> bool:
        values = values_of(message, self.name)
        for condition in self.conditions:
            if condition.holds(values):
                return True
        return False


@mypyc_attr(allow_interpreted_subclasses=True)
class Condition:
    """A condition on the values of one attribute: no values if it is absent, several if it is a list."""

    def holds(self, values: list[Value]) -> bool:
        for value in values:
            if self.fits(value):
                return True
        return False

    def fits(self, value: Value) -> bool:
        """True if one value meets the condition."""
        raise NotImplementedError


class Exactly(Condition):
    """Matches one value: a text, a number, a boolean or null."""

    def __init__(self, wanted: Value) -> None:
        self.wanted = wanted
        self.is_number = isinstance(wanted, int | Decimal) and not isinstance(wanted, bool)

    def fits(self, value: Value) -> bool:
        if self.is_number:
            number = number_of(value)
            return number is not None and number == self.wanted
        return type(value) is type(self.wanted) and value == self.wanted


class Prefix(Condition):
    """Matches text with this prefix."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def fits(self, value: Value) -> bool:
        return isinstance(value, str) and value.startswith(self.wanted)


class Suffix(Condition):
    """Matches text with this suffix."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def fits(self, value: Value) -> bool:
        return isinstance(value, str) and value.endswith(self.wanted)


class IgnoringCase(Condition):
    """Matches text without regard to case."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted.casefold()

    def fits(self, value: Value) -> bool:
        return isinstance(value, str) and value.casefold() == self.wanted


class Wildcard(Condition):
    """Matches each piece between stars at its earliest position, which costs a few searches."""

    def __init__(self, pattern: str) -> None:
        self.pieces = pattern.split("*")

    def fits(self, value: Value) -> bool:
        return isinstance(value, str) and wildcard_fits(value, self.pieces)


class AnythingBut(Condition):
    """Matches a value that meets none of these conditions."""

    def __init__(self, unwanted: list[Condition]) -> None:
        self.unwanted = unwanted

    def fits(self, value: Value) -> bool:
        for condition in self.unwanted:
            if condition.fits(value):
                return False
        return True


class Numeric(Condition):
    """Matches a number within all bounds, each an operator and a number."""

    def __init__(self, bounds: list[tuple[str, Number]]) -> None:
        self.bounds = bounds

    def fits(self, value: Value) -> bool:
        number = number_of(value)
        if number is None:
            return False
        for operator, bound in self.bounds:
            if not compared(operator, number, bound):
                return False
        return True


class Exists(Condition):
    """Matches if the attribute is present, or absent."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def holds(self, values: list[Value]) -> bool:
        return bool(values) is self.wanted


def compared(operator: str, one: Number, other: Number) -> bool:
    """The result of `one operator other` for =, <>, <, <=, > or >=."""
    if operator == "=":
        return one == other
    if operator == "<>":
        return one != other
    if operator == "<":
        return one < other
    if operator == "<=":
        return one <= other
    if operator == ">":
        return one > other
    return one >= other


def wildcard_fits(value: str, pieces: list[str]) -> bool:
    """True if the text is these pieces with any characters between them."""
    if len(pieces) == 1:
        return value == pieces[0]
    if len(value) < len(pieces[0]) + len(pieces[-1]) or not value.startswith(pieces[0]):
        return False
    if not value.endswith(pieces[-1]):
        return False
    at = len(pieces[0])
    end = len(value) - len(pieces[-1])
    for piece in pieces[1:-1]:
        at = value.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def values_of(message: Fields, name: str) -> list[Value]:
    """The values of a message under a name: none, one, or the elements of a list."""
    attribute = message.attributes.get(name)
    if attribute is None:
        if name == PRIORITY:
            return [message.priority]
        if name == KEY:
            return [] if message.key is None else [message.key.decode("utf-8", "replace")]
        if name == GROUP:
            return [message.group] if message.group else []
        if name == CORRELATION:
            return [message.correlation_id] if message.correlation_id else []
        return []
    kind, raw = attribute
    if kind.startswith("Binary"):
        return [raw.hex()]  # Only `exists` is useful on binary attributes.
    text = raw.decode("utf-8", "replace")
    if kind == "String.Array":
        return _elements(text)
    return [text]


def _elements(text: str) -> list[Value]:
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return [text]
    if not isinstance(found, list):
        return [text]
    return [one for one in found if one is None or isinstance(one, str | int | Decimal)]


def number_of(value: Value) -> Number | None:
    """The value as a number; None if it is not numeric."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | Decimal):
        return value
    if len(value) > NUMBER_CHARACTERS_MAX or not value.isascii() or "_" in value:
        return None
    if value.isdigit():
        return int(value)
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def compile_policy(text: str | bytes) -> Filter:
    """Compile a policy. Raises INVALID_REQUEST with the path of the error."""
    if len(text) > TEXT_BYTES_MAX:
        _refuse("", f"it is longer than {TEXT_BYTES_MAX} bytes")
    try:
        policy = json.loads(text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_distinct)
    except LonghallError:
        raise
    except (ValueError, RecursionError) as error:
        _refuse("", f"it is not valid JSON ({error})" if isinstance(error, ValueError) else "it is nested too deeply")
    return _Compiler().policy(policy, "", 1)


class _Compiler:
    """Compiles one policy and bounds the number of its conditions."""

    def __init__(self) -> None:
        self.count = 0

    def policy(self, policy: Any, where: str, depth: int) -> Filter:
        if not isinstance(policy, dict) or not policy:
            _refuse(where, "a policy is an object with at least one name")
        if depth > NESTING_MAX:
            _refuse(where, f"policies are nested more than {NESTING_MAX} deep")
        parts: list[Filter] = []
        for name, asked in policy.items():
            here = f"{where}.{name}" if where else str(name)
            if name == OR:
                if not isinstance(asked, list) or len(asked) < 2:
                    _refuse(here, "$or takes a list of at least two policies")
                parts.append(Some([self.policy(one, f"{here}[{at}]", depth + 1) for at, one in enumerate(asked)]))
                continue
            if name.startswith("$") and name not in (KEY, GROUP, PRIORITY, CORRELATION):
                _refuse(here, f"beside attributes there are {KEY}, {GROUP}, {PRIORITY}, {CORRELATION} and {OR}")
            if not isinstance(asked, list) or not asked:
                _refuse(here, "a name takes a list of at least one condition")
            parts.append(Named(name, [self.condition(one, f"{here}[{at}]") for at, one in enumerate(asked)]))
        return All(parts)

    def condition(self, asked: Any, where: str) -> Condition:
        self.count += 1
        if self.count > CONDITIONS_MAX:
            _refuse(where, f"there are more than {CONDITIONS_MAX} conditions")
        if not isinstance(asked, dict):
            return Exactly(_scalar(asked, where))
        if len(asked) != 1:
            _refuse(where, "a condition is one value, or an object with one word")
        word, operand = next(iter(asked.items()))
        if word == "exists":
            if not isinstance(operand, bool):
                _refuse(where, "exists takes true or false")
            return Exists(operand)
        if word == "numeric":
            return _numeric(operand, where)
        if word == "anything-but":
            return AnythingBut(self.unwanted(operand, where))
        return self.textual(word, operand, where)

    def textual(self, word: str, operand: Any, where: str) -> Condition:
        if word not in ("prefix", "suffix", "equals-ignore-case", "wildcard"):
            _refuse(where, f"{word!r} is not a condition")
        if not isinstance(operand, str) or not operand:
            _refuse(where, f"{word} takes a text that is not empty")
        if word == "prefix":
            return Prefix(operand)
        if word == "suffix":
            return Suffix(operand)
        if word == "equals-ignore-case":
            return IgnoringCase(operand)
        if operand.count("*") > STARS_MAX:
            _refuse(where, f"a wildcard has at most {STARS_MAX} stars")
        return Wildcard(operand)

    def unwanted(self, operand: Any, where: str) -> list[Condition]:
        if isinstance(operand, dict):
            if len(operand) != 1:
                _refuse(where, "anything-but takes an object with one word")
            word, inner = next(iter(operand.items()))
            inners = inner if isinstance(inner, list) else [inner]
            return [self.counted(self.textual(word, one, where), where) for one in inners]
        listed = operand if isinstance(operand, list) else [operand]
        if not listed:
            _refuse(where, "anything-but takes at least one value")
        return [self.counted(Exactly(_scalar(one, where)), where) for one in listed]

    def counted(self, condition: Condition, where: str) -> Condition:
        self.count += 1
        if self.count > CONDITIONS_MAX:
            _refuse(where, f"there are more than {CONDITIONS_MAX} conditions")
        return condition


def _numeric(operand: Any, where: str) -> Condition:
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        _refuse(where, 'numeric takes one operator and number, or two: [">", 0, "<=", 5]')
    bounds: list[tuple[str, Number]] = []
    for at in range(0, len(operand), 2):
        operator, bound = operand[at], operand[at + 1]
        if operator not in ("=", "<", "<=", ">", ">="):
            _refuse(where, f"{operator!r} is none of =, <, <=, >, >=")
        if isinstance(bound, bool) or not isinstance(bound, int | Decimal):
            _refuse(where, f"{bound!r} is not a number")
        bounds.append((operator, bound))
    if len(bounds) == 2 and (bounds[0][0] not in (">", ">=") or bounds[1][0] not in ("<", "<=")):
        _refuse(where, "a range begins with > or >= and ends with < or <=")
    if len(bounds) == 2 and bounds[0][1] >= bounds[1][1]:
        _refuse(where, "the lower end of a range must be below the upper end")
    return Numeric(bounds)


def _scalar(value: Any, where: str) -> Value:
    if value is None or isinstance(value, str | int | Decimal):
        return value
    _refuse(where, "a value is a text, a number, true, false or null")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            _refuse(name, "the name occurs twice")
        found[name] = value
    return found


def _no_constant(word: str) -> NoReturn:
    _refuse("", f"{word} is not a number")


def _refuse(where: str, why: str) -> NoReturn:
    raise LonghallError(Code.INVALID_REQUEST, f"filter policy, {where}: {why}" if where else f"filter policy: {why}")
