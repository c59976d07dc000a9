"""Failed logins: counted, and slowed so that passwords cannot be guessed and hashing cannot be flooded.

Failures are counted for each user at an address, and for the address as a whole with a higher bound, so that a client
with a wrong password does not lock out its neighbours behind the same address. Beyond the bound logins are refused
without a look at the password, for a time that doubles with each further failure. A login that was right before is
recognised by its keyed hash (`front/authenticator.py`) and never shut out.

Clients with outdated passwords retry for ever and must not shut out their neighbours. So an address counts the failures
of a user only within the user's own bound, and none of a user that has logged in from there. Such a user is not shut
out for the failures of others either.

An IPv6 client usually has a network of 64 bits to itself and can take a new address for each try, so the network counts
in the place of the address. A name is remembered up to the length that users and access keys may have: a stranger must
not fill the memory with names.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import Final, final

FREE_FAILURES: Final = 10  # Of a user at an address,
FREE_FAILURES_OF_ADDRESS: Final = 100  # and of all users there.
SHUT_OUT_MS: Final = 250
SHUT_OUT_MS_MAX: Final = 30_000
FORGET_MS: Final = 5 * 60_000  # After this time without a failure they are forgotten.
REMEMBERED_MAX: Final = 10_000
NAME_CHARACTERS_MAX: Final = 256
NETWORK_BITS: Final = 64  # Of IPv6.


@final
class FailedLogins:
    """The recent failures, and counters for metrics, by door."""

    def __init__(self) -> None:
        self.logins: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.shut_out: Counter[str] = Counter()  # Refused unseen.
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}  # Count and last time, in the order of that time.
        self._proven: dict[tuple[str, str], None] = {}  # Address and user of successful logins, the oldest first.

    def is_shut_out(self, address: str, user: str, now_ms: int) -> bool:
        """True if a login is refused unseen. Without a user, as with a token, only those of the address count."""
        source = _source(address)
        login = source, user[:NAME_CHARACTERS_MAX]
        if user and self._is_over(login, FREE_FAILURES, now_ms):
            return True
        return login not in self._proven and self._is_over((source, ""), FREE_FAILURES_OF_ADDRESS, now_ms)

    def _is_over(self, key: tuple[str, str], free: int, now_ms: int) -> bool:
        count, last_ms = self._failures.get(key, (0, 0))
        if count < free:
            return False
        return now_ms < last_ms + min(SHUT_OUT_MS << min(count - free, 16), SHUT_OUT_MS_MAX)

    def note_failure(self, door: str, address: str, user: str, now_ms: int) -> None:
        """A login has failed."""
        self.failed[door] += 1
        source = _source(address)
        login = source, user[:NAME_CHARACTERS_MAX]
        is_free = not user or self._count(login, now_ms) <= FREE_FAILURES
        if is_free and login not in self._proven:
            self._count((source, ""), now_ms)
        while len(self._failures) > REMEMBERED_MAX:
            del self._failures[next(iter(self._failures))]

    def _count(self, key: tuple[str, str], now_ms: int) -> int:
        """Count a failure; returns their number."""
        count, last_ms = self._failures.pop(key, (0, now_ms))
        count = 1 if now_ms - last_ms > FORGET_MS else count + 1
        self._failures[key] = count, now_ms
        return count

    def note_shut_out(self, door: str) -> None:
        """A login was refused unseen."""
        self.shut_out[door] += 1

    def note_login(self, door: str, address: str, user: str) -> None:
        """A login has succeeded."""
        self.logins[door] += 1
        login = _source(address), user[:NAME_CHARACTERS_MAX]
        self._failures.pop(login, None)
        if user:
            self._proven.pop(login, None)
            self._proven[login] = None
            if len(self._proven) > REMEMBERED_MAX:
                del self._proven[next(iter(self._proven))]


def _source(address: str) -> str:
    """What counts as one address: the address of IPv4, the network of IPv6."""
    if ":" not in address:
        return address
    try:
        client = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if client.ipv4_mapped is not None:
        return str(client.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(client) >> NETWORK_BITS << NETWORK_BITS))
