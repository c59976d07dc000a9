"""The page of topic configurations is what the code says, and every effect has a test."""

from __future__ import annotations

from house.topic_configurations import PAGE, TESTS, page
from longhall.broker.configuration import SETTINGS
from tests.house.repository import ROOT


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / PAGE).read_text() == page(), "run python -m house.topic_configurations"


def test_every_effect_has_a_test_that_exists() -> None:
    assert TESTS.keys() == {name for name, setting in SETTINGS.items() if not setting.no_effect}
    for path in TESTS.values():
        file, _, name = path.partition("::")
        assert not name or f"def {name}(" in (ROOT / file).read_text(), path
        assert (ROOT / file).exists(), path
