r"""STOMP frames: bytes to frames and back.

    COMMAND           EOL     EOL is LF, or CR LF
    name:value        EOL     up to HEADERS_MAX lines; of a repeated name the first line counts
                      EOL
    body              NUL     `content-length` bytes, or everything up to the first NUL
    EOL or NUL ...            between frames: heart-beats

    in names and values     1.0       1.1 and 1.2
    \n  \c  \\               as is     line feed, colon, backslash
    \r                      as is     1.2: carriage return; 1.1: malformed
    CONNECT, CONNECTED      as is     as is

STOMP 1.0 ignores spaces around names and before values. What is malformed is an error: nothing of it is guessed.
"""

from __future__ import annotations

from typing import Final, final

V1_0: Final = "1.0"
V1_1: Final = "1.1"
V1_2: Final = "1.2"
HEADERS_MAX: Final = 100
HEAD_BYTES_MAX: Final = 64 * 1024  # The command and all headers of a frame.
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
UNAUTHENTICATED_BYTES_MAX: Final = 64 * 1024  # Of a frame before the client is connected.
HEART_BEAT: Final = b"\n"
CONTENT_LENGTH: Final = "content-length"
NUMBER_DIGITS_MAX: Final = 18

_LF: Final = 0x0A
_CR: Final = 0x0D
_NUL: Final = 0x00
_UNESCAPED: Final = frozenset(("CONNECT", "STOMP", "CONNECTED"))


class MalformedFrame(Exception):
    """Bytes that are no frame. The text says why."""


