"""The handshake in which two processes of a cluster prove to each other that they know its secret. Pure.

    dialer                                  listener
    HELLO      nonce, number, purpose  ->
                                       <-   CHALLENGE  nonce, proof
    PROOF      proof, greeting         ->
                                       <-   WELCOME, or a refusal

A proof is an HMAC-SHA256 under the secret over the direction, both nonces, both node numbers, the hall id and the
purpose; the dialer's covers its greeting as well. Both nonces are fresh, so a recorded proof cannot be replayed. The
direction is part of it, so a proof cannot be reflected to its sender. The listener proves first; the dialer sends its
hall and its feature levels only to a listener that has proven the secret.

A peer that has not proven the secret learns nothing: every refusal before that is the same. The frames after the
handshake are not protected: an attacker who can change the traffic between two processes does not need a handshake.

A cluster without a secret has the plain greeting of earlier versions: GREETING, then WELCOME. A secret file may have
`none` beside secrets; such a node also accepts the plain greeting, and sends it if `none` comes first.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final, NamedTuple, final

import msgspec

from longhall.cluster.rpc.wire import (
    CHALLENGE,
    GREETING,
    HELLO,
    PROOF,
    REFUSAL,
    WELCOME,
    Challenge,
    Greeting,
    Hello,
    Proof,
    Welcome,
    decode,
    encode,
    refusal_of,
)
from longhall.errors import Code, LonghallError

NONCE_BYTES: Final = 32
SECRET_CHARACTERS_MIN: Final = 32  # In one secret of a file; `cluster secret make` writes twice as many.
SECRET_CHARACTERS_MAX: Final = 1024
SECRETS_MAX: Final = 8
NO_SECRET: Final = b""
NONE: Final = "none"  # The line of a secret file that means "no secret".
REFUSED: Final = "refused"  # The only reason sent to a peer that has not proven the secret.

# The reasons of refusals, for the counter and the log.
GARBAGE: Final = "garbage"
SECRET: Final = "secret"
HALL: Final = "hall"
LEVEL: Final = "level"
UNKNOWN: Final = "unknown"
SILENT: Final = "silent"
CROWD: Final = "crowd"
LEFT: Final = "left"
LISTENER: Final = "listener"
REASONS: Final = {
    GARBAGE: "it does not speak the protocol between nodes",
    SECRET: "it did not prove the cluster's secret",
    HALL: "it belongs to another cluster",
    LEVEL: "it does not know the feature level of the cluster",
    UNKNOWN: "the cluster does not know a node of this number",
    SILENT: "it said nothing for too long",
    CROWD: "too many connections had not proven the cluster's secret",
    LEFT: "it hung up instead of proving the cluster's secret",
    LISTENER: "a listener at a node's address did not prove the cluster's secret",
}

_DIALER: Final = b"longhall peers 1 dialer"
_LISTENER: Final = b"longhall peers 1 listener"


class Refused(Exception):
    """The connection is refused. `reason` is for the counter and the log; `told` is sent to the other side."""

    def __init__(self, reason: str, told: str = REFUSED) -> None:
        super().__init__(REASONS[reason])
        self.reason = reason
        self.told = told


@final
class Secrets:
    """The secrets of a cluster: the first is offered, all of them are accepted. They may be replaced at any time."""

    def __init__(self, secrets: Iterable[bytes] = (NO_SECRET,)) -> None:
        self.accepted: tuple[bytes, ...] = ()
        self.replace(secrets)

    def replace(self, secrets: Iterable[bytes]) -> None:
        """Use these secrets for new connections; open connections stay."""
        self.accepted = tuple(secrets)
        assert self.accepted, "there is at least one secret, perhaps the empty one"

    @property
    def offered(self) -> bytes:
        """The secret for outgoing connections; NO_SECRET for the plain greeting."""
        return self.accepted[0]

    @property
    def takes_plain(self) -> bool:
        """True if the plain greeting, which proves nothing, is accepted."""
        return NO_SECRET in self.accepted

    @property
    def proved(self) -> bytes:
        """The secret that a listener proves: its first real one."""
        return next((secret for secret in self.accepted if secret), NO_SECRET)

    def accept(self, terms: Terms, direction: bytes, given: bytes, more: bytes = b"") -> bool:
        """True if the proof was made with one of the secrets."""
        matches = [hmac.compare_digest(proof_of(one, terms, direction, more), given) for one in self.accepted if one]
        return any(matches)


class Terms(NamedTuple):
    """The values that both sides sign."""

    dialer_nonce: bytes
    listener_nonce: bytes
    dialer: int
    listener: int
    hall: str
    purpose: str


def proof_of(secret: bytes, terms: Terms, direction: bytes, more: bytes = b"") -> bytes:
    """The proof that its sender knows the secret and agrees to these terms."""
    return hmac.digest(secret, msgspec.msgpack.encode((direction, *terms, more)), "sha256")


def read_secrets(text: str) -> list[bytes]:
    """The secrets of a file, one a line; empty lines and those that begin with # are ignored.

    Raises LonghallError that names the fault and never quotes a secret.
    """
    found: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if word == NONE:
            found.append(NO_SECRET)
        elif SECRET_CHARACTERS_MIN <= len(word) <= SECRET_CHARACTERS_MAX and word.isascii() and word.isprintable():
            found.append(word.encode())
        else:
            raise _wrong(
                f"line {number} is no secret: it takes {SECRET_CHARACTERS_MIN} to {SECRET_CHARACTERS_MAX} letters and "
                "digits; `longhall cluster secret make FILE` makes one"
            )
    if not any(found):
        raise _wrong("it holds no secret; `longhall cluster secret make FILE` makes one")
    if len(found) > SECRETS_MAX or len(set(found)) < len(found):
        raise _wrong(f"it holds a secret twice, or more than {SECRETS_MAX} of them")
    return found


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, why)


@final
class Dialer:
    """The handshake of the side that connects.

    | state | frame | what follows |
    |---|---|---|
    | plain | WELCOME | done |
    | asked | CHALLENGE with a proof | PROOF is sent; proven |
    | asked | CHALLENGE without | Refused: the listener does not know the secret |
    | proven | WELCOME | done |
    | any | anything else | ConnectionError |
    """

    def __init__(self, secrets: Secrets, nonce: bytes, listener: int, greeting: Greeting) -> None:
        self._secrets = secrets
        self._offered = secrets.offered
        self._nonce = nonce
        self._listener = listener
        self._greeting = greeting
        self._proven = self._offered == NO_SECRET

    def begin(self) -> bytes:
        """The first frame."""
        if self._proven:
            return encode(GREETING, self._greeting)
        return encode(HELLO, Hello(nonce=self._nonce, node=self._greeting.node, purpose=self._greeting.purpose))

    def receive(self, kind: int, body: bytes) -> bytes | None:
        """The next frame to send; None when the listener has accepted this node."""
        if kind == CHALLENGE and not self._proven:
            return self._prove(decode(body, Challenge))
        if kind == WELCOME and self._proven:
            if decode(body, Welcome).node != self._listener:
                raise ConnectionError(f"another node listens where node {self._listener} was")
            return None
        if kind != REFUSAL:
            raise ConnectionError(f"node {self._listener} does not greet")
        told = refusal_of(body).reason
        if told == REFUSED:
            told = "its log says why; all nodes of a cluster need the same --cluster-secret"
        raise ConnectionError(f"node {self._listener} refused the connection: {told}")

    def _prove(self, challenge: Challenge) -> bytes:
        greeting = self._greeting
        terms = Terms(self._nonce, challenge.nonce, greeting.node, self._listener, greeting.hall, greeting.purpose)
        if len(challenge.nonce) != NONCE_BYTES or not self._secrets.accept(terms, _LISTENER, challenge.proof):
            raise Refused(LISTENER)
        self._proven = True
        said = msgspec.msgpack.encode(greeting)
        return encode(PROOF, Proof(proof=proof_of(self._offered, terms, _DIALER, said), greeting=said))


@final
class Listener:
    """The handshake of the side that accepts the connection.

    | state | frame | what follows |
    |---|---|---|
    | new | GREETING, where no secret is needed | the greeting is returned; done |
    | new | HELLO, where there is a secret | CHALLENGE is sent; asked |
    | asked | PROOF with one of the secrets | the greeting is returned; done |
    | any | anything else | Refused |
    """

    def __init__(self, secrets: Secrets, nonce: bytes, hall: str, node: int) -> None:
        self._secrets = secrets
        self._nonce = nonce
        self._hall = hall
        self._node = node
        self._terms: Terms | None = None

    @property
    def asked(self) -> bool:
        """True if the dialer was challenged."""
        return self._terms is not None

    def receive(self, kind: int, body: bytes) -> bytes | Greeting:
        """The next frame to send, or the greeting of a dialer that is accepted."""
        try:
            if kind == GREETING and self._terms is None:
                return self._plain(decode(body, Greeting))
            if kind == HELLO and self._terms is None:
                return self._challenge(decode(body, Hello))
            if kind == PROOF and self._terms is not None:
                return self._proof(decode(body, Proof), self._terms)
        except LonghallError:
            raise Refused(GARBAGE) from None
        raise Refused(GARBAGE)

    def _plain(self, greeting: Greeting) -> Greeting:
        if not self._secrets.takes_plain:
            raise Refused(SECRET)
        if greeting.hall != self._hall:
            raise Refused(HALL)
        return greeting

    def _challenge(self, hello: Hello) -> bytes:
        if len(hello.nonce) != NONCE_BYTES:
            raise Refused(GARBAGE)
        if self._secrets.proved == NO_SECRET:
            raise Refused(SECRET)  # The other side has a secret, and this node has none.
        terms = self._terms = Terms(hello.nonce, self._nonce, hello.node, self._node, self._hall, hello.purpose)
        return encode(CHALLENGE, Challenge(nonce=self._nonce, proof=proof_of(self._secrets.proved, terms, _LISTENER)))

    def _proof(self, proof: Proof, terms: Terms) -> Greeting:
        if not self._secrets.accept(terms, _DIALER, proof.proof, proof.greeting):
            raise Refused(SECRET)
        greeting = decode(proof.greeting, Greeting)
        if (greeting.node, greeting.hall, greeting.purpose) != (terms.dialer, terms.hall, terms.purpose):
            raise Refused(GARBAGE)
        return greeting
