"""The PROXY protocol: both versions as HAProxy sends them, in any pieces, and what is no header."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.front.proxy_protocol import (
    HEADER_BYTES_MAX,
    LINE_BYTES_MAX,
    SIGNATURE,
    HeaderReader,
    Introduction,
    ProxyError,
)

TLS, COMMON_NAME, CERTIFICATE = 0x20, 0x22, 0x28


def read(data: bytes, piece: int = 1) -> tuple[Introduction | None, bytes]:
    """Read as the entrance does, and return what is left of the stream too."""
    reader, at = HeaderReader(), 0
    while at < len(data):
        size = min(piece, reader.wanted) if reader.wanted else 1
        told = reader.feed(data[at : at + size])
        at += size
        if told is not None:
            return told, data[at:]
    return None, b""


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def header(source: str = "192.0.2.7", port: int = 5000, tlvs: bytes = b"", command: int = 1) -> bytes:
    address = ipaddress.ip_address(source)
    family = 0x11 if address.version == 4 else 0x21
    body = address.packed + address.packed + struct.pack(">HH", port, 9092) + tlvs
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, family, len(body)) + body


def tls(bits: int, verified: int, *inner: bytes) -> bytes:
    return tlv(TLS, struct.pack(">BI", bits, verified) + b"".join(inner))


def test_a_line_of_version_1_names_the_client_and_nothing_behind_it_is_read() -> None:
    line = b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 9092\r\n"
    assert read(line + b"rest") == (Introduction("192.0.2.7", 56324), b"rest")
    assert read(b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n")[0] == Introduction("2001:db8::7", 1)
    assert read(b"PROXY UNKNOWN whatever follows\r\nx") == (Introduction(), b"x")


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 56324\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 99999 1\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY UDP4 192.0.2.7 192.0.2.1 1 2\r\n",
        b"PROXY TCP4 a b 1 2\r\n",
        b"PROXY TCP4 192.0.2.7\n",
        b"PROXY " + b"x" * LINE_BYTES_MAX,
        b"\x16\x03\x01",
    ],
)
def test_what_is_no_header_is_an_error(line: bytes) -> None:
    with pytest.raises(ProxyError):
        read(line)


@pytest.mark.parametrize("piece", [1, 5, 16, 1000])
def test_version_2_names_the_client_and_its_verified_certificate(piece: int) -> None:
    told, rest = read(header(tlvs=tls(0x07, 0, tlv(COMMON_NAME, b"alice"))) + b"rest", piece)
    assert told == Introduction("192.0.2.7", 5000, True, "alice")
    assert rest == b"rest"
    told, _ = read(header("2001:db8::7", tlvs=tls(0x03, 0, tlv(CERTIFICATE, b"DER"))), piece)
    assert told == Introduction("2001:db8::7", 5000, True, "", b"DER")


def test_a_certificate_that_the_balancer_did_not_verify_names_nobody() -> None:
    unverified = header(tlvs=tls(0x03, 1, tlv(COMMON_NAME, b"alice")))
    assert read(unverified)[0] == Introduction("192.0.2.7", 5000, True)
    without = header(tlvs=tls(0x01, 0, tlv(COMMON_NAME, b"alice")))
    assert read(without)[0] == Introduction("192.0.2.7", 5000, True)


def test_a_health_check_of_the_balancer_introduces_nobody() -> None:
    assert read(header(command=0))[0] == Introduction()
    assert read(SIGNATURE + struct.pack(">BBH", 0x20, 0, 0))[0] == Introduction()


@pytest.mark.parametrize(
    "data",
    [
        SIGNATURE + struct.pack(">BBH", 0x11, 0x11, 12) + bytes(12),  # The version.
        SIGNATURE + struct.pack(">BBH", 0x22, 0x11, 12) + bytes(12),  # The command.
        SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 4) + bytes(4),  # No room for addresses.
        SIGNATURE + struct.pack(">BBH", 0x21, 0x11, HEADER_BYTES_MAX + 1),
        header(tlvs=b"\x20\x00"),
        header(tlvs=b"\x20\x00\x09ab"),
        header(tlvs=tlv(TLS, b"\x01")),
        header(tlvs=tls(0x03, 0, tlv(COMMON_NAME, b"\xff"))),
    ],
)
def test_a_malformed_header_is_an_error(data: bytes) -> None:
    with pytest.raises(ProxyError):
        read(data)


@given(st.binary(max_size=300), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"]))
def test_any_bytes_are_a_header_or_an_error_or_incomplete(data: bytes, start: bytes) -> None:
    try:
        told, _ = read(start + data)
    except ProxyError:
        return
    assert told is None or isinstance(told, Introduction)
