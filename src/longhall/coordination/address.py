"""The address of a ZooKeeper, as written in settings: `zk://[user:password@]host:port[,host:port...][/path]`."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longhall.errors import Code, LonghallError

SCHEME: Final = "zk://"
PORT: Final = 2181
HOSTS_MAX: Final = 32
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._-]+)*")


class ZooKeeperAddress(msgspec.Struct, frozen=True):
    """A parsed address. `root` is the path below which everything is stored, empty for ZooKeeper's own root."""

    hosts: str
    root: str = ""
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        """The address without the password, for logs and messages."""
        return f"{SCHEME}{f'{self.user}@' if self.user else ''}{self.hosts}{self.root}"


def parse_address(text: str) -> ZooKeeperAddress:
    """Parse an address; LonghallError if it is malformed. The message does not repeat it: it may hold a password."""
    if not text.startswith(SCHEME):
        raise _wrong("it does not begin with zk://")
    rest = text.removeprefix(SCHEME)
    credentials, _, where = rest.rpartition("@")
    user, colon, password = credentials.partition(":")
    if credentials and not (user and colon and password):
        raise _wrong("before the @ there must be user:password")
    hosts, slash, path = where.partition("/")
    root = (slash + path).rstrip("/")
    parts = hosts.split(",")
    if len(parts) > HOSTS_MAX:
        raise _wrong(f"there are more than {HOSTS_MAX} hosts")
    for part in parts:
        found = _HOST.fullmatch(part)
        if found is None or int(found.group(1) or PORT) not in range(1, 65536):
            raise _wrong("each host must be a name or an address, with :port or without")
    if _PATH.fullmatch(root) is None or {".", ".."}.intersection(root.split("/")):
        raise _wrong("the path has an empty part, or a character other than letters, digits, dot, dash and underscore")
    whole = ",".join(part if _HOST.fullmatch(part)[1] else f"{part}:{PORT}" for part in parts)  # type: ignore[index]
    return ZooKeeperAddress(whole, root, user, password)


def has_password(text: str) -> bool:
    """True if an address, well-formed or not, may contain a password."""
    return "@" in text.removeprefix(SCHEME)


def with_credentials(address: ZooKeeperAddress, text: str) -> ZooKeeperAddress:
    """The address with the credentials of a file, `digest:USER:PASSWORD`. LonghallError, which repeats nothing of the
    file, if it holds something else.
    """
    scheme, _, rest = text.strip().partition(":")
    user, _, password = rest.partition(":")
    if scheme != "digest" or not user or not password or "\n" in password:
        raise LonghallError(Code.INVALID_CONFIGURATION, "it must hold one line, digest:USER:PASSWORD")
    return msgspec.structs.replace(address, user=user, password=password)


def _wrong(why: str) -> LonghallError:
    return LonghallError(
        Code.INVALID_CONFIGURATION, f"the coordinator must be zk://host:port,host:port/path, and {why}"
    )
