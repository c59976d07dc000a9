"""Planted bugs in the handshake between processes, as other systems have had them."""

from __future__ import annotations

from typing import Any, Final

from longhall.cluster.rpc import authentication
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import Peers
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _believe_any_greeting() -> _Replacements:
    return [(Secrets, "accept", lambda self, terms, direction, given, more=b"": True)]


def _take_the_plain_greeting() -> _Replacements:
    good: Any = authentication.Listener._plain

    def plain(self: Any, greeting: Any) -> Any:
        self._secrets = Secrets()
        return good(self, greeting)

    return [(authentication.Listener, "_plain", plain)]


def _use_a_nonce_again() -> _Replacements:
    return [(Peers, "_nonce", lambda self: bytes(authentication.NONCE_BYTES))]


def _sign_without_a_direction() -> _Replacements:
    """Leave out the direction and the greeting: either one alone prevents a reflected proof."""
    good: Any = authentication.proof_of

    def proof_of(secret: Any, terms: Any, direction: Any, more: Any = b"") -> Any:
        return good(secret, terms, b"")

    return [(authentication, "proof_of", proof_of)]


PEER_BUGS: Final[dict[str, Bug]] = {
    "believe-any-greeting": Bug("The proof of the secret is not checked.", "strangers", 2, _believe_any_greeting),
    "take-the-plain-greeting": Bug(
        "A node with a secret accepts a greeting without one.", "strangers", 2, _take_the_plain_greeting
    ),
    "use-a-nonce-again": Bug(
        "Every challenge is the same, so a recorded proof fits.", "strangers", 2, _use_a_nonce_again
    ),
    "sign-without-a-direction": Bug(
        "A node accepts its own proof from another process.", "strangers", 2, _sign_without_a_direction
    ),
}
