"""The first administrator of a node that asks for logins and has no users: made once, at the first start.

Its password goes to the terminal from which the node was started. Without a terminal it goes into a file of mode 600 in
the data directory, because the output of a service usually ends up in a log. Neither is ever repeated.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from longhall.errors import Code, LonghallError
from longhall.node.authentication import needs_administrator
from longhall.node.logs import tell
from longhall.service.directory_operations import AddUser, RemoveUser

if TYPE_CHECKING:
    from longhall.node.assembly import Node

NAME: Final = "admin"
FILE: Final = "administrator.secret"


async def make_first_administrator(node: Node) -> bool:
    """Make the administrator if this node leads, and nobody could log in. True if it was made."""
    settings, authenticator = node.settings, node.authentication.authenticator
    is_wing = node.cluster_node is not None and node.cluster_node.main is not None
    if is_wing or not needs_administrator(settings) or not node.service.leads or authenticator.has_users:
        return False
    secrets = node.authentication.secrets
    password = secrets.new_password()
    try:
        await node.service.dispatch(AddUser(NAME, scram=secrets.scram_keys(password), administrator=True))
    except LonghallError as error:
        if error.code is not Code.ENTRY_EXISTS:
            tell(f"no administrator could be made, so nobody can log in yet: {error}", logging.WARNING)
        return False
    try:
        _hand_over(settings.data, password)
    except OSError as error:
        await node.service.dispatch(RemoveUser(NAME))  # Nobody would ever know its password.
        tell(f"no administrator could be made: {settings.data}/{FILE}: {error.strerror}", logging.WARNING)
        return False
    return True


def _hand_over(data: str, password: str) -> None:
    if sys.stderr.isatty():
        print(f"longhall: the first administrator is {NAME}, with the password {password}", file=sys.stderr)
        print("longhall: it is not shown again; change it with `longhall user rotate admin`", file=sys.stderr)
        return
    path = os.path.join(data, FILE)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR)
    try:
        os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)
        os.write(descriptor, f"{password}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    tell(f"the first administrator is {NAME}; its password is in {path}: read it, then delete the file")
