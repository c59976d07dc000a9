"""Names of AMQP queues as names of queues of the hall, which are also topics and obey Kafka's rule.

    virtual host and name            queue of the hall
    -------------------------------  --------------------------------------------------------------------
    `/`, a legal name                the same name: `orders`
    `/`, other characters            each byte that is not a letter, digit, `.`, `_` or `-` as `_-HH` (hexadecimal)
    another virtual host             its escaped name, `_-.`, then the escaped name of the queue
    a name that becomes too long     its first 200 characters, `_-x`, and 40 digits of its SHA-256

A `_` before a `-` is escaped as well, so two names never become one, and `names_of` inverts all but the last row.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from longhall.names import NAME_LENGTH_MAX

DEFAULT_HOST: Final = "/"
BETWEEN: Final = "_-."
CUT: Final = "_-x"
_CUT_AT: Final = 200
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
_UNSAFE: Final = re.compile(rb"_(?=-)|[^A-Za-z0-9._-]")
_ESCAPED: Final = re.compile(rb"_-([0-9A-F]{2})")


@lru_cache(maxsize=16_384)
def hall_name(host: str, name: str) -> str:
    """The name of the hall's queue for a queue of a virtual host."""
    if host == DEFAULT_HOST and _PLAIN.fullmatch(name) and "_-" not in name and len(name) <= NAME_LENGTH_MAX:
        return name if name not in (".", "..") else "_-2E" + name[1:]
    escaped = _escape(name)
    if escaped in ("", ".", ".."):
        escaped = "_-2E" + escaped[1:] if escaped else "_-00"
    full = escaped if host == DEFAULT_HOST else _escape(host) + BETWEEN + escaped
    if len(full) <= NAME_LENGTH_MAX:
        return full
    return full[:_CUT_AT] + CUT + hashlib.sha256(full.encode()).hexdigest()[:40]


def names_of(queue: str) -> tuple[str, str]:
    """Virtual host and name of a queue of the hall. A name that was cut stays as it is."""
    host, between, name = queue.partition(BETWEEN)
    if not between:
        return DEFAULT_HOST, _unescape(queue)
    return _unescape(host), _unescape(name)


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: b"_-%02X" % found[0][0], text.encode()).decode()


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: bytes((int(found[1], 16),)), text.encode()).decode(errors="replace")