@final
class StompFrame:
    """One frame."""

    __slots__ = ("body", "command", "headers")

    def __init__(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.command = command
        self.headers = headers
        self.body = body


@final
class FrameDecoder:
    """The frames of one connection. After a MalformedFrame it must not be used any more."""

    def __init__(self, bytes_max: int = UNAUTHENTICATED_BYTES_MAX) -> None:
        self.version = V1_0  # What CONNECT and CONNECTED have agreed on.
        self.bytes_max = bytes_max  # Of one frame.
        self._data = b""
        self._at = 0  # Where the next frame begins.
        self._head: StompFrame | None = None  # A frame whose body has not arrived.
        self._body_at = 0
        self._length = -1  # Of the body; -1: up to the first NUL.
        self._searched = 0  # No end is before this position: it is not searched twice.
        self._more: list[bytes] = []  # Of a body without its end, behind `_data`: joined once, when the end is here.
        self._more_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes of the unfinished frame."""
        return len(self._data) - self._at + self._more_bytes

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._head is not None:
            self._more.append(data)
            self._more_bytes += len(data)
            if not self._ends_with(data):
                return
            data = b"".join(self._more)
            self._more.clear()
            self._more_bytes = 0
        if self._at:
            rest = self._data[self._at :]
            self._body_at -= self._at
            self._searched -= self._at
            self._at = 0
            self._data = rest + data
        else:
            self._data = self._data + data if self._data else data

    def next(self) -> StompFrame | None:
        """The next whole frame; None if it has not arrived. Raises MalformedFrame."""
        head = self._head
        if head is None:
            head = self._next_head()
            if head is None:
                return None
        stop = self._body_end()
        if stop < 0:
            if self.held_bytes > self.bytes_max:
                raise MalformedFrame(f"a frame has more than {self.bytes_max} bytes")
            return None
        if stop - self._at > self.bytes_max:
            raise MalformedFrame(f"a frame has more than {self.bytes_max} bytes")
        head.body = self._data[self._body_at : stop]
        self._at = stop + 1
        self._searched = self._at
        self._head = None
        if self._at == len(self._data):
            self._data = b""
            self._at = self._searched = 0
        return head

    def _ends_with(self, data: bytes) -> bool:
        """True if the end of the body is in the bytes that came last."""
        if self._length >= 0:
            return self._body_at + self._length < len(self._data) + self._more_bytes
        return data.find(b"\0") >= 0

    def _next_head(self) -> StompFrame | None:
        """The command and the headers of the next frame, if they have arrived."""
        data = self._data
        at = self._at
        end = len(data)
        while at < end and (data[at] == _LF or data[at] == _CR or data[at] == _NUL):
            at += 1
        if at and data[at - 1] == _CR and at == end:
            at -= 1  # Its line feed may follow.
        self._at = at
        self._searched = max(self._searched, at)
        stop = self._head_end()
        if stop < 0:
            if end - at > min(HEAD_BYTES_MAX, self.bytes_max):
                raise MalformedFrame(f"the headers of a frame have more than {HEAD_BYTES_MAX} bytes")
            return None
        if stop - at > HEAD_BYTES_MAX:
            raise MalformedFrame(f"the headers of a frame have more than {HEAD_BYTES_MAX} bytes")
        head = decode_head(data[at:stop], self.version)
        self._length = _content_length(head.headers)
        if self._length > self.bytes_max:
            raise MalformedFrame(f"a frame has more than {self.bytes_max} bytes")
        self._head = head
        self._body_at = self._searched = stop
        return head

    def _head_end(self) -> int:
        """Where the body begins: behind the first empty line. -1 if that has not arrived."""
        data = self._data
        at = max(self._searched, self._at)
        end = len(data)
        while True:
            at = data.find(b"\n", at)
            if at < 0:
                self._searched = end
                return -1
            if at + 1 < end and data[at + 1] == _LF:
                return at + 2
            if at + 2 < end and data[at + 1] == _CR and data[at + 2] == _LF:
                return at + 3
            if at + 1 >= end or (at + 2 >= end and data[at + 1] == _CR):
                self._searched = at  # The next bytes decide.
                return -1
            at += 1

    def _body_end(self) -> int:
        """The position of the NUL behind the body; -1 if it has not arrived."""
        data = self._data
        if self._length >= 0:
            stop = self._body_at + self._length
            if stop >= len(data):
                return -1
            if data[stop]:
                raise MalformedFrame(f"no NUL is behind the {self._length} bytes of content-length")
            return stop
        stop = data.find(b"\0", max(self._searched, self._body_at))
        if stop < 0:
            self._searched = len(data)
        return stop


def decode_head(data: bytes, version: str) -> StompFrame:
    """Command and headers. `data` ends with the empty line."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedFrame("the headers are not UTF-8") from None
    if "\0" in text:
        raise MalformedFrame("a NUL is among the headers")
    lines = text.split("\n")
    if len(lines) - 3 > HEADERS_MAX:
        raise MalformedFrame(f"a frame has more than {HEADERS_MAX} headers")
    command = _line(lines[0])
    if version == V1_0:
        command = command.strip()
    if not command:
        raise MalformedFrame("a frame has no command")
    escapes = version != V1_0 and command not in _UNESCAPED
    headers: dict[str, str] = {}
    for number in range(1, len(lines) - 2):
        line = _line(lines[number])
        colon = line.find(":")
        if colon < 0:
            raise MalformedFrame(f"a header has no colon: {line[:60]!r}")
        name, value = line[:colon], line[colon + 1 :]
        if version == V1_0:
            name, value = name.strip(), value.lstrip()
        elif escapes and "\\" in line:
            name, value = unescape(name, version), unescape(value, version)
        if not name:
            raise MalformedFrame("a header has no name")
        if name not in headers:
            headers[name] = value
    return StompFrame(command, headers)


def _line(line: str) -> str:
    return line[:-1] if line.endswith("\r") else line


def _content_length(headers: dict[str, str]) -> int:
    text = headers.get(CONTENT_LENGTH)
    if text is None:
        return -1
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > NUMBER_DIGITS_MAX:
        raise MalformedFrame(f"content-length is no number: {text[:60]!r}")
    return int(text)


def unescape(text: str, version: str) -> str:
    """A name or value as it was meant. Raises MalformedFrame for an unknown escape."""
    parts: list[str] = []
    at = 0
    while True:
        found = text.find("\\", at)
        if found < 0:
            parts.append(text[at:])
            return "".join(parts)
        parts.append(text[at:found])
        mark = text[found + 1 : found + 2]
        if mark == "n":
            parts.append("\n")
        elif mark == "c":
            parts.append(":")
        elif mark == "\\":
            parts.append("\\")
        elif mark == "r" and version == V1_2:
            parts.append("\r")
        else:
            raise MalformedFrame(f"'\\{mark}' is no escape of STOMP {version}")
        at = found + 2


def escape(text: str, version: str) -> str:
    """The inverse of `unescape`."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")
    return text.replace("\r", "\\r") if version == V1_2 else text


def encode_frame(command: str, headers: list[tuple[str, str]], body: bytes, version: str) -> bytes:
    """The bytes of a frame, with a line feed behind its NUL.

    What a version cannot express is changed: STOMP 1.0 gets spaces for line ends, and no colons in names.
    """
    lines = [command]
    if command in _UNESCAPED:
        lines += [f"{name}:{value}" for name, value in headers]
    elif version == V1_0:
        lines += [f"{_plain(name).replace(':', '_')}:{_plain(value)}" for name, value in headers]
    else:
        lines += [f"{escape(name, version)}:{_valued(value, version)}" for name, value in headers]
    head = "\n".join(lines).encode("utf-8", "surrogateescape")
    return b"".join((head, b"\n\n", body, b"\0\n"))


def _plain(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")


def _valued(text: str, version: str) -> str:
    escaped = escape(text, version) if "\\" in text or ":" in text or "\n" in text or "\r" in text else text
    if "\0" in escaped:
        escaped = escaped.replace("\0", " ")
    # The CR at the end of a line belongs to the line end.
    return escaped.rstrip("\r") if version == V1_1 else escaped
