"""Every refusal has a status, and words."""

from __future__ import annotations

import pytest

from longhall.console.api.refusals import STATUS, refusal_of, refuse
from longhall.errors import Code, LonghallError


@pytest.mark.parametrize("code", list(Code))
def test_the_table_is_total(code: Code) -> None:
    assert STATUS[code] >= 400
    answer = refuse(LonghallError(code))
    assert answer.status is STATUS[code]
    assert refusal_of(code).message
