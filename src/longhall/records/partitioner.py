"""The partition of a key: the hash of Kafka's clients, so that every door agrees with them.

It is Murmur2 with a fixed seed over 32 bits, made positive by dropping the sign bit, modulo the number of partitions.
It never changes: a key must get the same partition whether a client or a door writes it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The hash as an unsigned 32-bit number. Products stay below 64 bits, as both factors have at most 32 and 31."""
    length: i64 = len(key)
    whole: i64 = length & ~3
    value: i64 = (_SEED ^ length) & _MASK
    at: i64 = 0
    while at < whole:
        byte0: i64 = key[at]
        byte1: i64 = key[at + 1]
        byte2: i64 = key[at + 2]
        byte3: i64 = key[at + 3]
        word: i64 = byte0 | (byte1 << 8) | (byte2 << 16) | (byte3 << 24)
        word = (word * _MULTIPLIER) & _MASK
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ word
        at += 4
    rest: i64 = length & 3
    if rest == 3:
        byte2 = key[whole + 2]
        value ^= byte2 << 16
    if rest >= 2:
        byte1 = key[whole + 1]
        value ^= byte1 << 8
    if rest >= 1:
        byte0 = key[whole]
        value = ((value ^ byte0) * _MULTIPLIER) & _MASK
    value ^= value >> 13
    value = (value * _MULTIPLIER) & _MASK
    return value ^ (value >> 15)


def partition_for(key: bytes, partition_count: int) -> int:
    """The partition, from 0, that this key belongs to among `partition_count`."""
    assert partition_count > 0, "a topic has at least one partition"
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
