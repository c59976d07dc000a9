"""Encryption keys that a queue may name (KmsMasterKeyId), and whether they can be used.

    [keys]
    alias/orders = enabled
    arn:aws:kms:us-east-1:000000000000:key/1234 = disabled

There is no key management here, and bodies are stored unencrypted. An operator lists the keys and their states; a queue
whose key cannot be used accepts and delivers no messages, with the error of the service. Without such a list every key
is valid, as in local emulators of the service.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from typing import Final, final

from longhall.doors.sqs.wire import faults
from longhall.doors.sqs.wire.faults import Fault, SqsError
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings

KEYS_MAX: Final = 10_000
ENABLED: Final = "enabled"
ATTRIBUTE: Final = "KmsMasterKeyId"
MANAGED: Final = "alias/aws/sqs"  # The service's own key, which always exists.

_FAULTS: Final[dict[str, tuple[Fault, str]]] = {
    "disabled": (faults.KMS_DISABLED, "is disabled"),
    "pending-deletion": (faults.KMS_INVALID_STATE, "is pending deletion"),
    "signing": (faults.KMS_INVALID_KEY_USAGE, "is for signing and not for encryption"),
    "denied": (faults.KMS_ACCESS_DENIED, "may not be used by the caller"),
    "not-subscribed": (faults.KMS_OPT_IN_REQUIRED, "needs a subscription to the key service"),
    "throttled": (faults.KMS_THROTTLED, "is asked for too often; try again later"),
}


@final
class Keys:
    """The states of all keys. `replace` applies to all doors at once."""

    def __init__(self, states: Mapping[str, str]) -> None:
        self._states = dict(states)

    def replace(self, states: Mapping[str, str]) -> None:
        """Make these the only keys."""
        self._states = dict(states)

    def check(self, settings: QueueSettings) -> None:
        """Raises SqsError when the queue's key cannot be used."""
        key = settings.door.get(ATTRIBUTE, MANAGED)
        state = self._states.get(key, ENABLED if key == MANAGED else "")
        if state == ENABLED:
            return
        fault, what = _FAULTS.get(state, (faults.KMS_NOT_FOUND, "does not exist"))
        raise SqsError(fault, f"The key {key[:200]} {what}.")


def read_keys(text: str) -> dict[str, str]:
    """The state of every key. Raises LonghallError that names the fault and its place."""
    parser = configparser.ConfigParser(interpolation=None, default_section="", delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise _wrong(f"the file is malformed near line {getattr(error, 'lineno', '?')}") from None
    if parser.sections() != ["keys"] or len(parser["keys"]) > KEYS_MAX:
        raise _wrong(f"the file must have one section, [keys], of at most {KEYS_MAX} lines")
    states = dict(parser["keys"])
    for key, state in states.items():
        if state != ENABLED and state not in _FAULTS:
            raise _wrong(f"{key} must be one of {', '.join((ENABLED, *_FAULTS))}")
    return states


def _wrong(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, f"keys: {what}")
