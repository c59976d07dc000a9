"""The rules for tags."""

from __future__ import annotations

from typing import Final

from longhall.doors.sqs.text import encode
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, SqsError, wrong_value

TAGS_MAX: Final = 50
KEY_LENGTH_MAX: Final = 128
VALUE_LENGTH_MAX: Final = 256


def check_tags(queue: str, tags: dict[str, str]) -> dict[str, str]:
    """The same tags of a queue, checked. Raises SqsError."""
    if len(tags) > TAGS_MAX:
        raise SqsError(INVALID_PARAMETER, f"Too many tags added for queue {queue}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= KEY_LENGTH_MAX:
            said = f"Tag keys must be between 1 and {KEY_LENGTH_MAX} characters in length."
            raise SqsError(INVALID_PARAMETER, said)
        if key.lower().startswith("aws:") or encode(key) is None:
            raise wrong_value("Tag.Key", key, "Tag keys do not begin with aws:.")
        if len(value) > VALUE_LENGTH_MAX or encode(value) is None:
            raise wrong_value("Tag.Value", value, "Tag values have up to 256 characters.")
    return tags
