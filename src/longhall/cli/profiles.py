"""Which node a command talks to: a flag, the environment, or a named profile.

    --address  >  --profile  >  LONGHALL_ADDRESS  >  LONGHALL_PROFILE  >  default profile  >  127.0.0.1:9092

Profiles are in $XDG_CONFIG_HOME/longhall/config.toml (or ~/.config):

    default = "staging"

    [profiles.staging]
    address = "10.0.0.5:9092"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from longhall.cli.exits import CommandError, Exit

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"


def find_address(address: str | None, profile: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The HOST:PORT to connect to."""
    if address is not None:
        return address
    if profile is None and environment.get("LONGHALL_ADDRESS"):
        return environment["LONGHALL_ADDRESS"]
    name = profile or environment.get("LONGHALL_PROFILE")
    path = configuration_path(environment)
    document = _read(path)
    if name is None:
        default = document.get("default")
        if default is None:
            return DEFAULT_ADDRESS
        if not isinstance(default, str):
            raise _wrong(f"{path}: default must be the name of a profile")
        name = default
    return _address_of(path, document, name)


def configuration_path(environment: Mapping[str, str]) -> Path:
    """Where profiles are kept."""
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "longhall" / "config.toml"


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as failure:
        raise _wrong(f"{path}: {failure}") from None


def _address_of(path: Path, document: dict[str, object], name: str) -> str:
    profiles = document.get("profiles")
    if not isinstance(profiles, dict) or name not in profiles:
        known = ", ".join(sorted(profiles)) if isinstance(profiles, dict) else ""
        raise _wrong(f"there is no profile {name!r} in {path}; " + (f"there is {known}" if known else "write it there"))
    profile = profiles[name]
    address = profile.get("address") if isinstance(profile, dict) else None
    if not isinstance(address, str):
        raise _wrong(f'{path}: profiles.{name} needs an address, like address = "{DEFAULT_ADDRESS}"')
    unknown = sorted(set(profile) - {"address"})
    if unknown:
        raise _wrong(f"{path}: there is nothing called profiles.{name}.{unknown[0]}; a profile has an address")
    return address


def _wrong(message: str) -> CommandError:
    return CommandError(message, Exit.USAGE)
