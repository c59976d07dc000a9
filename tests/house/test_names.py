"""Class names that two rooms share are in the glossary; the other lists show places to look at, and never fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import names
from house.names import Sources, read_sources
from tests.house.repository import ROOT

GLOSSARY = """
# Glossary

| `Other` | not in the section | `log/other.py` |

## Class names with several meanings

| class | meanings |
|---|---|
| `Door` | the Kafka door (`doors/kafka/door.py`); the SQS door (`doors/sqs/door.py`) |

## Something else

| `Later` | not in the section either (`log/later.py`) |
"""


def package(directory: Path, **files: str) -> Sources:
    """The sources of a package that has these files; `__` in a name is a directory."""
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_sources(directory)


@pytest.fixture(scope="module")
def tree() -> Sources:
    return read_sources(ROOT / "src" / "longhall")


def test_every_class_name_of_two_rooms_is_explained(tree: Sources) -> None:
    assert names.unexplained(tree, (ROOT / "docs" / "glossary.md").read_text()) == []


def test_a_class_name_of_two_rooms_is_refused(tmp_path: Path) -> None:
    sources = package(
        tmp_path, log__lane="class Lane: ...", queues__lane="class Lane: ...", queues__more="class A: ..."
    )
    (refusal,) = names.unexplained(sources, GLOSSARY)
    assert "class Lane" in refusal
    assert "log/lane.py and queues/lane.py" in refusal


def test_sub_rooms_are_rooms_and_deeper_packages_are_not(tmp_path: Path) -> None:
    sources = package(
        tmp_path,
        doors__kafka__wire__fetch="class Fetch: ...",
        doors__kafka__wire__messages__data="class Fetch: ...",
        doors__kafka__connection="class Connection: ...",
        doors__sqs__connection="class Connection: ...",
    )
    assert list(names.shared_names(sources)) == ["Connection"]


def test_a_private_class_belongs_to_its_file(tmp_path: Path) -> None:
    assert names.shared_names(package(tmp_path, log__a="class _Event: ...", queues__b="class _Event: ...")) == {}


def test_classes_inside_functions_and_conditions_count(tmp_path: Path) -> None:
    inner = "def make():\n    try:\n        pass\n    except OSError:\n        class Hidden: ...\n"
    sources = package(tmp_path, log__a=inner, queues__b="if True:\n    class Hidden: ...\n")
    assert list(names.shared_names(sources)) == ["Hidden"]


def test_the_glossary_has_to_name_every_file(tmp_path: Path) -> None:
    both = package(tmp_path, doors__kafka__door="class Door: ...", doors__sqs__door="class Door: ...")
    assert names.unexplained(both, GLOSSARY) == []
    (refusal,) = names.unexplained(package(tmp_path, console__door="class Door: ..."), GLOSSARY)
    assert "add console/door.py to" in refusal


def test_rows_outside_the_section_explain_nothing() -> None:
    assert names.explained_names(GLOSSARY) == {"Door": {"doors/kafka/door.py", "doors/sqs/door.py"}}


@pytest.mark.parametrize("stem", ["electing", "carried", "receive_any", "its_state", "kafka_conn"])
def test_files_without_a_noun_are_shown(tmp_path: Path, stem: str) -> None:
    assert names.file_names(package(tmp_path, **{stem: "", "election": "", "staging": "", "feed": ""})) == [
        f"{stem}.py"
    ]


def test_the_largest_come_first(tmp_path: Path) -> None:
    small = "class Small:\n    def __init__(self, a):\n        self.a = a\n"
    large = (
        "class Large:\n    def __init__(self, a, *, b, **c):\n        self.a = self.b = b\n        self.a, self.c = c\n"
    )
    sources = package(tmp_path, small=small, large=large, none="class None_: ...")
    assert names.large_functions(sources)[0] == (3, "large.py:2 __init__")
    assert names.large_constructors(sources) == [(3, "large.py:1 Large"), (1, "small.py:1 Small")]
    assert names.large_objects(sources) == [(3, "large.py:1 Large"), (1, "small.py:1 Small")]


def test_a_docstring_that_points_at_the_module_is_none(tmp_path: Path) -> None:
    sources = package(
        tmp_path,
        a='class Silent: ...\nclass Pointing:\n    """See the module."""\n',
        b='class _Private: ...\nclass Described:\n    """See the module. Closed by the end of the process."""\n',
    )
    assert names.undescribed_classes(sources) == ["a.py:1 Silent", "a.py:2 Pointing"]


def test_packages_without_tests_are_shown(tmp_path: Path) -> None:
    sources = package(tmp_path / "src", log__wal="", log__deep__x="", queues__queue="", top="")
    tests = tmp_path / "tests"
    (tests / "log" / "deep").mkdir(parents=True)
    (tests / "log" / "test_wal.py").touch()
    (tests / "queues").mkdir()
    assert names.unmirrored_rooms(sources, tests) == ["log/deep", "queues"]


def test_the_report_of_this_tree_has_every_list(tree: Sources) -> None:
    titles = [line for line in names.report(tree, ROOT / "tests") if not line.startswith(" ")]
    assert len(titles) == 6


def test_only_unexplained_names_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text(GLOSSARY)
    source = tmp_path / "src" / "longhall"
    package(source, log__mending="class Silent: ...")
    assert names.main(tmp_path) == 0
    assert "log/mending.py" in capsys.readouterr().out
    package(source, queues__again="class Silent: ...")
    assert names.main(tmp_path) == 1
    assert "class Silent" in capsys.readouterr().out
