"""Kafka writers: plain, idempotent, and by key into a compacted topic."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from longhall.client.refusals import Refused
from longhall.records.batch import build_batch
from longhall.records.record import Record
from simulation.checkers.sends import Outcome, Place, Send
from simulation.checkers.topic_state import KeyOracle
from simulation.checkers.violation import Violation
from simulation.scenarios.produce_outcomes import produce_once
from simulation.scenarios.run_context import RunContext

PIPELINE_MAX: Final = 4
LARGE_BYTES: Final = (65_000, 150_000)  # Around the size from which batches bypass the write-ahead log.
SMALL_BYTES: Final = (20, 2_000)
# Errors that an idempotent producer gets only if the hall forgot it or lost a batch.
_AMNESIA: Final = frozenset({45, 46, 47, 59})


def values_for(context: RunContext, chance: random.Random, name: str, number: int) -> list[bytes]:
    """Unique values: the writer, number and index, and padding."""
    if chance.random() < context.large_chance:
        return [f"{name}/{number}/0:".encode() + chance.randbytes(chance.randrange(*LARGE_BYTES))]
    count = chance.choice((1, 1, 1, 2, 5))
    return [
        f"{name}/{number}/{index}:".encode() + chance.randbytes(chance.randrange(*SMALL_BYTES) // count)
        for index in range(count)
    ]


def records_of(context: RunContext, send: Send, key: bytes | None = None) -> list[Record]:
    send.timestamp_ms = context.now_ms()
    return [Record(-1, send.timestamp_ms, key, value) for value in send.values]


async def write_plainly(context: RunContext, name: str, places: list[Place], pause_s: float) -> None:
    """Send several batches at once; what is not acknowledged is not sent again."""
    chance = context.stream(name)
    hall = await context.connect(name)
    number = 0
    while not context.closing:
        await asyncio.sleep(chance.expovariate(1 / pause_s))
        attempts = []
        for _ in range(chance.randint(1, PIPELINE_MAX)):
            send = context.log.sending(chance.choice(places), name, -1, values_for(context, chance, name, number))
            batch = build_batch(records_of(context, send), compression=chance.randrange(context.compressions))
            attempts.append(produce_once(hall, context.log, send, batch))
            number += 1
        if any(await asyncio.gather(*attempts)):
            await asyncio.sleep(chance.uniform(0.05, 0.5))


async def write_idempotently(context: RunContext, name: str, places: list[Place], pause_s: float) -> None:
    """Send each batch until it is acknowledged, sometimes twice at once: it must be stored once, and in order."""
    chance = context.stream(name)
    hall = await context.connect(name)
    who = await hall.transactions.identify(None)
    sequences = dict.fromkeys(places, 0)
    number = 0
    while not context.closing:
        await asyncio.sleep(chance.expovariate(1 / pause_s))
        place = chance.choice(places)
        send = context.log.sending(place, name, number, values_for(context, chance, name, number))
        batch = build_batch(
            records_of(context, send),
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=sequences[place],
            compression=chance.randrange(context.compressions),
        )
        sequences[place] += len(send.values)
        number += 1
        while send.outcome is not Outcome.ACKNOWLEDGED:
            twins = 2 if chance.random() < 0.2 else 1
            failures = await asyncio.gather(*(produce_once(hall, context.log, send, batch) for _ in range(twins)))
            for failure in failures:
                if isinstance(failure, Refused) and failure.error_code in _AMNESIA:
                    raise Violation(f"{name}: {send} was answered with {failure}")
            if all(failures):
                send.outcome = Outcome.UNKNOWN  # The batch may be in the log already, so a refusal decides nothing.
                await asyncio.sleep(chance.uniform(0.05, 0.5))


async def write_keys(context: RunContext, name: str, oracle: KeyOracle, keys: int, pause_s: float) -> None:
    """Send one batch at a time, in order, of a few recurring keys, with tombstones among them."""
    chance = context.stream(name)
    hall = await context.connect(name)
    who = await hall.transactions.identify(None)
    sequence = 0
    number = 0
    while not context.closing:
        await asyncio.sleep(chance.expovariate(1 / pause_s))
        key = f"key-{chance.randrange(keys)}".encode()
        value = f"{name}/{number}:".encode() + chance.randbytes(chance.randrange(10, 300))
        if chance.random() < 0.1:
            value = f"{name}/{number}".encode()
        send = Send(oracle.place, name, number, [value], None)
        send.timestamp_ms = context.now_ms()
        stored = None if b":" not in value else value
        oracle.writing(key, stored, send)
        batch = build_batch(
            [Record(-1, send.timestamp_ms, key, stored)],
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
        )
        sequence += 1
        number += 1
        while send.outcome is not Outcome.ACKNOWLEDGED:
            failure = await produce_once(hall, context.log, send, batch)
            if isinstance(failure, Refused) and failure.error_code in _AMNESIA:
                raise Violation(f"{name}: {send} was answered with {failure}")
            if failure is not None:
                send.outcome = Outcome.UNKNOWN
                await asyncio.sleep(chance.uniform(0.05, 0.5))


async def write_evenly(context: RunContext, name: str, place: Place, size_bytes: int, pause_s: float) -> None:
    """Send batches of one size: in a recycled file a new frame then ends where an old one begins."""
    chance = context.stream(name)
    hall = await context.connect(name)
    number = 0
    while not context.closing:
        await asyncio.sleep(pause_s)
        value = f"{name}/{number:08d}:".encode().ljust(size_bytes, b".")
        send = context.log.sending(place, name, -1, [value])
        number += 1
        if await produce_once(hall, context.log, send, build_batch(records_of(context, send))) is not None:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
