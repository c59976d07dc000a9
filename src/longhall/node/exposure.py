"""Which doors others can reach, and what each of them needs then: TLS, and authentication.

Beyond loopback nothing starts without both unless `insecure` is set. Doors that others can reach ask every client to
log in (`node/authentication.py`; a node without users makes an administrator first), unless authentication is `none`.
"""

from __future__ import annotations

from typing import Final

from longhall.errors import Code, LonghallError
from longhall.node.addresses import DOORS, Address, parse_address
from longhall.node.settings import Settings
from longhall.node.tls import client_authentication, has_tls

_WITHOUT_LOGIN: Final = ("prometheus",)  # Metrics: only certificates can be asked for there.


def check_exposure(settings: Settings) -> None:
    """Raises LonghallError for the first address that others can reach without protection."""
    for door in DOORS:
        address = parse_address(getattr(settings, door))
        if address.is_loopback:
            continue
        if not has_tls(settings, door) or settings.tls.clear_text:
            raise _open(door, address, "and there is no TLS", "--tls-certificate FILE --tls-key FILE give it TLS "
                        "(`longhall certificates make DIR` makes them for a test)")  # fmt: skip
        if not has_authentication(settings, door):
            raise _open(door, address, "and there is no authentication", authentication_advice(door))
    agent = parse_address(settings.agent_check) if settings.agent_check is not None else None
    if agent is not None and not agent.is_loopback:
        raise _open("agent_check", agent, "and HAProxy's agents speak no TLS", "let balancers check /readyz instead")
    peers = parse_address(settings.peers)
    has_peers_tls = settings.tls.peers_ca is not None and settings.tls.peers_mode == "required"
    if settings.coordinator is not None and not peers.is_loopback and not has_peers_tls:
        raise _open("peers", peers, "and there is no TLS between nodes", "--tls-peers-ca FILE turns it on")


def has_authentication(settings: Settings, door: str) -> bool:
    """True if clients of a door that others can reach prove who they are: by logging in, or by their certificate."""
    if has_tls(settings, door) and client_authentication(settings, door) == "required":
        return True
    return door not in _WITHOUT_LOGIN and (settings.authentication != "none" or settings.credentials is not None)


def authentication_advice(door: str) -> str:
    """What gives a door authentication."""
    certificates = "--tls-client-ca FILE --tls-client-authentication required asks clients for certificates"
    if door in _WITHOUT_LOGIN:
        return certificates
    return f"leave out authentication = none, and users have to log in; {certificates}"


def _open(name: str, address: Address, lacks: str, advice: str) -> LonghallError:
    return LonghallError(
        Code.INVALID_CONFIGURATION,
        f"{name} = {address} can be reached by others, {lacks}: {advice}; or listen on 127.0.0.1, or say --insecure if "
        "the network is trusted",
    )


def closed_api(settings: Settings, address: str) -> str:
    """Why an API at this address refuses all requests; empty if it serves them."""
    if settings.credentials or settings.authentication != "none" or parse_address(address).is_loopback:
        return ""
    return "the API is open on loopback only, or to users who log in: this node was started with authentication = none"
