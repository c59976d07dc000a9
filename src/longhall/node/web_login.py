"""The log-in of browsers at one process: its sessions, its pages, and the provider's flow, from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from longhall.console.login import LoginService
from longhall.errors import Code, LonghallError
from longhall.front.admission import Budget
from longhall.front.authenticator import DoorAuthentication
from longhall.front.oidc.code_flow import ClientRegistration, CodeFlow
from longhall.front.oidc.web_token import Expected
from longhall.front.sealing.data_keys import CallCatalogue
from longhall.front.web_sessions import WebSessions
from longhall.node.files import read_text
from longhall.node.settings import Settings
from longhall.service.directory_operations import EndSession

if TYPE_CHECKING:
    from longhall.world.ports import World

CALLBACK = "/login/callback"


def web_login(
    world: World,
    settings: Settings,
    secret: bytes,
    logins: DoorAuthentication,
    budget: Budget,
    call_catalogue: CallCatalogue,
) -> LoginService:
    """The pages below /login. INVALID_CONFIGURATION if the settings do not fit together."""

    async def end_everywhere(session_id: str, until_ms: int) -> None:
        await call_catalogue(EndSession(session_id, until_ms))

    lifetime_ms = settings.console.session_ms
    sessions = WebSessions(logins.authenticator, secret, lifetime_ms, world.entropy.bytes, end_everywhere)
    return LoginService(logins, sessions, budget, _code_flow(world, settings, secret, logins))


def _code_flow(world: World, settings: Settings, secret: bytes, logins: DoorAuthentication) -> CodeFlow | None:
    oidc, provider = settings.oidc, logins.authenticator.provider
    if not oidc.client_id or provider is None:
        if oidc.client_secret or oidc.public_url:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                "oidc.client_id is missing, without which no browser logs in at the provider",
            )
        return None
    url = urlsplit(oidc.public_url)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.path not in ("", "/"):
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            "oidc.public_url is needed with oidc.client_id: the URL at which browsers reach this door, without a path",
        )
    shown = read_text("oidc.client_secret", oidc.client_secret, private=True).strip() if oidc.client_secret else ""
    client = ClientRegistration(oidc.client_id, shown, oidc.public_url.rstrip("/") + CALLBACK)
    expected = Expected(oidc.issuer, oidc.audience, oidc.user_claim)
    return CodeFlow(provider, expected, client, oidc.authority or "", secret, world.entropy.bytes)
