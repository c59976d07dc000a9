"""The number of examples that a Hypothesis test tries.

`./dev test` tries the same examples on both builds. The installed build, which users run, tries all of them. The plain
sources try a quarter: enough to notice that compiled and plain code differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

DEFAULT = 100
PLAIN_SHARE = 4


def examples(count: int = DEFAULT, environment: Mapping[str, str] = os.environ) -> int:
    """So many examples, or the share of the plain sources."""
    is_plain = environment.get("LONGHALL_TEST_BUILD", "plain-sources") == "plain-sources"
    is_share = is_plain and environment.get("LONGHALL_TEST_EXAMPLES") == "same"
    return max(1, count // PLAIN_SHARE) if is_share else count
