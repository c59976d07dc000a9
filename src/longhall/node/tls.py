"""The TLS and the balancers of a node, from its settings: one network for each door, and one between nodes.

A door without TLS and without a balancer uses the plain network, so nothing of this is on its way. Certificates are
read again on SIGHUP and when their files change; every process of a node watches them itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from functools import partial
from typing import Final, cast, final

from longhall.errors import Code, LonghallError
from longhall.front.certificate_names import RuleError, UserNames
from longhall.front.entrance import EntranceNetwork, Rules, Trusted, parse_trusted
from longhall.front.handshake_refusals import NotAdmittedCount
from longhall.front.tls import ClientAuthentication, TlsContexts, TlsFiles
from longhall.node.addresses import DOORS
from longhall.node.settings import Settings
from longhall.world.ports import Network
from longhall.world.real.network import RealNetwork

LOOK_S: Final = 1.0
EXPIRY_LOOK_S: Final = 24 * 60 * 60.0
PEERS: Final = "peers"

_HTTP_DOORS: Final = ("sqs", "stomp_websocket", "management", "prometheus", "http")
_HTTP_PROTOCOLS: Final = ("http/1.1",)
_AUTHENTICATIONS: Final = ("none", "optional", "required")

_log = logging.getLogger("longhall.tls")


@final
class NodeTls:
    """The networks of one process. In a simulated world every one of them is the world's own."""

    def __init__(self, settings: Settings, network: Network) -> None:
        """Raises LonghallError with one line that says what to do."""
        self._settings = settings
        self._network = network
        self._doors = doors_contexts(settings)
        self._peers = peers_contexts(settings)
        self._entrances: dict[str, EntranceNetwork] = {}
        self._warned_s = time.monotonic()
        for door in DOORS:
            if has_tls(settings, door) or is_behind_proxy(settings, door):
                self._entrances[door] = EntranceNetwork(self._real(), self._rules(door))
        if self._peers is not None:
            contexts = self._peers
            mode = settings.tls.peers_mode
            listening = partial(contexts.listening, "required")
            rules = self._bounded(Rules(PEERS, listening, needs_tls=mode == "required"))
            connecting = contexts.connecting if mode != "accept" else None
            self._entrances[PEERS] = EntranceNetwork(self._real(), rules, connecting)
        self._warn()

    def network_of(self, door: str) -> Network:
        """The network through which a door listens, or for "peers" through which nodes connect to each other."""
        return self._entrances.get(door, self._network)

    @property
    def not_admitted(self) -> list[NotAdmittedCount]:
        """The connections that did not reach their doors, for the metrics."""
        return [one.not_admitted for one in self._entrances.values()]

    @property
    def expires_s(self) -> float | None:
        """When the first certificate expires, in seconds since 1970; None without TLS."""
        return min((one.expires_s for one in self._all()), default=None)

    def reload(self) -> None:
        """Read all files again."""
        for contexts in self._all():
            contexts.reload()
        self._warn()

    async def watch(self) -> None:
        """Check periodically whether a file has changed, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            for contexts in self._all():
                contexts.reload_if_changed()
            if time.monotonic() - self._warned_s > EXPIRY_LOOK_S:
                self._warn()

    def _all(self) -> Iterator[TlsContexts]:
        yield from (one for one in (self._doors, self._peers) if one is not None)

    def _warn(self) -> None:
        self._warned_s = time.monotonic()
        for contexts in self._all():
            contexts.warn_of_expiry(time.time())

    def _real(self) -> RealNetwork:
        assert isinstance(self._network, RealNetwork), "a simulated network has neither TLS nor balancers"
        return self._network

    def _rules(self, door: str) -> Rules:
        settings = self._settings
        rules = Rules(door, proxies=trusted_proxies(settings) if is_behind_proxy(settings, door) else ())
        if self._doors is not None and has_tls(settings, door):
            client = client_authentication(settings, door)
            protocols = _HTTP_PROTOCOLS if door in _HTTP_DOORS else ()
            self._doors.listening(client, protocols)  # Now, so that an error is an error of the start.
            rules = rules._replace(
                context=partial(self._doors.listening, client, protocols),
                needs_tls=not settings.tls.clear_text,
                needs_user=client == "required",
            )
        return self._bounded(rules)._replace(users=user_names(settings))

    def _bounded(self, rules: Rules) -> Rules:
        tls = self._settings.tls
        return rules._replace(handshake_s=tls.handshake_ms / 1000, handshakes_max=tls.handshakes_max)


def check_tls(settings: Settings) -> None:
    """Check the settings of TLS and of balancers, as far as that is possible without their files. LonghallError."""
    tls = settings.tls
    if (tls.certificate is None) != (tls.key is None):
        raise _refused("name both a certificate and its private key: --tls-certificate FILE --tls-key FILE")
    if (tls.peers_certificate is None) != (tls.peers_key is None):
        raise _refused("name both tls.peers_certificate and tls.peers_key, or none of them")
    if tls.peers_ca is not None and tls.peers_certificate is None and tls.certificate is None:
        raise _refused("tls.peers_ca needs a certificate: tls.certificate and tls.key, or tls.peers_certificate")
    if tls.peers_ca is None and tls.peers_mode != "required":
        raise _refused(f"tls.peers_mode={tls.peers_mode} needs tls.peers_ca: without it nodes do not speak TLS")
    for setting in ("client_ca", "client_crl", "directory"):
        if getattr(tls, setting) is not None and tls.certificate is None:
            raise _refused(f"tls.{setting} needs tls.certificate and tls.key")
    if tls.client_crl is not None and tls.client_ca is None:
        raise _refused("tls.client_crl needs tls.client_ca, whose certificates it revokes")
    _doors_of("tls.doors", tls.doors)
    _doors_of("proxy.doors", settings.proxy.doors)
    for door in DOORS:
        if client_authentication(settings, door) != "none" and tls.client_ca is None:
            raise _refused(
                "tls.client_authentication needs the authority of the clients' certificates: --tls-client-ca FILE"
            )
    user_names(settings)
    trusted_proxies(settings)


def has_tls(settings: Settings, door: str) -> bool:
    """True if a door speaks TLS."""
    return settings.tls.certificate is not None and door in _doors_of("tls.doors", settings.tls.doors)


def is_behind_proxy(settings: Settings, door: str) -> bool:
    """True if a door has balancers that send the PROXY protocol."""
    return bool(settings.proxy.addresses.strip()) and door in _doors_of("proxy.doors", settings.proxy.doors)


def client_authentication(settings: Settings, door: str) -> ClientAuthentication:
    """True if a door asks clients for certificates."""
    chosen = settings.tls.client_authentication
    for part in filter(None, (word.strip() for word in settings.tls.client_authentication_doors.split(","))):
        name, equals, value = part.partition("=")
        if not equals or name not in DOORS or value not in _AUTHENTICATIONS:
            raise _refused(
                f"tls.client_authentication_doors: {part!r} is not DOOR=none|optional|required, with a door of "
                f"{', '.join(DOORS)}"
            )
        if name == door:
            chosen = cast(ClientAuthentication, value)
    return chosen


def user_names(settings: Settings) -> UserNames:
    """The rules by which certificates name users."""
    try:
        return UserNames(settings.tls.user_name, settings.tls.user_rules)
    except RuleError as error:
        raise _refused(f"tls.user_rules: {error}") from None


def trusted_proxies(settings: Settings) -> Trusted:
    """The networks of the balancers."""
    try:
        return parse_trusted(settings.proxy.addresses)
    except ValueError as error:
        raise _refused(f"proxy.addresses: {error}") from None


def doors_contexts(settings: Settings) -> TlsContexts | None:
    """The contexts of the doors; None without TLS."""
    tls = settings.tls
    if tls.certificate is None or tls.key is None:
        return None
    return TlsContexts(
        TlsFiles(tls.certificate, tls.key, tls.client_ca, tls.directory, tls.version_min, tls.client_crl)
    )


def peers_contexts(settings: Settings) -> TlsContexts | None:
    """The contexts between nodes; None without TLS there."""
    tls = settings.tls
    certificate, key = tls.peers_certificate or tls.certificate, tls.peers_key or tls.key
    if tls.peers_ca is None or certificate is None or key is None:
        return None
    return TlsContexts(TlsFiles(certificate, key, tls.peers_ca, version_min=tls.version_min, setting="tls.peers"))


def _doors_of(setting: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if words == ("all",):
        return DOORS
    for word in words:
        if word not in DOORS:
            raise _refused(f"{setting}: there is no door {word}; there are {', '.join(DOORS)}, or all")
    return words


def _refused(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, what)
