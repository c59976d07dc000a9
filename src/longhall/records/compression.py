"""The four compression codecs of a batch's records, with a bound on the decompressed size.

The length that a message claims allocates nothing: the output starts with the size of the input and grows only while
decompression fills it, up to the caller's bound and up to the largest ratio of the codec. Batches are opened rarely
(compaction, compacted topics, our own client): producing and fetching pass them through.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from longhall.errors import Code, LonghallError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_MAX: Final = 4
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_GUESS_BYTES_MIN: Final = 4096
_GUESS_RATIO: Final = 4
_SLACK_BYTES: Final = 65536
# The largest size that one compressed byte can become; a bound that limits the buffers of an attack.
_RATIO_MAX: Final = (1, 1032, 22, 255, 32768)

_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3
_LZ4_LEVEL: Final = 9  # Kafka's default, which is the fast mode; every other level is the thorough one.

# Java's snappy stream: a magic, its version and the oldest compatible one, then blocks with their length before.
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER: Final = _SNAPPY_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK_BYTES: Final = 32768

# An lz4 frame of independent 64 KiB blocks, the only kind that Java's reader accepts; 0x82 is its checksum.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 65536
_LZ4_END: Final = b"\x00\x00\x00\x00"
_LZ4_CONTENT_SIZE: Final = 0x08  # Of the flags of a frame: its size follows the descriptor.
_LZ4_STORED: Final = 0x80000000  # Marks a block that compression would have made larger.

_INT32: Final = struct.Struct(">i")
_UINT32_LITTLE: Final = struct.Struct("<I")


def compress(codec: int, payload: bytes, level: int | None = None) -> bytes:
    """Compress as the Java client does; without a level, or with Kafka's default level, as it does by default."""
    if codec == NONE:
        return payload
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(payload, level=_GZIP_LEVEL if level is None or level < 0 else level))
    if codec == SNAPPY:
        return _compress_snappy(payload)
    if codec == LZ4:
        return _compress_lz4(payload, level)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(payload, level=_ZSTD_LEVEL if level is None else level))
    raise LonghallError(Code.UNSUPPORTED_FORMAT, "unknown compression codec")


def decompress(codec: int, payload: bytes, size_bytes_max: int) -> bytes:
    """Decompress; refuses damaged bytes and results larger than `size_bytes_max`."""
    if codec == NONE:
        if len(payload) > size_bytes_max:
            raise LonghallError(Code.MESSAGE_TOO_LARGE, "a batch is larger than allowed")
        return payload
    if codec == SNAPPY:
        return _decompress_snappy(payload, size_bytes_max)
    if codec < NONE or codec > CODEC_MAX:
        raise LonghallError(Code.UNSUPPORTED_FORMAT, "unknown compression codec")
    limit = min(size_bytes_max, len(payload) * _RATIO_MAX[codec] + _SLACK_BYTES)
    size = min(limit, max(len(payload) * _GUESS_RATIO, _GUESS_BYTES_MIN))
    while True:
        out = bytearray(size)
        try:
            written = _decompress_into(codec, payload, out)
            return memoryview(out)[:written].tobytes()
        except cramjam.DecompressionError as error:
            # The library has one exception for both: only its message distinguishes a full output from damage.
            if "whole buffer" not in str(error):
                raise LonghallError(Code.CORRUPT_MESSAGE, "compressed records are damaged") from None
        if size >= limit:
            raise LonghallError(Code.MESSAGE_TOO_LARGE, "a batch is too large when it is decompressed")
        size = min(limit, size * 4)


def _decompress_into(codec: int, payload: bytes, out: bytearray) -> int:
    if codec == GZIP:
        return cramjam.gzip.decompress_into(payload, out)
    if codec == LZ4:
        return cramjam.lz4.decompress_into(payload, out)
    return cramjam.zstd.decompress_into(payload, out)


def _compress_snappy(payload: bytes) -> bytes:
    parts = [_SNAPPY_HEADER]
    for start in range(0, len(payload), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(payload[start : start + _SNAPPY_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(payload: bytes, size_bytes_max: int) -> bytes:
    """Decompress both dialects: Java's stream of blocks, and the single raw block that librdkafka and others send."""
    if not payload.startswith(_SNAPPY_MAGIC):
        return _decompress_snappy_block(payload, size_bytes_max)
    at = len(_SNAPPY_HEADER)
    parts: list[bytes] = []
    remaining = size_bytes_max
    while at < len(payload):
        if len(payload) - at < 4:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a snappy stream is truncated")
        length: int = _INT32.unpack_from(payload, at)[0]
        at += 4
        if length < 0 or length > len(payload) - at:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a snappy block runs past its stream")
        block = _decompress_snappy_block(payload[at : at + length], remaining)
        remaining -= len(block)
        parts.append(block)
        at += length
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, size_bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _RATIO_MAX[SNAPPY] + _SLACK_BYTES:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a snappy block claims an impossible size")
        if size > size_bytes_max:
            raise LonghallError(Code.MESSAGE_TOO_LARGE, "a batch is too large when it is decompressed")
        out = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError:
        raise LonghallError(Code.CORRUPT_MESSAGE, "compressed records are damaged") from None
    if written != size:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a snappy block does not have the size it states")
    return bytes(out)


def _compress_lz4(payload: bytes, level: int | None) -> bytes:
    parts = [_LZ4_HEADER]
    for start in range(0, len(payload), _LZ4_BLOCK_BYTES):
        plain = payload[start : start + _LZ4_BLOCK_BYTES]
        if level is None or level == _LZ4_LEVEL:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = _lz4_block(bytes(cramjam.lz4.compress(plain, level=level)), len(plain))
        if len(block) < len(plain):
            parts.append(_UINT32_LITTLE.pack(len(block)))
            parts.append(block)
        else:
            parts.append(_UINT32_LITTLE.pack(len(plain) | _LZ4_STORED))
            parts.append(plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _lz4_block(frame: bytes, plain_bytes: int) -> bytes:
    """The only block of a frame, because the library has levels for frames alone. Without gain, as large as it was."""
    at = 7 + (8 if frame[4] & _LZ4_CONTENT_SIZE else 0)
    size: int = _UINT32_LITTLE.unpack_from(frame, at)[0]
    if size & _LZ4_STORED:
        return bytes(plain_bytes)  # The caller stores it as it is.
    return frame[at + 4 : at + 4 + size]
