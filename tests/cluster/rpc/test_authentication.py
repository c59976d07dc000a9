"""The handshake between processes: only one who knows the secret gets through, and only in its own conversation."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.rpc.authentication import (
    GARBAGE,
    HALL,
    LISTENER,
    NO_SECRET,
    NONCE_BYTES,
    REASONS,
    REFUSED,
    SECRET,
    SECRETS_MAX,
    Dialer,
    Listener,
    Refused,
    Secrets,
    read_secrets,
)
from longhall.cluster.rpc.wire import (
    CHALLENGE,
    FRAME_BYTES_BEFORE_GREETING,
    GREETING,
    HELLO,
    PROOF,
    REFUSAL,
    WELCOME,
    Challenge,
    Greeting,
    Hello,
    Proof,
    Refusal,
    Welcome,
    encode,
)
from longhall.errors import LonghallError

OURS, NEXT, THEIRS = b"o" * 64, b"n" * 64, b"t" * 64
HALL_ID = "5" * 32
MADE = Greeting(version=4, hall=HALL_ID, node=1, incarnation=3, purpose="follow", reads=4)


def body_of(frame: bytes) -> bytes:
    return frame[5:]


def kind_of(frame: bytes) -> int:
    return frame[4]


def nonce(letter: bytes) -> bytes:
    return letter * NONCE_BYTES


def meet(
    ours: Secrets, theirs: Secrets, greeting: Greeting = MADE, *, hall: str = HALL_ID, node: int = 2, expected: int = 2
) -> Greeting:
    """What a listener with the secrets `theirs` learns of a dialer with `ours`."""
    dialer = Dialer(ours, nonce(b"d"), expected, greeting)
    listener = Listener(theirs, nonce(b"l"), hall, node)
    frame = dialer.begin()
    while True:
        answer = listener.receive(kind_of(frame), body_of(frame))
        if isinstance(answer, Greeting):
            assert dialer.receive(WELCOME, body_of(encode(WELCOME, Welcome(node=node, incarnation=1)))) is None
            return answer
        after = dialer.receive(kind_of(answer), body_of(answer))
        assert after is not None
        frame = after


@pytest.mark.parametrize("first", [[OURS], [OURS, NEXT], [NEXT, OURS], [NO_SECRET, OURS], [OURS, NO_SECRET]])
@pytest.mark.parametrize("second", [[OURS], [OURS, NEXT], [NEXT, OURS]])
def test_each_side_offers_its_first_secret_and_accepts_all_of_them(first: list[bytes], second: list[bytes]) -> None:
    if first[0] in second and second[0] in first:
        assert meet(Secrets(first), Secrets(second)) == MADE
    else:
        with pytest.raises(Refused, match="secret"):
            meet(Secrets(first), Secrets(second))


def test_without_any_secret_the_plain_greeting_of_earlier_versions_is_spoken() -> None:
    assert meet(Secrets(), Secrets()) == MADE
    assert Dialer(Secrets(), nonce(b"d"), 2, MADE).begin() == encode(GREETING, MADE)
    with pytest.raises(Refused) as refused:
        meet(Secrets(), Secrets(), hall="another")
    assert (refused.value.reason, refused.value.told) == (HALL, REFUSED)


@pytest.mark.parametrize(
    ("secrets", "words"),
    [(Secrets([THEIRS]), {}), (Secrets([OURS]), {"hall": "6" * 32}), (Secrets([OURS]), {"node": 3})],
)
def test_a_dialer_tells_nothing_to_a_listener_that_has_not_proven_the_secret(
    secrets: Secrets, words: dict[str, object]
) -> None:
    with pytest.raises(Refused) as refused:
        meet(Secrets([OURS]), secrets, **words)  # type: ignore[arg-type]
    assert refused.value.reason == LISTENER
    hello = Dialer(Secrets([OURS]), nonce(b"d"), 2, MADE).begin()
    assert HALL_ID.encode() not in hello
    assert b"reads" not in hello


def encode_raw(kind: int, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + bytes((kind,)) + body


def converse(listener: Listener, frame: bytes) -> bytes:
    answer = listener.receive(kind_of(frame), body_of(frame))
    assert isinstance(answer, bytes)
    return answer


def recorded() -> list[bytes]:
    """What a dialer said to a listener, and was welcomed for."""
    dialer = Dialer(Secrets([OURS]), nonce(b"d"), 2, MADE)
    listener = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 2)
    hello = dialer.begin()
    challenge = converse(listener, hello)
    proof = dialer.receive(CHALLENGE, body_of(challenge))
    assert proof is not None
    assert listener.receive(PROOF, body_of(proof)) == MADE
    return [hello, proof]


def test_a_recorded_conversation_is_worth_nothing_to_the_next_listener() -> None:
    hello, proof = recorded()
    listener = Listener(Secrets([OURS]), nonce(b"m"), HALL_ID, 2)
    converse(listener, hello)
    with pytest.raises(Refused) as refused:
        listener.receive(PROOF, body_of(proof))
    assert (refused.value.reason, refused.value.told) == (SECRET, REFUSED)


def test_a_proof_that_is_sent_back_is_worth_nothing() -> None:
    """Also where both sides have the same number and were made to use the same nonces."""
    listener = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 1)
    hello = encode(HELLO, Hello(nonce=nonce(b"l"), node=1, purpose="follow"))
    challenge = msgspec.msgpack.decode(body_of(converse(listener, hello)), type=Challenge)
    said = msgspec.msgpack.encode(MADE)
    for greeting in (said, b""):
        with pytest.raises(Refused):
            frame = encode(PROOF, Proof(proof=challenge.proof, greeting=greeting))
            listener.receive(PROOF, body_of(frame))


def test_a_proof_for_one_node_is_worth_nothing_at_another() -> None:
    """A stranger to whom a node connects cannot use the proof that it gets elsewhere."""
    dialer = Dialer(Secrets([OURS]), nonce(b"d"), 2, MADE)
    third = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 3)
    challenge = converse(third, dialer.begin())
    with pytest.raises(Refused) as refused:
        dialer.receive(CHALLENGE, body_of(challenge))
    assert refused.value.reason == LISTENER


@given(st.sampled_from(["nonce", "node", "purpose", "hall", "incarnation", "reads", "version"]), st.integers(0, 2**31))
def test_nothing_that_was_proven_can_be_changed(field: str, value: int) -> None:
    dialer = Dialer(Secrets([OURS]), nonce(b"d"), 2, MADE)
    listener = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 2)
    hello = msgspec.msgpack.decode(body_of(dialer.begin()), type=Hello)
    changed: object = value
    if field in ("purpose", "hall"):
        changed = str(value)
    if field == "nonce":
        changed = nonce(b"x")
    in_hello = field in ("nonce", "node", "purpose")
    if changed == getattr(MADE, field, None):
        return
    frame = encode(HELLO, msgspec.structs.replace(hello, **{field: changed}) if in_hello else hello)
    challenge = msgspec.msgpack.decode(body_of(converse(listener, frame)), type=Challenge)
    whole = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 2)
    good = converse(whole, dialer.begin())  # The same nonce: what a dialer was really asked.
    answer = dialer.receive(CHALLENGE, body_of(good))
    assert answer is not None
    proof = msgspec.msgpack.decode(body_of(answer), type=Proof)
    if not in_hello:
        greeting = msgspec.msgpack.encode(msgspec.structs.replace(MADE, **{field: changed}))
        proof = msgspec.structs.replace(proof, greeting=greeting)
    assert (challenge.proof == msgspec.msgpack.decode(body_of(good), type=Challenge).proof) is not in_hello
    with pytest.raises(Refused) as refused:
        listener.receive(PROOF, body_of(encode(PROOF, proof)))
    assert refused.value.reason == SECRET


@given(st.sampled_from([GREETING, HELLO, PROOF, CHALLENGE, WELCOME, REFUSAL, 0, 99]), st.binary(max_size=200))
def test_whatever_a_stranger_says_it_hears_the_same(kind: int, body: bytes) -> None:
    listener = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 2)
    told, reason, answer = REFUSED, SECRET, b""
    try:
        answer = converse(listener, encode_raw(kind, body))
    except Refused as refused:
        told, reason = refused.told, refused.reason
    assert told == REFUSED
    assert reason in (GARBAGE, SECRET)
    assert HALL_ID.encode() not in answer


def test_frames_out_of_turn_are_refused() -> None:
    hello, proof = recorded()
    listener = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 2)
    with pytest.raises(Refused):
        listener.receive(PROOF, body_of(proof))
    listener = Listener(Secrets([OURS]), nonce(b"l"), HALL_ID, 2)
    converse(listener, hello)
    with pytest.raises(Refused):
        listener.receive(HELLO, body_of(hello))


def test_a_dialer_is_not_welcomed_before_the_listener_has_proven_the_secret() -> None:
    dialer = Dialer(Secrets([OURS]), nonce(b"d"), 2, MADE)
    dialer.begin()
    with pytest.raises(ConnectionError, match="does not greet"):
        dialer.receive(WELCOME, body_of(encode(WELCOME, Welcome(node=2, incarnation=1))))
    with pytest.raises(ConnectionError, match="--cluster-secret"):
        dialer.receive(REFUSAL, body_of(encode(REFUSAL, Refusal(reason=REFUSED))))


def test_the_frames_of_a_handshake_fit_into_what_is_read_before_it() -> None:
    largest = msgspec.structs.replace(MADE, node=2**63, incarnation=2**63)
    dialer = Dialer(Secrets([b"x" * 1024]), nonce(b"d"), 2, largest)
    listener = Listener(Secrets([b"x" * 1024]), nonce(b"l"), HALL_ID, 2)
    hello = dialer.begin()
    challenge = converse(listener, hello)
    proof = dialer.receive(CHALLENGE, body_of(challenge))
    assert proof is not None
    assert max(len(hello), len(challenge), len(proof), len(encode(GREETING, largest))) <= FRAME_BYTES_BEFORE_GREETING


def test_a_file_of_secrets() -> None:
    text = f"# of production\n{OURS.decode()}\n\n  {NEXT.decode()}  \n"
    assert read_secrets(text) == [OURS, NEXT]
    assert read_secrets(f"none\n{OURS.decode()}\n") == [NO_SECRET, OURS]


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "none\n", "short\n", "ü" * 64, f"{OURS.decode()}\n" * 2, "with a\ttab" * 8]
    + ["\n".join(letter * 40 for letter in "abcdefghijkl"[: SECRETS_MAX + 1])],
)
def test_what_is_no_file_of_secrets_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(LonghallError) as refused:
        read_secrets(text)
    assert "short" not in str(refused.value)
    assert OURS.decode() not in str(refused.value)


def test_every_reason_has_words() -> None:
    assert all(REASONS.values())
    for reason in REASONS:
        assert str(Refused(reason)) == REASONS[reason]
