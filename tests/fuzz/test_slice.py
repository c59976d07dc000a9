"""A slice of the fuzz targets of logins and handshakes: their seeds, and changed, cut and joined ones, by a fixed seed.

`./dev fuzz` runs the same targets for as long as one likes, with a fuzzer that looks for new lines.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable

import pytest

TARGETS = ("logins", "tls", "amqp", "stomp", "http")
INPUTS = 400
EMPTY = [b"", b"\0" * 20, b"\xff" * 20, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 20]


def _changed(seeds: list[bytes], luck: random.Random) -> bytes:
    """One seed with a few bytes changed, cut, repeated, or with the end of another one."""
    made = bytearray(luck.choice(seeds))
    for _ in range(luck.randrange(4)):
        if made:
            made[luck.randrange(len(made))] = luck.choice((0, 1, 0x7F, 0x80, 0xFF, luck.randrange(256)))
    at = luck.randrange(len(made) + 1)
    kind = luck.randrange(5)
    if kind == 0:
        return bytes(made[:at])
    if kind == 1:
        return bytes(made[:at]) + luck.choice(seeds)[at:]
    if kind == 2:
        return bytes(made[:at]) + luck.randbytes(luck.randrange(64)) + bytes(made[at:])
    if kind == 3:
        return bytes(made) * luck.randrange(1, 4)
    return bytes(made)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_that_a_client_sends_breaks_a_handshake_or_logs_it_in(target: str) -> None:
    module = importlib.import_module(f"tests.fuzz.fuzz_{target}")
    test_one_input: Callable[[bytes], None] = module.TestOneInput
    seeds: list[bytes] = [*getattr(module, "SEEDS", ()), *EMPTY]
    luck = random.Random(target)
    for data in [*seeds, *(_changed(seeds, luck) for _ in range(INPUTS))]:
        try:
            test_one_input(data)
        except BaseException as error:
            error.add_note(f"the input was {data!r}")
            raise
