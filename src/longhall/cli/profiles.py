"""Which node a command talks to: a flag, the environment, or a named profile.

Commands of topics and groups use the Kafka door (first line), commands of queues and clusters the HTTP API (second).

    --address  >  --profile  >  LONGHALL_ADDRESS  >  LONGHALL_PROFILE  >  default profile  >  127.0.0.1:9092
    --address  >  --profile  >  LONGHALL_HTTP_ADDRESS  >  LONGHALL_PROFILE  >  default profile  >  127.0.0.1:8080

Profiles are in $XDG_CONFIG_HOME/longhall/config.toml (or ~/.config):

    default = "staging"

    [profiles.staging]
    address = "10.0.0.5:9092"
    http = "10.0.0.5:8080"
    user = "alice"                 # Where the node asks for a login; or LONGHALL_USER and LONGHALL_PASSWORD,
    password = "looking glass"
    token = "lht_..."              # or a token of the user in place of the password (LONGHALL_TOKEN),
    access_key = "ALICE"           # or, for the HTTP API only, LONGHALL_ACCESS_KEY and LONGHALL_SECRET.
    secret = "wonderland"
    ca = "/etc/longhall/ca.crt"    # Where the node speaks TLS: its authority; or longhall --ca, or LONGHALL_CA.
    certificate = "alice.crt"      # Where it asks for a certificate, with key = "alice.key".
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from longhall.cli.addresses import DEFAULT_ADDRESS, DEFAULT_HTTP
from longhall.cli.exits import CommandError, Exit
from longhall.client.login import Login
from longhall.client.security import ClientSecurity
from longhall.client.tls import ClientTls, tls_of_environment

_KEYS: Final = (
    *("address", "http", "user", "password", "token", "access_key", "secret"),
    *("ca", "certificate", "key"),
)


class HttpTarget(NamedTuple):
    """An HTTP address and the credentials for it."""

    address: str
    access_key: str = ""  # Or a user,
    secret: str = ""  # with its password or token; a token may stand alone.
    tls: ClientTls = ClientTls()


def find_tls(profile: str | None, environment: Mapping[str, str] = os.environ) -> ClientTls:
    """The files for TLS: those of the environment, which `longhall --ca` sets, else those of the profile."""
    given = tls_of_environment(environment)
    if given != ClientTls():
        return given
    found = _find_profile(profile, environment)
    return _tls_of(found[2]) if found is not None else given


def _tls_of(fields: Mapping[str, str]) -> ClientTls:
    return ClientTls(fields.get("ca", ""), fields.get("certificate", ""), fields.get("key", ""))


def find_address(address: str | None, profile: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The HOST:PORT to connect to."""
    if address is not None:
        return address
    if profile is None and environment.get("LONGHALL_ADDRESS"):
        return environment["LONGHALL_ADDRESS"]
    found = _find_profile(profile, environment)
    if found is None:
        return DEFAULT_ADDRESS
    path, name, fields = found
    if "address" not in fields:
        raise _wrong(f'{path}: profiles.{name} needs an address, like address = "{DEFAULT_ADDRESS}"')
    return fields["address"]


def find_http(http: str | None, profile: str | None, environment: Mapping[str, str] = os.environ) -> HttpTarget:
    """The HTTP address to use, with credentials if there are any."""
    given = http or (environment.get("LONGHALL_HTTP_ADDRESS") if profile is None else None)
    fields: dict[str, str] = {}
    if given is None or profile is not None:
        found = _find_profile(profile, environment)
        if found is not None:
            path, name, fields = found
            given = given or fields.get("http")
            if given is None:
                raise _wrong(f'{path}: profiles.{name} needs http for this, like http = "{DEFAULT_HTTP}"')
    tls = tls_of_environment(environment) if environment.get("LONGHALL_CA") else _tls_of(fields)
    access_key = environment.get("LONGHALL_ACCESS_KEY") or fields.get("access_key", "")
    if access_key:
        secret = environment.get("LONGHALL_SECRET") or fields.get("secret", "")
        return HttpTarget(given or DEFAULT_HTTP, access_key, secret, tls)
    return HttpTarget(given or DEFAULT_HTTP, *_login_of(fields, environment), tls)


def find_login(profile: str | None, environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The user and its password or token, for the Kafka door; empty texts if there are none."""
    found = _find_profile(profile, environment)
    return _login_of(found[2] if found is not None else {}, environment)


def find_security(profile: str | None, environment: Mapping[str, str] = os.environ) -> ClientSecurity:
    """TLS and login for the Kafka door."""
    tls = find_tls(profile, environment)
    user, secret = find_login(profile, environment)
    return ClientSecurity(tls if tls.is_on else None, Login(user, secret) if user and secret else None)


def _login_of(fields: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, str]:
    user = environment.get("LONGHALL_USER") or fields.get("user", "")
    for name in ("token", "password"):
        secret = environment.get(f"LONGHALL_{name.upper()}") or fields.get(name, "")
        if secret:
            return user, secret
    return user, ""


def _find_profile(profile: str | None, environment: Mapping[str, str]) -> tuple[Path, str, dict[str, str]] | None:
    """The named or default profile; None if there is neither."""
    name = profile or environment.get("LONGHALL_PROFILE")
    path = configuration_path(environment)
    document = _read(path)
    if name is None:
        default = document.get("default")
        if default is None:
            return None
        if not isinstance(default, str):
            raise _wrong(f"{path}: default must be the name of a profile")
        name = default
    return path, name, _fields_of(path, document, name)


def configuration_path(environment: Mapping[str, str]) -> Path:
    """The file with the profiles."""
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "longhall" / "config.toml"


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as failure:
        raise _wrong(f"{path}: {failure}") from None


def _fields_of(path: Path, document: dict[str, object], name: str) -> dict[str, str]:
    profiles = document.get("profiles")
    if not isinstance(profiles, dict) or name not in profiles:
        known = ", ".join(sorted(profiles)) if isinstance(profiles, dict) else ""
        raise _wrong(f"there is no profile {name!r} in {path}; " + (f"there is {known}" if known else "write it there"))
    profile = profiles[name]
    fields = profile if isinstance(profile, dict) else {}
    for key, value in fields.items():
        if key not in _KEYS:
            raise _wrong(f"{path}: there is nothing called profiles.{name}.{key}; a profile has {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise _wrong(f"{path}: profiles.{name}.{key} must be text")
    return {key: str(value) for key, value in fields.items()}


def _wrong(message: str) -> CommandError:
    return CommandError(message, Exit.USAGE)
