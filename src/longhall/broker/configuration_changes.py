"""Changes of configurations as IncrementalAlterConfigs has them: set, delete, append to a list, subtract from it.

A change gives a new, complete configuration. What its names and values mean is for the owner of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import msgspec

from longhall.errors import Code, LonghallError


class ConfigurationAction(Enum):
    """What a change does with the value of a setting."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


class ConfigurationChange(msgspec.Struct, array_like=True):
    """One change of one setting. APPEND and SUBTRACT are for lists; DELETE alone needs no value."""

    name: str
    action: ConfigurationAction
    value: str | None = None


def changed(
    given: Mapping[str, str],
    changes: Sequence[ConfigurationChange],
    check_name: Callable[[str], None],
    list_default: Callable[[str], str | None],
) -> dict[str, str]:
    """The configuration after all these changes. `check_name` raises for an unknown name; `list_default` returns the
    default of a list, and None for a setting that is none.
    """
    wanted = dict(given)
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise LonghallError(Code.INVALID_REQUEST, "A configuration is changed twice in one request.")
    for change in changes:
        check_name(change.name)
        if change.action is ConfigurationAction.DELETE:
            wanted.pop(change.name, None)
        elif change.value is None:
            raise LonghallError(Code.INVALID_REQUEST, f"Configuration {change.name} needs a value.")
        elif change.action is ConfigurationAction.SET:
            wanted[change.name] = change.value
        else:
            default = list_default(change.name)
            if default is None:
                raise LonghallError(Code.INVALID_CONFIGURATION, f"Configuration {change.name} is not a list.")
            value = wanted.get(change.name, default)
            wanted[change.name] = _changed_list(value, change.action, change.value)
    return wanted


def _changed_list(value: str, action: ConfigurationAction, words: str) -> str:
    have = [word for word in value.split(",") if word]
    named = [word for word in words.split(",") if word]
    if action is ConfigurationAction.APPEND:
        return ",".join(have + [word for word in named if word not in have])
    return ",".join(word for word in have if word not in named)
