"""From defaults, file, environment and flags to one `Settings`; later sources win.

    defaults  <  settings file (TOML)  <  environment (LONGHALL_KAFKA, LONGHALL_CLEANER__INTERVAL_MS)  <  flags

Every value is checked at its source, so an error names the file, variable or flag and the path of the setting. An
unknown setting is an error in a file and among flags. In the environment only a name that looks like a typing error is
reported, as a warning: platforms set variables of their own there (LONGHALL_SERVICE_HOST and the like).
"""

from __future__ import annotations

import difflib
import os
import tomllib
import typing
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from longhall.coordination.address import has_password
from longhall.coordination.address import parse_address as parse_coordinator
from longhall.errors import Code, LonghallError
from longhall.node.addresses import parse_address
from longhall.node.exposure import check_exposure
from longhall.node.files import OTHERS_MODE
from longhall.node.quantities import parse_duration_ms, parse_size_bytes, show_duration, show_size
from longhall.node.section_settings import ConsumerGroupSettings
from longhall.node.setting_kinds import ADDRESS, DURATION, SIZE
from longhall.node.settings import Settings
from longhall.node.tls import check_tls

ENVIRONMENT_PREFIX: typing.Final = "LONGHALL_"
PORT_MAX: typing.Final = 65_535
COORDINATOR: typing.Final = "coordinator"
# Settings that would have no effect on a front end.
STORAGE_SETTINGS: typing.Final = (
    "durability",
    "durability_interval_ms",
    "scale_hook",
    "scrub_interval_ms",
    "scrub_bytes_a_second_max",
    "copy_bytes_a_second",
)

Tree = dict[str, object]


class Setting(NamedTuple):
    """One setting, for the parsers and for the printed list."""

    path: tuple[str, ...]
    type: object
    kind: str  # The kind, as printed; it selects the parser for text.
    default: object
    meaning: str
    hidden: bool = False  # Not listed.

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + "__".join(self.path).upper()

    def show(self, value: object) -> str:
        """A value as text that the parsers accept."""
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and self.kind in (DURATION, SIZE):
            return show_duration(value) if self.kind == DURATION else show_size(value)
        return str(value)


class Loaded(NamedTuple):
    """The settings, and warnings for the operator about their sources."""

    settings: Settings
    warnings: tuple[str, ...]


