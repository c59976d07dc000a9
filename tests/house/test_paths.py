"""Every path that the documents name exists, so that the map can be trusted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.repository import ROOT, name_of

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
# Beginnings that make a word in code type a path of this repository rather than, say, a media type.
TOP = tuple(
    f"{path.name}{'/' if path.is_dir() else ''}"
    for path in ROOT.iterdir()
    if path.name not in (".git", ".venv", "build")
)
ROOMS = tuple(f"{path.name}/" for path in (ROOT / "src" / "longhall").iterdir() if path.is_dir())
PLACES = (ROOT, ROOT / "src" / "longhall", ROOT / "docs")


def documents() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page.exists()]


def named_paths(text: str) -> list[str]:
    """Words in code type that look like a path of ours: by their beginning, or as `file.py` or `room/`."""
    words = [word for code in CODE.findall(text) for word in code.split()]
    return [
        word
        for word in (word.rstrip(",.;:") for word in words)
        if PATH.fullmatch(word)
        and (word.startswith((*TOP, *ROOMS)) or re.fullmatch(r"[\w/-]+(/|\.(py|md|toml))", word))
    ]


def exists(word: str, document: Path) -> bool:
    if "/" not in word.rstrip("/") and word.endswith(".py"):
        return any(True for _ in (ROOT / "src").rglob(word)) or (ROOT / word).exists()
    found = [path for place in (*PLACES, document.parent) for path in place.glob(word.rstrip("/"))]
    # An empty directory is not in a clone.
    return any(path.is_file() or any(path.iterdir()) for path in found)


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_named_paths_exist(document: Path) -> None:
    missing = [word for word in named_paths(document.read_text()) if not exists(word, document)]
    assert not missing, f"{name_of(document)} names what is not there"


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_links_have_existing_targets(document: Path) -> None:
    links = [
        link for link in LINK.findall(document.read_text()) if "://" not in link and not link.startswith("mailto:")
    ]
    missing = [link for link in links if not (document.parent / link).exists()]
    assert not missing, f"{name_of(document)} links to what is not there"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see `src/longhall/errors.py`, `names.py`.", ["src/longhall/errors.py", "names.py"]),
        ("`application/json` and `GET /metrics` are no paths", []),
        ("run `./dev test`; it writes `docs/limits.md`", ["docs/limits.md"]),
        ("the room `world/`", ["world/"]),
    ],
)
def test_words_that_count_as_a_path(text: str, expected: list[str]) -> None:
    assert named_paths(text) == expected


def test_every_row_of_the_glossary_says_where() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    rows = [line.strip("| ").split(" | ") for line in glossary.read_text().splitlines() if line.startswith("| ")]
    terms = [row for row in rows if len(row) == 4 and row[0] != "our term"]
    assert len(terms) > 50
    nowhere = [row[0] for row in terms if not named_paths(row[3]) and not LINK.search(row[3])]
    assert nowhere == []


def test_the_map_names_every_room() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rooms = [path.parent.name for path in (ROOT / "src" / "longhall").glob("*/__init__.py")]
    assert [room for room in rooms if f"{room}/" not in text] == []
