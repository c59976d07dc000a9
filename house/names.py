"""Names, sizes and docstrings of the sources, read from the syntax tree alone.

One rule fails: a public class name that two rooms define needs a row in docs/glossary.md, in the section "Class names
with several meanings", that names each of the files. The other lists show places to look at and never fail: a long
function may be right, and a word in -ing may be a noun.

A room is a package of src/longhall, or a package inside one: `log`, `doors/kafka`, `pipeline/archive`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

SECTION: Final = "## Class names with several meanings"
LISTED_MAX: Final = 5  # Places that one list shows.
FUNCTION_LINES: Final = 50
PARAMETERS: Final = 8
FIELDS: Final = 12
CODE: Final = re.compile(r"`([^`\n]+)`")
PARTICIPLE: Final = re.compile(r"[a-z]{2,}(?:ing|ed)")
# Nouns of the field that end like participles.
NOUNS: Final = {"embedded", "feed", "routing", "shed", "speed", "staging", "string", "thing", "timing"}
PRONOUNS: Final = {"all", "any", "both", "each", "he", "her", "it", "its", "others", "that", "them", "they", "who"}
ABBREVIATIONS: Final = {"auth", "cfg", "cmd", "conf", "conn", "ctx", "db", "err", "impl", "mgr", "msg", "num", "obj"}
CUT_SHORT: Final = ABBREVIATIONS | {"param", "params", "proc", "req", "res", "resp", "srv", "svc", "tmp", "txn"}


class Class(NamedTuple):
    """A class, and its constructor if it has one."""

    name: str
    file: str
    line: int
    docstring: str
    constructor: ast.FunctionDef | None


class Function(NamedTuple):
    """A function or method with the lines that it takes."""

    name: str
    file: str
    line: int
    lines: int


class Sources(NamedTuple):
    """What the files of a package define. Paths are relative to the package."""

    files: list[str]
    classes: list[Class]
    functions: list[Function]


class Place(NamedTuple):
    """Somewhere to look: the size that put it on the list, and where it is."""

    size: int
    where: str


def read_sources(package: Path) -> Sources:
    """Parse every file of a package."""
    sources = Sources([], [], [])
    for path in sorted(package.rglob("*.py")):
        file = str(path.relative_to(package))
        sources.files.append(file)
        for node in _definitions(ast.parse(path.read_bytes()).body):
            if isinstance(node, ast.ClassDef):
                docstring = ast.get_docstring(node) or ""
                sources.classes.append(Class(node.name, file, node.lineno, docstring, _constructor(node)))
            else:
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                sources.functions.append(Function(node.name, file, node.lineno, lines))
    return sources


def _definitions(body: Iterable[ast.AST]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes and functions at any depth. Statements alone are visited, which is much faster than `ast.walk`."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):
                yield from _definitions(inner)


def room_of(file: str) -> str:
    """The package of a file; of packages deeper than two, the second."""
    return "/".join(Path(file).parts[:-1][:2])


# The rule that fails


def shared_names(sources: Sources) -> dict[str, list[str]]:
    """Public class names that several rooms define, with their files."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for one in sources.classes:
        if not one.name.startswith("_"):
            files[one.name].append(one.file)
    return {name: places for name, places in sorted(files.items()) if len({room_of(place) for place in places}) > 1}


def explained_names(glossary: str) -> dict[str, set[str]]:
    """The rows of the glossary's section: each class name with the files that its meanings name."""
    section = glossary.partition(SECTION)[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    return {name: set(CODE.findall("|".join(row[2:]))) for row in rows if len(row) > 2 for name in CODE.findall(row[1])}


def unexplained(sources: Sources, glossary: str) -> list[str]:
    """What has to be renamed or explained, one sentence each."""
    explained = explained_names(glossary)
    return [
        f"several rooms define a class {name}: rename it, or add {' and '.join(missing)} to docs/glossary.md"
        for name, files in shared_names(sources).items()
        if (missing := [file for file in files if file not in explained.get(name, ())])
    ]


# Places to look at


def file_names(sources: Sources) -> list[str]:
    """Files named by a participle, a pronoun or an abbreviation."""
    odd = PRONOUNS | CUT_SHORT
    return [
        file
        for file in sources.files
        if not file.endswith("__.py")
        if any(word in odd or _is_participle(word) for word in Path(file).stem.split("_"))
    ]


def _is_participle(word: str) -> bool:
    return PARTICIPLE.fullmatch(word) is not None and word not in NOUNS


def large_functions(sources: Sources) -> list[Place]:
    """Functions by their lines."""
    return _largest(Place(one.lines, f"{one.file}:{one.line} {one.name}") for one in sources.functions)


def large_constructors(sources: Sources) -> list[Place]:
    """Classes by the parameters of `__init__`, without self."""
    return _largest(
        Place(_parameters(one.constructor.args) - 1, f"{one.file}:{one.line} {one.name}")
        for one in sources.classes
        if one.constructor is not None
    )


def large_objects(sources: Sources) -> list[Place]:
    """Classes by the fields that `__init__` assigns."""
    return _largest(
        Place(len(_fields(one.constructor)), f"{one.file}:{one.line} {one.name}")
        for one in sources.classes
        if one.constructor is not None
    )


def undescribed_classes(sources: Sources) -> list[str]:
    """Public classes without a docstring of their own."""
    return [
        f"{one.file}:{one.line} {one.name}"
        for one in sources.classes
        if not one.name.startswith("_") and one.docstring.strip() in ("", "See the module.")
    ]


def unmirrored_rooms(sources: Sources, tests: Path) -> list[str]:
    """Packages without a directory of tests of the same path, or with one that has no tests."""
    packages = sorted({str(Path(file).parent) for file in sources.files} - {"."})
    return [package for package in packages if not any((tests / package).glob("**/test_*.py"))]


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)


def _parameters(arguments: ast.arguments) -> int:
    several = (arguments.vararg is not None) + (arguments.kwarg is not None)
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs) + several


def _fields(method: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def _largest(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: (-place.size, place.where))


# The report


def report(sources: Sources, tests: Path) -> list[str]:
    """Lines for people: how many there are of each kind, and the first of them."""
    lines: list[str] = []
    for title, least, places in (
        (f"functions of more than {FUNCTION_LINES} lines", FUNCTION_LINES, large_functions(sources)),
        (f"constructors of more than {PARAMETERS} parameters", PARAMETERS, large_constructors(sources)),
        (f"objects of more than {FIELDS} fields", FIELDS, large_objects(sources)),
    ):
        lines += _listed(title, [f"{place.size:4} {place.where}" for place in places if place.size > least])
    lines += _listed("files named by a participle, a pronoun or an abbreviation", file_names(sources))
    lines += _listed("public classes without a docstring of their own", undescribed_classes(sources))
    lines += _listed("packages without tests of the same path", unmirrored_rooms(sources, tests))
    return lines


def _listed(title: str, places: Sequence[str]) -> list[str]:
    shown = [f"  {place}" for place in places[:LISTED_MAX]]
    more = [f"  and {len(places) - LISTED_MAX} more"] if len(places) > LISTED_MAX else []
    return [f"{title}: {len(places)}", *shown, *more]


def main(root: Path) -> int:
    """Print the report and the unexplained names; 1 if there are any of these."""
    sources = read_sources(root / "src" / "longhall")
    wrong = unexplained(sources, (root / "docs" / "glossary.md").read_text())
    print(*report(sources, root / "tests"), *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
