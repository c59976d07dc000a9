"""Settings of what stands between clients and doors: TLS, balancers with the PROXY protocol, OpenID Connect."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from longhall.node.setting_kinds import DAY, MINUTE, SECOND, duration


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS of the doors and between nodes. All files are read again when they change, and on SIGHUP."""

    certificate: Annotated[
        str | None,
        Meta(description="The certificate of the node with its intermediates, in PEM; turns TLS on at the doors."),
    ] = None
    key: Annotated[str | None, Meta(description="The private key of the certificate, in PEM, of mode 600.")] = None
    directory: Annotated[
        str | None,
        Meta(description="Further certificates, NAME.crt with NAME.key, for clients that name another host (SNI)."),
    ] = None
    doors: Annotated[
        str,
        Meta(
            description="The doors with TLS, with commas between them (kafka,sqs,amqp,stomp,stomp_websocket,management,"
            "prometheus,http), or all."
        ),
    ] = "all"
    clear_text: Annotated[
        bool,
        Meta(description="Serve clients without TLS too, at the same ports; beyond loopback only with --insecure."),
    ] = False
    version_min: Annotated[Literal["1.2", "1.3"], Meta(description="The oldest version of TLS that is spoken.")] = "1.2"
    client_ca: Annotated[
        str | None, Meta(description="The authorities that issue the certificates of clients, in PEM.")
    ] = None
    client_crl: Annotated[
        str | None,
        Meta(description="Lists of certificates that those authorities have revoked (CRL), in PEM; each needs one."),
    ] = None
    client_authentication: Annotated[
        Literal["none", "optional", "required"],
        Meta(description="Whether clients are asked for a certificate, and refused without one."),
    ] = "none"
    client_authentication_doors: Annotated[
        str, Meta(description="Other values for single doors, like kafka=required,http=none.")
    ] = ""
    user_name: Annotated[
        Literal["distinguished_name", "common_name", "dns_name", "email", "uri"],
        Meta(description="The part of a client's certificate that names its user."),
    ] = "distinguished_name"
    user_rules: Annotated[
        str,
        Meta(
            max_length=8192,
            description="How that name becomes a user, as Kafka's ssl.principal.mapping.rules: "
            "RULE:pattern/replacement/[LU], and DEFAULT for the name as it is.",
        ),
    ] = "DEFAULT"
    handshake_ms: Annotated[
        int, duration("A connection whose handshake takes longer is closed.", least=100, most=MINUTE)
    ] = 10 * SECOND
    handshakes_max: Annotated[
        int, Meta(ge=1, le=100_000, description="Handshakes under way at a door; with more, the oldest is closed.")
    ] = 256
    peers_ca: Annotated[
        str | None,
        Meta(
            description="The authorities that issue the certificates of the cluster's nodes, in PEM; turns TLS on "
            "between nodes, in both directions with a certificate."
        ),
    ] = None
    peers_certificate: Annotated[
        str | None, Meta(description="The certificate between nodes, for servers and clients; else tls.certificate.")
    ] = None
    peers_key: Annotated[str | None, Meta(description="Its private key, of mode 600; else tls.key.")] = None
    peers_mode: Annotated[
        Literal["required", "both", "accept"],
        Meta(
            description="While a running cluster changes to TLS between nodes, or back: `both` connects with TLS and "
            "lets nodes without it in, `accept` connects without TLS and lets nodes with it in."
        ),
    ] = "required"


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Balancers that introduce their clients with the PROXY protocol."""

    addresses: Annotated[
        str,
        Meta(
            description="Addresses and networks of the balancers, with commas between them. Each of their connections "
            "must begin with a PROXY header; a header from any other address is an error of the protocol."
        ),
    ] = ""
    doors: Annotated[str, Meta(description="The doors behind the balancers, with commas between them, or all.")] = "all"


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """OpenID Connect: tokens of an identity provider log users of the directory in."""

    issuer: Annotated[
        str, Meta(max_length=2048, description="The URL of the identity provider, as its tokens name it (`iss`).")
    ] = ""
    audience: Annotated[
        str, Meta(max_length=2048, description="The audience (`aud`) that a token must name; needed with an issuer.")
    ] = ""
    keys: Annotated[
        str,
        Meta(
            max_length=2048,
            description="The URL, or a file, of the provider's public keys (JWKS); else its configuration names it.",
        ),
    ] = ""
    user_claim: Annotated[
        str, Meta(min_length=1, max_length=255, description="The claim that names the user of the directory.")
    ] = "sub"
    authority: Annotated[
        str | None, Meta(description="The authorities of the provider's certificate, in PEM; else those of the system.")
    ] = None
    refresh_ms: Annotated[
        int,
        duration(
            "The provider's keys are read again after this time, and earlier for an unknown key.", SECOND, most=DAY
        ),
    ] = 5 * MINUTE
    client_id: Annotated[
        str,
        Meta(max_length=255, description="The id of this cluster at the provider: browsers can log in there (/login)."),
    ] = ""
    client_secret: Annotated[
        str | None, Meta(description="The file with the client's secret (mode 600); without one it is a public client.")
    ] = None
    public_url: Annotated[
        str,
        Meta(
            max_length=2048,
            description="The URL at which browsers reach this door; the provider sends them back there.",
        ),
    ] = ""


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pages of the HTTP door."""

    session_ms: Annotated[
        int,
        duration("A browser that has logged in has to do so again after this time.", least=MINUTE, most=30 * DAY),
    ] = 8 * 60 * MINUTE
