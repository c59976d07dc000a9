"""Options that several commands share, declared once as a NamedTuple.

The fields of a group are options as typer wants them: `Annotated` types with defaults. A command under
`with_option_groups` takes the group as one parameter, and its command line has the options of the group after its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

Command = Callable[..., None]


def with_option_groups(command: Command) -> Command:
    """Replace every parameter of a command that is a group by the options of the group."""
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and issubclass(group, tuple) and hasattr(group, "_field_defaults"):
            command = replace_parameter(command, parameter.name, _options(group), functools.partial(_build, group))
    return command


def replace_parameter(
    command: Command, name: str, options: Sequence[inspect.Parameter], build: Callable[[dict[str, Any]], object]
) -> Command:
    """Replace one parameter of a command by options; `build` makes its value from those of the options, by name."""
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != name
    ]

    def run(**given: Any) -> None:
        values = {option.name: given.pop(option.name, option.default) for option in options}
        command(**given, **{name: build(values)})

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
    return run


def _build(group: type[Any], values: dict[str, Any]) -> object:
    return group(**values)


def _options(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=group._field_defaults[name], annotation=hints[name]
        )
        for name in group._fields
    ]
