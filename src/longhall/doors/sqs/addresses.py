"""Names of queues, and the two forms in which the service writes them: URLs and ARNs.

    http://HOST:PORT/000000000000/NAME        arn:aws:sqs:REGION:000000000000:NAME

There is one account and one region; whatever a client writes in their place is accepted, because only the name counts.
Paths and bare names are accepted as well, and one slash after account and name, as in the examples of the service;
malformed addresses (dots, queries, two addresses in one) are refused.
"""

from __future__ import annotations

import re
from typing import Final

from longhall.doors.sqs.wire.faults import (
    INVALID_ADDRESS,
    INVALID_PARAMETER,
    NO_SUCH_QUEUE,
    NO_SUCH_QUEUE_MESSAGE,
    SqsError,
    wrong_value,
)

NAME_LENGTH_MAX: Final = 80
FIFO_SUFFIX: Final = ".fifo"

# Queues of other doors may have dots in their names; this door serves them but does not create any.
_SERVED = re.compile(r"[A-Za-z0-9._-]{1,249}")
_URL = re.compile(r"(?:https?://[^/?#\s]{1,255}/|/)?(?:[A-Za-z0-9_-]{1,80}/){0,3}([A-Za-z0-9._-]{1,249})")
_URL_WITH_SLASH = re.compile(r"(?:https?://[^/?#\s]{1,255}/|/)?(?:[A-Za-z0-9_-]{1,80}/){1,3}([A-Za-z0-9._-]{1,249})/")
_HOST_ONLY = re.compile(r"https?://[^/?#\s]{1,255}/?")
_MADE = re.compile(r"[A-Za-z0-9_-]{1,80}")


def queue_of_url(url: str) -> str:
    """The queue that a URL, a path or a bare name means. Raises SqsError for anything else."""
    found = _URL.fullmatch(url) or _URL_WITH_SLASH.fullmatch(url)
    if found is None:
        if _HOST_ONLY.fullmatch(url):
            raise SqsError(NO_SUCH_QUEUE, NO_SUCH_QUEUE_MESSAGE)
        raise SqsError(INVALID_ADDRESS, f"The address {url[:200]} is not valid for this endpoint.")
    return found[1]


def queue_of_arn(parameter: str, arn: str) -> str:
    """The queue that an ARN means. Raises SqsError for anything else."""
    parts = arn.split(":")
    if len(parts) != 6 or parts[0] != "arn" or parts[2] != "sqs" or _SERVED.fullmatch(parts[5]) is None:
        raise wrong_value(parameter, arn, "It must be the ARN of a queue.")
    return parts[5]


def check_name(name: str, fifo: bool) -> None:
    """Raises SqsError for a name that the service does not allow for a queue of this kind."""
    if fifo:
        stem = name.removesuffix(FIFO_SUFFIX)
        if stem == name or _MADE.fullmatch(stem) is None or len(name) > NAME_LENGTH_MAX:
            raise SqsError(
                INVALID_PARAMETER,
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
                "must end with .fifo suffix and be 1 to 80 in length",
            )
    elif _MADE.fullmatch(name) is None:
        said = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        raise SqsError(INVALID_PARAMETER, said)
