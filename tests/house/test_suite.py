"""The suite in parts: every test is in one of them, none mingles with another, and the end forgets nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from house import suite
from house.environment import hot_files
from house.suite import (
    FAST,
    PLAIN_SOURCES,
    WHICH_BUILD,
    Outcome,
    Part,
    alone,
    combined,
    failures,
    judged_again,
    last_words,
    parts,
    plain,
    run_suite,
    summary,
)
from tests.examples import examples
from tests.house.repository import ROOT, repository_files

CONFTEST = """
from tests.left_out import report_left_out

def pytest_terminal_summary(terminalreporter):
    report_left_out(terminalreporter)
"""
TESTS = {
    "good": "def test_good():\n    pass\n",
    "bad": "def test_bad():\n    assert 'ducks' == 'geese'\n",
    "left_out": "from tests.left_out import leave_out\n\ndef test_birds():\n    leave_out('no ducks')\n",
}


def chooses(part: Part, file: Path) -> bool:
    """Whether a part of the installed build runs the tests of a file."""
    places = [ROOT / word for word in part.arguments if not word.startswith("-")]
    ignored = [ROOT / word.partition("=")[2] for word in part.arguments if word.startswith("--ignore=")]
    return any(file.is_relative_to(place) for place in places) and not any(file.is_relative_to(one) for one in ignored)


def test_every_test_is_in_one_part_of_the_installed_build() -> None:
    installed = parts("compiled")
    assert {part.build for part in installed} == {"compiled"}
    tests = [
        path for path in repository_files() if path.is_relative_to(ROOT / "tests") and path.name.startswith("test_")
    ]
    assert len(tests) > 100
    assert [file for file in tests if sum(chooses(part, file) for part in installed) != 1] == []
    for part in installed:
        assert any(chooses(part, file) for file in tests)
        assert not {"-m", "-k"}.intersection(part.arguments), "a part of the installed build chooses by place alone"


def test_the_fast_tests_of_compiled_rooms_run_as_plain_python() -> None:
    part = plain()
    assert part.build == PLAIN_SOURCES
    assert part.arguments[:4] == ("-q", "-m", FAST, WHICH_BUILD)
    assert (ROOT / WHICH_BUILD).is_file()
    places = [ROOT / place for place in part.arguments[4:]]
    assert all(place.is_dir() for place in places)
    source = ROOT / "src" / "longhall"
    for file in hot_files():
        mirrored = ROOT / "tests" / file.relative_to(source)
        assert file.parent == source or any(mirrored.is_relative_to(place) for place in places), file
    assert ROOT / "tests" / "house" not in places


def test_the_plain_sources_try_a_share_of_the_examples_of_the_suite() -> None:
    suite_plain = {"LONGHALL_TEST_EXAMPLES": "same", "LONGHALL_TEST_BUILD": PLAIN_SOURCES}
    assert examples(400, suite_plain) == 100
    assert examples(400, {**suite_plain, "LONGHALL_TEST_BUILD": "compiled"}) == 400
    assert examples(400, {}) == 400, "whoever works on a room tries all of them"


@pytest.mark.parametrize(("codes", "expected"), [([0, 0], 0), ([0, 5], 0), ([5, 1, 2], 1), ([0, -9], -9), ([2, 0], 2)])
def test_one_failure_is_a_failure_of_all(codes: list[int], expected: int) -> None:
    assert combined(codes) == expected


def test_the_end_names_each_part_each_failure_and_what_was_left_out() -> None:
    chosen = [Part("first", "x", ()), Part("second", "x", ())]
    outcomes = [
        Outcome(0, "3 passed in 1s", [], [("no ducks", "test_a"), ("no geese", "test_b")]),
        Outcome(
            1, "1 failed in 1s", ["FAILED test_c - of all things"], [("no ducks", "test_a"), ("no ducks", "test_d")]
        ),
    ]
    lines = summary(chosen, outcomes)
    assert lines[1:3] == ["first: 3 passed in 1s", "second: 1 failed in 1s"]
    assert " Left out " in lines[3]
    assert lines[4:9] == ["no ducks:", "    test_a", "    test_d", "no geese:", "    test_b"]
    assert lines[10:] == ["second: FAILED test_c - of all things"]
    assert "Left out: nothing" in summary(chosen[:1], [Outcome(0, "fine", [], [])])[-1]


def test_a_failure_that_does_not_repeat_is_named_and_one_that_does_fails() -> None:
    part = Part("clients", "x", ("tests/clients",))
    first = Outcome(1, "1 failed in 1s", ["FAILED tests/clients/test_a.py::test_b[1-c] - assert a == b"], [])
    assert alone(part, first.failed).arguments == ("tests/clients/test_a.py::test_b[1-c]",)
    assert judged_again(first, Outcome(1, "1 failed in 1s", first.failed, [])) == first
    assert judged_again(first, Outcome(5, "no tests ran", [], [])) == first
    passed = judged_again(first, Outcome(0, "1 passed in 1s", [], []))
    assert passed.code == 0
    lines = summary([part], [passed])
    assert "unsteady" in lines[-2]
    assert lines[-1] == "clients: FAILED tests/clients/test_a.py::test_b[1-c] - assert a == b"


def test_parts_that_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = []
    for name, text in TESTS.items():
        place = tmp_path / name
        place.mkdir()
        (place / "conftest.py").write_text(CONFTEST)
        (place / f"test_{name}.py").write_text(text)
        alone = ("-c", os.devnull, "-p", "no:asyncio", "-p", "no:hypothesispytest", "--rootdir", str(place), str(place))
        made.append(Part(name, PLAIN_SOURCES, alone))
    monkeypatch.setattr(suite, "plain", lambda: made[0])
    monkeypatch.setattr(suite, "parts", lambda build: made[1:] if build == "as prepared" else [])
    assert run_suite(lambda: "as prepared") == 1
    said = capfd.readouterr().out.splitlines()
    end = said[next(number for number, line in enumerate(said) if " the whole suite " in line) :]
    assert [line.partition(" in ")[0] for line in end[1:4]] == [
        "good: 1 passed",
        "bad: 1 failed",
        "left_out: 1 skipped",
    ]
    assert end[5:7] == ["no ducks:", "    test_left_out.py::test_birds"]
    assert end[8].startswith("bad: FAILED ")
    assert "test_bad.py::test_bad" in end[8]
    # What failed stands together, whatever else was said meanwhile.
    failure = next(number for number, line in enumerate(said) if " FAILURES " in line)
    assert any("'ducks' == 'geese'" in line for line in said[failure : failure + 8])
    assert any(line.startswith("good | ") for line in said)


def test_failures_are_those_of_the_summary() -> None:
    printed = [
        "===== FAILURES =====",
        "ERROR    longhall.kafka:loop.py:186 a request failed",
        "===== short test summary info =====",
        "FAILED tests/a.py::test_b - AssertionError",
        "ERROR tests/c.py::test_d",
        "===== 1 failed, 3 passed, 1 error in 2.00s =====",
        "%3|1795015935.668|FAIL|rdkafka#producer-114| Connection refused",
    ]
    assert failures(printed) == printed[3:5]
    assert failures(printed[:2]) == []
    assert last_words(printed) == "1 failed, 3 passed, 1 error in 2.00s"
    assert last_words([]) == ""
