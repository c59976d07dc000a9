"""The PROXY protocol, versions 1 and 2: the line or header with which a balancer introduces the client behind it.

    version 1    "PROXY TCP4 192.0.2.7 192.0.2.1 56324 9092\r\n", at most 107 bytes
    version 2    signature (12) | version and command (1) | family (1) | length (2) | addresses | TLVs

TLVs of version 2 that are read: 0x20 (the client's TLS), in it 0x22 (the common name of its certificate) and 0x28 (the
certificate itself). Pure: it gets bytes and returns how many more it wants or what they mean. Whether the sender may be
believed is decided elsewhere.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_BYTES_MAX: Final = 107  # Of version 1, by its specification.
HEADER_BYTES_MAX: Final = 16 * 1024  # Of version 2: addresses, names, and room for a certificate.

_HEAD_BYTES: Final = 16
_LOCAL: Final = 0
_PROXY: Final = 1
_ADDRESS_BYTES: Final = {1: 12, 2: 36}  # By family: IPv4 and IPv6, with both ports.
_TLS: Final = 0x20
_TLS_COMMON_NAME: Final = 0x22
_TLS_CERTIFICATE: Final = 0x28
_CLIENT_TLS: Final = 0x01  # Bits of the first byte of 0x20.
_CLIENT_CERTIFICATE: Final = 0x02 | 0x04  # On this connection, or in the session that it resumes.


class ProxyError(ValueError):
    """Bytes that are no header of the PROXY protocol."""


class Introduction(NamedTuple):
    """What a header says. Without an address it speaks for the balancer itself, as its health checks do."""

    address: str = ""
    port: int = 0
    is_tls: bool = False  # The client speaks TLS with the balancer.
    common_name: str = ""  # Of the client's certificate, if the balancer has verified it.
    certificate: bytes = b""  # DER, if the balancer passes it on and has verified it.


class HeaderReader:
    """Reads one header from a stream, and never a byte behind it.

    `wanted` bytes may be taken from the stream without going past the header; `feed` gets them and returns the
    introduction when the header is complete.
    """

    def __init__(self) -> None:
        self._data = b""

    @property
    def wanted(self) -> int:
        """How many bytes certainly belong to the header and are missing; 0 if only a line's end tells where it ends."""
        data = self._data
        if not data.startswith(SIGNATURE[:1]):
            return 0 if data else 1
        if len(data) < _HEAD_BYTES:
            return _HEAD_BYTES - len(data)
        return _HEAD_BYTES + self._length() - len(data)

    @property
    def is_line(self) -> bool:
        """True if the header is a line of version 1."""
        return self._data[:1] == b"P"

    def feed(self, data: bytes) -> Introduction | None:
        """Take bytes of the header. None while it is incomplete; ProxyError if it is none."""
        self._data += data
        data = self._data
        if data[:1] == b"P":
            return self._line()
        if not SIGNATURE.startswith(data[: len(SIGNATURE)]):
            raise ProxyError("the connection does not begin with a header of the PROXY protocol")
        if len(data) < _HEAD_BYTES:
            return None
        if self._length() > HEADER_BYTES_MAX:
            raise ProxyError(f"its header has more than {HEADER_BYTES_MAX} bytes")
        if len(data) < _HEAD_BYTES + self._length():
            return None
        return _binary(data[12], data[13], data[_HEAD_BYTES:])

    def _length(self) -> int:
        return int.from_bytes(self._data[14:16], "big")

    def _line(self) -> Introduction | None:
        line = self._data
        if not b"PROXY ".startswith(line[:6]):
            raise ProxyError("the connection does not begin with a header of the PROXY protocol")
        if not line.endswith(b"\r\n"):
            if len(line) >= LINE_BYTES_MAX or b"\n" in line:
                raise ProxyError("the line of its header does not end")
            return None
        return _text(line[:-2])


def _text(line: bytes) -> Introduction:
    words = line.decode("ascii", "replace").split(" ")
    if words[1] == "UNKNOWN":
        return Introduction()
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise ProxyError("the line of its header has not the form PROXY TCP4 FROM TO PORT PORT")
    try:
        addresses = [ipaddress.ip_address(word) for word in words[2:4]]
        ports = [_port(word) for word in words[4:6]]
    except ValueError:
        raise ProxyError("the line of its header has malformed addresses") from None
    if any(one.version != int(words[1][3]) for one in addresses):
        raise ProxyError("the line of its header has addresses of another family")
    return Introduction(str(addresses[0]), ports[0])


def _port(word: str) -> int:
    if not word.isdigit() or not word.isascii() or len(word) > 5 or int(word) > 65_535:
        raise ValueError(word)
    return int(word)


def _binary(version_command: int, family_protocol: int, body: bytes) -> Introduction:
    if version_command >> 4 != 2:
        raise ProxyError(f"its header has version {version_command >> 4}")
    command = version_command & 0xF
    if command not in (_LOCAL, _PROXY):
        raise ProxyError(f"its header has the unknown command {command}")
    size = _ADDRESS_BYTES.get(family_protocol >> 4)
    if command == _LOCAL or size is None:  # A Unix socket or nothing: the connection's own address holds.
        return Introduction()
    if len(body) < size:
        raise ProxyError("its header is shorter than its addresses")
    half = (size - 4) // 2
    address = ipaddress.ip_address(body[:half])
    (port,) = struct.unpack_from(">H", body, 2 * half)
    tls = _tlvs(body[size:]).get(_TLS)
    if tls is None:
        return Introduction(str(address), port)
    is_tls, common_name, certificate = _client_tls(tls)
    return Introduction(str(address), port, is_tls, common_name, certificate)


def _client_tls(value: bytes) -> tuple[bool, str, bytes]:
    if len(value) < 5:
        raise ProxyError("its header has a malformed part about TLS")
    (verified,) = struct.unpack_from(">I", value, 1)
    if verified != 0 or not value[0] & _CLIENT_CERTIFICATE:
        return bool(value[0] & _CLIENT_TLS), "", b""
    inner = _tlvs(value[5:])
    try:
        common_name = inner.get(_TLS_COMMON_NAME, b"").decode()
    except UnicodeDecodeError:
        raise ProxyError("its header has a name that is not UTF-8") from None
    return bool(value[0] & _CLIENT_TLS), common_name, inner.get(_TLS_CERTIFICATE, b"")


def _tlvs(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if len(data) - at < 3:
            raise ProxyError("its header ends within a part")
        kind, size = struct.unpack_from(">BH", data, at)
        at += 3
        if len(data) - at < size:
            raise ProxyError("its header ends within a part")
        found[kind] = data[at : at + size]
        at += size
    return found
