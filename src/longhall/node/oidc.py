"""The identity provider of a node, from its settings."""

from __future__ import annotations

from longhall.errors import Code, LonghallError
from longhall.front.oidc.identity_provider import IdentityProvider
from longhall.front.oidc.web_token import Expected
from longhall.node.files import read_text
from longhall.node.security_settings import OidcSettings


def identity_provider_of(settings: OidcSettings) -> IdentityProvider | None:
    """The identity provider; None if there is none. INVALID_CONFIGURATION if the settings do not fit together."""
    if not settings.issuer:
        if settings.audience or settings.keys or settings.client_id:
            raise LonghallError(
                Code.INVALID_CONFIGURATION, "oidc.issuer is missing, without which no token is accepted"
            )
        return None
    if not settings.audience:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            "oidc.audience is missing: without it tokens that the provider issued for other services would log in here",
        )
    return IdentityProvider(
        Expected(settings.issuer, settings.audience, settings.user_claim),
        settings.keys,
        settings.authority or "",
        settings.refresh_ms / 1000,
        lambda path: read_text("oidc.keys", path, private=False),
    )
