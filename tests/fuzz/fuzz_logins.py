"""Fuzz target: whatever a client shows at its login, it is refused or understood, and nothing else happens.

The first byte chooses: SASL of each mechanism in one or two steps, PROXY headers in pieces, a token of an identity
provider, an HTTP `Authorization` header, or an SQS signature. No input logs anybody in.
"""

from __future__ import annotations

from longhall.directory.accounts import DEFAULT_TENANT, User, entry_of
from longhall.directory.directory import Directory
from longhall.doors.kafka.sasl import AUTHENTICATED, OFFERED, SaslSession, bearer_token
from longhall.doors.sqs.errors import SqsError
from longhall.doors.sqs.signing import Verifier
from longhall.front.account_secrets import AccountSecrets
from longhall.front.authenticator import REQUIRED, Authenticator, DoorAuthentication
from longhall.front.credentials import Credentials
from longhall.front.master_key import MasterKey
from longhall.front.oidc.web_keys import read_key_set
from longhall.front.oidc.web_token import Expected, InvalidToken, read_head, verify
from longhall.front.proxy_protocol import HeaderReader, ProxyError
from longhall.world.real.clock import RealClock
from longhall.world.real.entropy import RealEntropy

KEYS = read_key_set(
    {
        "keys": [
            {
                "kty": "EC",
                "crv": "P-256",
                "kid": "one",
                "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
                "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU",
            }
        ]
    }
)
EXPECTED = Expected("https://login.example.org", "longhall", "sub")
SEEDS = [
    b"\0\0\0user\0password",
    b"\1\0n,,n=user,r=abc\nc=biws,r=abc,p=AAAA",
    b"\2\0n,,n=us=2Cer,r=abc\nc=biws,r=abc,p=AAAA",
    b"\3\5PROXY TCP4 192.0.2.1 192.0.2.2 1000 9092\r\n",
    b"\3\7\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\1\2\3\4\5\6\7\x08\0\x50\0\x51",
    b"\4\0eyJhbGciOiJFUzI1NiIsImtpZCI6Im9uZSJ9.eyJzdWIiOiJhIn0.AAAA",
    b"\4\0n,,\1auth=Bearer eyJhbGciOiJFUzI1NiJ9.e30.AA\1\1",
    b"\5\0Basic dXNlcjpwYXNzd29yZA==",
    b"\5\0Bearer lht_0000",
    b"\6\0AWS4-HMAC-SHA256 Credential=key/20260101/eu/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=00",
]


def _made() -> tuple[DoorAuthentication, Verifier]:
    directory = Directory()
    authenticator = Authenticator(
        directory, MasterKey("", makes=False), RealClock(), b"secret", Credentials({"key": "other secret"}), REQUIRED
    )
    secrets = AccountSecrets(authenticator, RealEntropy())
    user = User(DEFAULT_TENANT, scram=tuple(secrets.scram_keys("none of the seeds has this password")))
    event = directory.decide_change([entry_of("user", user)], ())
    assert event is not None
    directory.apply(event)
    door = DoorAuthentication(authenticator, "fuzz")
    return door, Verifier(door)


_door, _verifier = _made()


def TestOneInput(data: bytes) -> None:
    """The first byte chooses what is tried, the second the size of pieces."""
    if len(data) < 3:
        return
    choice, size, body = data[0] % 7, data[1] % 64 + 1, data[2:]
    if choice < len(OFFERED):
        _sasl(OFFERED[choice], body)
    elif choice == 3:
        _proxy([body[at : at + size] for at in range(0, len(body), size)])
    elif choice == 4:
        _token(bearer_token(body) or body.decode("latin-1"))
    elif choice == 5:
        assert _door.of_header(body, "192.0.2.1") is None
    else:
        _signature(body)


def _sasl(mechanism: str, body: bytes) -> None:
    session = SaslSession(_door, RealEntropy(), "192.0.2.1")
    assert session.handshake(mechanism, 1) == 0
    for token in body.split(b"\n", 1):
        if session.step(token, 0.0).error:
            break
    assert session.state != AUTHENTICATED


def _proxy(pieces: list[bytes]) -> None:
    reader = HeaderReader()
    try:
        for piece in pieces:
            while piece:
                wanted = max(reader.wanted, 1)
                if reader.feed(piece[:wanted]) is not None:
                    return
                piece = piece[wanted:]
    except ProxyError:
        pass


def _token(token: str) -> None:
    try:
        verify(token, read_head(token), KEYS, EXPECTED, 0)
    except InvalidToken:
        return
    raise AssertionError("nobody has signed this")


def _signature(header: bytes) -> None:
    headers = {b"authorization": header, b"host": b"localhost", b"x-amz-date": b"20260101T000000Z"}
    try:
        _verifier.verify(b"POST", b"/", headers, b"", 1_767_225_600_000)
    except SqsError:
        return
    raise AssertionError("nobody has signed this")
