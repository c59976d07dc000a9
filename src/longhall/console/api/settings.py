"""A queue's settings as users write them: by name, and only those that differ from the default.

The stored form ignores unknown fields, because versions mix there. Fields from users are checked here before they are
stored: an unknown one is an error.
"""

from __future__ import annotations

import difflib
from typing import Final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.queues.settings import DeadLetters, DeliveryHours, DeliveryWindow, QueueSettings, RetryPolicy

Fields = dict[str, object]

_HIDDEN: Final = ("door", "wings", "amqp")  # Internal to a door or to the cluster.
_NAMES: Final = tuple(name for name in QueueSettings.__struct_fields__ if name not in _HIDDEN)
_WITHIN: Final[dict[str, type[msgspec.Struct]]] = {
    "dead_letters": DeadLetters,
    "retry": RetryPolicy,
    "hours": DeliveryHours,
}


def shown_settings(settings: QueueSettings) -> Fields:
    """All settings with their values."""
    return {name: msgspec.to_builtins(getattr(settings, name)) for name in _NAMES}


def understood_settings(fields: Fields, current: QueueSettings | None = None) -> QueueSettings:
    """The settings with these fields changed; null restores a default. Raises INVALID_CONFIGURATION."""
    _check_names(fields, _NAMES, "")
    for name, shape in _WITHIN.items():
        within = fields.get(name)
        if isinstance(within, dict):
            _check_names(within, shape.__struct_fields__, f"{name}.")
    hours = fields.get("hours")
    also = hours.get("also") if isinstance(hours, dict) else None
    for window in also if isinstance(also, list) else []:
        if isinstance(window, dict):
            _check_names(window, DeliveryWindow.__struct_fields__, "hours.also.")
    merged: Fields = {} if current is None else msgspec.to_builtins(current)
    for name, value in fields.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    try:
        return msgspec.convert(merged, QueueSettings)
    except msgspec.ValidationError as error:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"settings: {error}") from None


def _check_names(given: Fields, known: tuple[str, ...], above: str) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {above}{close[0]}?" if close else f"there is {', '.join(known)}"
            raise LonghallError(Code.INVALID_CONFIGURATION, f"there is no setting {above}{name[:100]}; {hint}")