def load(
    file: str | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> Loaded:
    """Merge the sources. Flags are keyed by dotted name; None among them means "not given"."""
    tree: Tree = {}
    warnings: list[str] = []
    if file is not None:
        _merge_file(tree, file)
    if environment is not None:
        _merge_environment(tree, environment, warnings)
    for name, value in (flags or {}).items():
        if value is not None:
            _put(tree, _find(name, "option"), value, f"option {name}", strict=False)
            if name == COORDINATOR and has_password(str(value)):
                raise _refused(
                    "option coordinator: every user of this machine can read a password on the command line: write "
                    "digest:USER:PASSWORD into a file that only you can read (chmod 600), name it with "
                    "--coordinator-auth FILE, and leave user and password out of --coordinator"
                )
    settings = msgspec.convert(tree, Settings)
    _check_together(settings)
    return Loaded(settings, tuple(warnings))


def every_setting() -> list[Setting]:
    """All settings in the order of the struct."""
    return list(_leaves(Settings, Settings(), ()))


def value_of(settings: Settings, path: tuple[str, ...]) -> object:
    """The value of one setting."""
    value: object = settings
    for part in path:
        value = getattr(value, part)
    return value


def _leaves(struct: type[msgspec.Struct], defaults: msgspec.Struct, above: tuple[str, ...]) -> Iterator[Setting]:
    hints = typing.get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint, default, path = hints[field.name], getattr(defaults, field.name), (*above, field.name)
        if isinstance(default, msgspec.Struct):
            yield from _leaves(type(default), default, path)
            continue
        metas = [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
        extras = {name: value for meta in metas for name, value in (meta.extra or {}).items()}
        meanings = [meta.description for meta in metas if meta.description]
        plain = typing.get_args(hint)[0] if metas else hint
        choices = typing.get_args(plain) if typing.get_origin(plain) is typing.Literal else ()
        kind = extras.get("kind") or (" | ".join(choices) if choices else _plain_kind(default))
        yield Setting(path, hint, kind, default, meanings[0] if meanings else "", bool(extras.get("hidden")))


def _plain_kind(default: object) -> str:
    return {bool: "true | false", int: "number", float: "number"}.get(type(default), "text")


_SETTINGS: typing.Final[dict[str, Setting]] = {setting.name: setting for setting in every_setting()}


def _find(name: str, source: str) -> Setting:
    setting = _SETTINGS.get(name)
    if setting is None:
        close = difflib.get_close_matches(name, _SETTINGS, 1)
        hint = f"did you mean {close[0]}?" if close else "`longhall settings` lists what there is"
        raise _refused(f"{source}: there is no setting {name}; {hint}")
    return setting


def _merge_file(tree: Tree, file: str) -> None:
    try:
        with open(file, "rb") as stream:
            document = tomllib.load(stream)
            others = os.fstat(stream.fileno()).st_mode & OTHERS_MODE
    except OSError as failure:
        raise _refused(f"settings file {file}: {failure.strerror or failure}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise _refused(f"settings file {file}: {failure}") from None
    for name, value in _flatten(document, ""):
        source = f"settings file {file}: {name}"
        if name == COORDINATOR and others and has_password(str(value)):
            raise _refused(f"{source}: it has a password, and others can read the file: chmod 600 {file}")
        _put(tree, _find(name, f"settings file {file}"), value, source, strict=True)


def _flatten(table: Mapping[str, object], above: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield above + key, value


def _merge_environment(tree: Tree, environment: Mapping[str, str], warnings: list[str]) -> None:
    variables = {setting.variable: setting for setting in _SETTINGS.values()}
    for variable, value in environment.items():
        setting = variables.get(variable)
        if setting is not None:
            _put(tree, setting, value, f"environment {variable}", strict=False)
        elif variable.startswith(ENVIRONMENT_PREFIX):
            close = difflib.get_close_matches(variable, variables, 1, cutoff=0.9)
            if close:
                warnings.append(f"environment {variable} is not a setting; did you mean {close[0]}?")


def _put(tree: Tree, setting: Setting, value: object, source: str, *, strict: bool) -> None:
    try:
        converted = msgspec.convert(_understand(setting, value), setting.type, strict=strict)
    except (ValueError, msgspec.ValidationError) as failure:
        choices = f"; choose one of {setting.kind}" if " | " in setting.kind else ""
        raise _refused(f"{source}: {failure}{choices}") from None
    for part in setting.path[:-1]:
        branch = tree.setdefault(part, {})
        assert isinstance(branch, dict)
        tree = branch
    tree[setting.path[-1]] = converted


def _understand(setting: Setting, value: object) -> object:
    if not isinstance(value, str):
        return value
    if value == "" and setting.default is None:
        return None  # An empty text means "not set".
    if setting.kind == DURATION:
        return parse_duration_ms(value)
    if setting.kind == SIZE:
        return parse_size_bytes(value)
    if setting.kind == ADDRESS:
        return str(parse_address(value))
    if setting.kind == "true | false":
        return {"yes": True, "on": True, "no": False, "off": False}.get(value.strip().lower(), value)
    return value


def _check_together(settings: Settings) -> None:
    """Check the settings that depend on each other."""
    kafka = parse_address(settings.kafka)
    check_tls(settings)
    if settings.coordinator is not None:
        _check_cluster(settings)
    if settings.agent_check is not None:
        try:
            parse_address(settings.agent_check)
        except ValueError as error:
            raise _refused(f"agent_check: {error}") from None
    if settings.role != "all":
        _check_role(settings)
    if settings.workers > 1:
        _check_workers(settings)
    if not settings.insecure:
        check_exposure(settings)
    if settings.coordinator is not None and settings.cluster_secret is None:
        peers = parse_address(settings.peers)
        if not peers.is_loopback:
            raise _refused(
                f"peers = {peers} can be reached by others, and there is no authentication: make a secret with "
                "`longhall cluster secret make FILE`, copy it to every node of the cluster, and name it with "
                "--cluster-secret FILE"
            )
    advertised = _advertised(settings)
    if kafka.is_everywhere and advertised is None:
        raise _refused(
            f"kafka = {kafka} listens on every address, which clients cannot connect to: "
            "say which one they shall use with --advertised-kafka HOST:PORT"
        )
    if settings.group_session_timeout_min_ms > settings.group_session_timeout_max_ms:
        raise _refused("group_session_timeout_min_ms is more than group_session_timeout_max_ms")
    _check_consumer_groups(settings.consumer_groups)
    if settings.message_bytes_max > settings.request_bytes_max:
        raise _refused("message_bytes_max is more than request_bytes_max: such a batch could never arrive")


def _check_consumer_groups(groups: ConsumerGroupSettings) -> None:
    for name in ("session_timeout", "heartbeat_interval"):
        least, value, most = (getattr(groups, f"{name}{bound}_ms") for bound in ("_min", "", "_max"))
        if not least <= value <= most:
            raise _refused(
                f"consumer_groups.{name}_ms is not between consumer_groups.{name}_min_ms and "
                f"consumer_groups.{name}_max_ms"
            )
    if groups.heartbeat_interval_ms >= groups.session_timeout_ms:
        raise _refused("consumer_groups.heartbeat_interval_ms is not less than consumer_groups.session_timeout_ms")


def _check_cluster(settings: Settings) -> None:
    assert settings.coordinator is not None
    if parse_coordinator(settings.coordinator).password and settings.coordinator_auth is not None:
        raise _refused("coordinator has a password, and coordinator_auth names a file with one: leave out one of them")
    if parse_address(settings.peers).is_everywhere:
        raise _refused(
            f"peers = {settings.peers} is no address that other nodes can connect to: name one of this machine's"
        )


def _check_role(settings: Settings) -> None:
    """A role needs a cluster, and settings for data that a front end does not have are refused."""
    if settings.coordinator is None:
        raise _refused(
            f"role = {settings.role}, and there is no cluster in which the node could have it: name its ZooKeeper with "
            "--coordinator zk://HOST:PORT, or leave out --role"
        )
    if settings.role != "front":
        return
    defaults = Settings()
    for name in STORAGE_SETTINGS:
        if getattr(settings, name) != getattr(defaults, name):
            raise _refused(f"{name} is for nodes that store messages, and role = front stores none: leave it out")


def _check_workers(settings: Settings) -> None:
    if settings.coordinator is not None:
        raise _refused(
            f"workers = {settings.workers}, and a node of a cluster has one in this version: leave out --workers, or "
            "start more nodes"
        )
    for name in ("agent_check", "drain_delay_ms"):
        if getattr(settings, name):
            raise _refused(f"{name} is for a node of one process: leave out --workers, or {name}")
    ports = [parse_address(settings.kafka).port]
    if settings.advertised_kafka is not None:
        ports.append(parse_address(settings.advertised_kafka).port)
    if max(ports) + settings.workers - 1 > PORT_MAX:
        raise _refused(f"workers = {settings.workers} from port {max(ports)} on are more than there are ports")


def _advertised(settings: Settings) -> object:
    if settings.advertised_kafka is None:
        return None
    try:
        advertised = parse_address(settings.advertised_kafka)
    except ValueError as failure:
        raise _refused(f"advertised_kafka: {failure}") from None
    if advertised.is_everywhere:
        raise _refused(f"advertised_kafka = {advertised} is no address that clients can connect to")
    return advertised


def _refused(message: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, message)
