"""Long lists in pages. A token is the last name of the page before, so changes in between do no harm."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final

from longhall.doors.sqs.wire.faults import wrong_value

RESULTS_MAX: Final = 1000


def page(names: Iterable[str], results_max: int | None, token: str | None) -> tuple[list[str], str | None]:
    """The names of one page in their order, and the token of the next one. Raises SqsError.

    Without a number there is one page of the largest size and no token, as in the service.
    """
    if results_max is not None and not 1 <= results_max <= RESULTS_MAX:
        raise wrong_value("MaxResults", results_max, f"Must be an integer between 1 and {RESULTS_MAX}.")
    if token and results_max is None:
        raise wrong_value("NextToken", token, "MaxResults must be set to use NextToken.")
    after = _open(token) if token else ""
    found = sorted(name for name in names if name > after)
    shown = found[: results_max or RESULTS_MAX]
    more = results_max is not None and len(found) > len(shown)
    return shown, base64.urlsafe_b64encode(shown[-1].encode()).decode() if more else None


def _open(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise wrong_value("NextToken", token, "It was not given by this service.") from None
