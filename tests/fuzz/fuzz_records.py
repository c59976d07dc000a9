"""Fuzz target: whatever bytes come, the records room answers or raises a LonghallError, within its bounds."""

from __future__ import annotations

from longhall.errors import LonghallError
from longhall.records.batch import check_batch, parse_header, read_records, scan_headers
from longhall.records.compression import CODEC_MAX, decompress
from longhall.records.control import parse_marker
from longhall.records.varint import read_signed, read_signed_long, read_unsigned

OPENED_BYTES_MAX = 1024 * 1024
READERS = (read_unsigned, read_signed, read_signed_long)


def TestOneInput(data: bytes) -> None:
    """The first byte chooses the decoder, so that each gets a corpus of its own."""
    if not data:
        return
    choice, body = data[0] % 4, data[1:]
    try:
        if choice == 0:
            for reader in READERS:
                reader(body, 0)
        elif choice == 1:
            opened = decompress(body[0] % (CODEC_MAX + 1) if body else 0, body[1:], OPENED_BYTES_MAX)
            assert len(opened) <= OPENED_BYTES_MAX
        elif choice == 2:
            _open(body)
        else:
            # The magic is set, so that the fuzzer does not have to find it before it gets to the records.
            _open(body[:16] + b"\x02" + body[17:])
    except LonghallError:
        pass


def _open(body: bytes) -> None:
    scanned = scan_headers(body, 0, len(body))
    assert sum(header.size_bytes for header in scanned) <= len(body)
    header = parse_header(body, 0)
    records = read_records(body, 0, OPENED_BYTES_MAX)
    assert len(records) == header.record_count
    if header.is_control:
        parse_marker(body, 0, header)
    check_batch(body, 0, len(body))
