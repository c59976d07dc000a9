"""Authentication: who a client is, from what it shows. Every door asks here, and all doors of a process share it.

    shown                                  checked against
    user and password                      SCRAM keys of the user (PBKDF2), or a token of the user as the password, of
                                           the directory or of the identity provider
    access key and secret                  the file of credentials, or the sealed secret of the directory
    SCRAM proof                            SCRAM keys of the user
    SigV4 signature                        the secret of the access key, from the file or unsealed
    bearer token                           its SHA-256 in the directory
    token of the identity provider         the provider's public keys and its claims; its user is one of the directory
    client certificate                     its authority, during the TLS handshake; its user is one of the directory

Whether a door asks at all (`DoorAuthentication.required`):

    authentication = required              always
    authentication = auto                  if the directory has users, or is not known yet; at an address that others
                                           can reach always, unless the node is `insecure`
    authentication = none                  never
    any of them, with a file --credentials at every door but Kafka's, which did not know it

PBKDF2 takes milliseconds, so a door awaits `prepare_login` before it checks a password: that computes the hash in a
thread, within bounds for all clients and for each address, so that many logins at once do not stop messages. The
outcome is remembered under a hash with a random key; the memory ends with any change of the user. Unknown users cost
the same time as wrong passwords. No answer says which of both it was.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, final

from longhall.directory.accounts import MECHANISMS, ScramKey, User, is_valid
from longhall.directory.directory import Directory
from longhall.errors import Code, LonghallError
from longhall.front.audit import AuditTrail
from longhall.front.credentials import Credentials, basic_login
from longhall.front.failed_logins import FailedLogins
from longhall.front.identity import ADMINISTRATOR_KIND, ANONYMOUS, USER_KIND, Principal, principal_of_key
from longhall.front.master_key import MasterKey
from longhall.front.oidc.identity_provider import IdentityProvider
from longhall.front.oidc.web_token import InvalidToken, is_web_token
from longhall.front.origins import Origin
from longhall.front.scram import key_of_password, made_up_key
from longhall.world.ports import Clock, Janitor

AUTO: Final = "auto"
REQUIRED: Final = "required"
NONE: Final = "none"
TOKEN_PREFIX: Final = "lht_"
PASSWORD_CHARACTERS_MAX: Final = 1_024
REMEMBERED_MAX: Final = 10_000
WRONG_MAX: Final = 1_000  # Wrong passwords whose hash was computed.
PREPARED_MAX: Final = 128  # Logins whose hash is being computed,
PREPARED_OF_ADDRESS_MAX: Final = 16  # and those of one address.
UNSEALED_MAX: Final = 10_000

_log = logging.getLogger("longhall.authentication")


class KnownSecret(NamedTuple):
    """The secret of an access key, and whose it is."""

    secret: str
    principal: Principal


class TokenLogin(NamedTuple):
    """The client that a token stands for, and when the token ends; 0: not by itself."""

    principal: Principal
    until_ms: int = 0


class _Remembered(NamedTuple):
    """A password that was right: for the user as it was then, until a time (0: none)."""

    user: User
    until_ms: int


@final
class Authenticator:
    """The checks of one process."""

    def __init__(
        self,
        directory: Directory,
        master_key: MasterKey,
        clock: Clock,
        secret: bytes,
        credentials: Credentials | None = None,
        mode: str = AUTO,
        provider: IdentityProvider | None = None,
        audit: AuditTrail | None = None,
        janitor: Janitor | None = None,
    ) -> None:
        """`secret` is random and known to no client; the processes of a node share it. Without a janitor hashes are
        computed where they are needed.
        """
        self.directory = directory
        self.master_key = master_key
        self.credentials = credentials
        self.mode = mode
        self.provider = provider
        self.audit = audit  # None: logins are not recorded.
        self.failed_logins = FailedLogins()
        self.preparing: Counter[str] = Counter()  # Logins whose hash is being computed, by address.
        self.has_token_logins = False  # True if a client has shown a token, which ends, as its password.
        self._clock = clock
        self._secret = hmac.digest(secret, b"longhall authentication", "sha256")
        self._janitor = janitor
        self._remembered: dict[bytes, _Remembered] = {}
        self._wrong: dict[bytes, User | None] = {}  # By the same hash: the user as it was when the password was wrong.
        self._unsealed: dict[bytes, str] = {}  # Secrets of access keys, by their sealed form.

    def now_ms(self) -> int:
        """The time."""
        return self._clock.wall_ms()

    @property
    def has_users(self) -> bool:
        """True if clients can be expected to log in: there are users, or it is not known yet whether there are."""
        return bool(self.directory.accounts.awake) or not self.directory.known

    def _check_known(self) -> None:
        """Raises NOT_READY while this process does not know the users: a refusal would be wrong, and final."""
        if not self.directory.known:
            raise LonghallError(Code.NOT_READY, "the users are not known yet; try again in a moment")

    # Passwords

    def check_password(self, user: str, password: str) -> Principal | None:
        """The principal of a user and its password, or of an access key and its secret."""
        if len(password) > PASSWORD_CHARACTERS_MAX:
            return None
        if self.credentials is not None and self.credentials.matches(user, password):
            return principal_of_key(user)
        self._check_known()
        if password.startswith(TOKEN_PREFIX):
            principal = self.check_token(password)
            return principal if principal is not None and principal.user == user else None
        if user in self.directory.accounts.access_keys:
            known = self.secret_of(user)
            same = hmac.compare_digest(known.secret.encode() if known else b"", password.encode())
            return known.principal if known is not None and same else None
        found = self.directory.accounts.users.get(user)
        if found is not None and self.is_remembered(user, password):
            return self._principal(user)
        if self._is_wrong(user, password):
            return None
        key = right_key(self._key_lists(user, found), password)
        self._note_hash(user, password, found, key)
        return self._principal(user) if key is not None and found is not None else None

    def needs_hash(self, user: str, password: str) -> bool:
        """True if `check_password` would compute a hash, which takes milliseconds."""
        if len(password) > PASSWORD_CHARACTERS_MAX or password.startswith(TOKEN_PREFIX) or not self.directory.known:
            return False
        if self.credentials is not None and self.credentials.matches(user, password):
            return False
        if user in self.directory.accounts.access_keys:
            return False
        return not self.is_remembered(user, password) and not self._is_wrong(user, password)

    async def compute_hash(self, user: str, password: str) -> None:
        """Compute the hash that `check_password` needs, outside of the loop. OVERLOADED if too many wait."""
        if self._janitor is None:
            return
        found = self.directory.accounts.users.get(user)
        key = await self._janitor.compute(partial(right_key, self._key_lists(user, found), password))
        self._note_hash(user, password, found, key)

    def _note_hash(self, user: str, password: str, found: User | None, key: ScramKey | None) -> None:
        """Remember whether a password was right, for the user as it was found."""
        name = self._hash(user, password)
        if key is None or found is None:
            if len(self._wrong) >= WRONG_MAX:
                del self._wrong[next(iter(self._wrong))]
            self._wrong[name] = found
            return
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[name] = _Remembered(found, key.until_ms)

    def _is_wrong(self, user: str, password: str) -> bool:
        """True if this password was wrong, and nothing has changed since."""
        name = self._hash(user, password)
        return name in self._wrong and self._wrong[name] is self.directory.accounts.users.get(user)

    def is_remembered(self, user: str, password: str) -> bool:
        """True if this password was right, and nothing has changed since."""
        kept = self._remembered.get(self._hash(user, password))
        if kept is None or kept.user is not self.directory.accounts.users.get(user):
            return False
        return is_valid(kept.until_ms, self.now_ms())

    def _key_lists(self, user: str, found: User | None) -> list[list[ScramKey]]:
        """The keys of a user by mechanism, made-up ones where there are none."""
        return [
            self._keys(user, found, mechanism) or [made_up_key(mechanism, user, self._secret)]
            for mechanism in MECHANISMS
        ]

    def _keys(self, user: str, found: User | None, mechanism: str) -> list[ScramKey]:
        return found.keys_of(mechanism, self.now_ms()) if found is not None else []

    def _hash(self, user: str, password: str) -> bytes:
        return hmac.digest(self._secret, f"{user}\0{password}".encode(), "sha256")

    def scram_keys(self, user: str, mechanism: str) -> Sequence[ScramKey]:
        """The valid keys of a user, the newest first; made-up ones if there are none."""
        self._check_known()
        found = self.directory.accounts.users.get(user)
        return self._keys(user, found, mechanism) or [made_up_key(mechanism, user, self._secret)]

    # Access keys and tokens

    def secret_of(self, access_key: str) -> KnownSecret | None:
        """The secret of an access key, for signatures; None if it is unknown, has ended, or its user may not log in."""
        known = self.credentials.secret(access_key) if self.credentials is not None else None
        if known is not None:
            return KnownSecret(known, principal_of_key(access_key))
        self._check_known()
        entry = self.directory.accounts.access_keys.get(access_key)
        if entry is None or not is_valid(entry.until_ms, self.now_ms()):
            return None
        principal = self._principal(entry.user)
        secret = self._unseal(access_key, entry.sealed) if principal is not None else None
        return KnownSecret(secret, principal) if secret is not None and principal is not None else None

    def _unseal(self, access_key: str, sealed: bytes) -> str | None:
        secret = self._unsealed.get(sealed)
        if secret is None:
            try:
                secret = self.master_key.unseal(sealed, access_key).decode()
            except LonghallError as error:
                _log.error("an access key cannot be used", extra={"access_key": access_key, "reason": str(error)})
                return None
            if len(self._unsealed) >= UNSEALED_MAX:
                self._unsealed.clear()
            self._unsealed[sealed] = secret
        return secret

    def check_token(self, token: str) -> Principal | None:
        """The principal of a bearer token."""
        self._check_known()
        entry = self.directory.accounts.tokens.get(digest_of(token))
        if entry is None or not is_valid(entry.until_ms, self.now_ms()):
            return None
        return self._principal(entry.user)

    def check_bearer(self, token: str) -> TokenLogin | None:
        """The login of a token, of the directory or of the identity provider; NOT_READY while nobody can tell."""
        if not is_web_token(token) or self.provider is None:
            principal = self.check_token(token)
            return TokenLogin(principal) if principal is not None else None
        self._check_known()
        try:
            verified = self.provider.check(token, self.now_ms())
        except InvalidToken as error:
            _log.info("a token of the identity provider is refused", extra={"reason": str(error)})
            return None
        principal = self._principal(verified.user)
        if principal is None:
            _log.info("a token names no user that may log in", extra={"user": verified.user})
            return None
        return TokenLogin(principal, verified.until_ms)

    def check_token_password(self, user: str, token: str) -> Principal | None:
        """The principal of a token of the identity provider that is shown as a password, with the user that it names or
        with none.
        """
        login = self.check_bearer(token)
        if login is None or user not in ("", login.principal.user):
            return None
        self.has_token_logins = True
        return login.principal._replace(until_ms=login.until_ms)

    # Principals

    def principal_of_user(self, user: str) -> Principal | None:
        """The principal of a user that has proved who it is; None if it may not log in."""
        self._check_known()
        return self._principal(user)

    def _principal(self, user: str) -> Principal | None:
        found = self.directory.accounts.active_user(user)
        if found is None:
            return None
        return Principal(found.tenant, user, ADMINISTRATOR_KIND if found.administrator else USER_KIND)

    def is_current(self, principal: Principal) -> bool:
        """True if a client that has logged in before may go on. Anonymous clients are the door's matter."""
        if principal.is_anonymous:
            return True
        if not is_valid(principal.until_ms, self.now_ms()):
            return False
        current = self._principal(principal.user)
        if current is not None and principal.is_same(current):
            return True
        is_key = self.credentials is not None and self.credentials.secret(principal.user) is not None
        return is_key and principal == principal_of_key(principal.user)


@final
class DoorAuthentication:
    """Authentication as one door has it."""

    def __init__(self, authenticator: Authenticator, door: str, *, always: bool = False, file: bool = True) -> None:
        """`always`: the door can be reached by others. `file`: a file of credentials makes it ask."""
        self.authenticator = authenticator
        self.door = door
        self._always = always
        self._file = file

    @property
    def required(self) -> bool:
        """True if clients have to authenticate."""
        authenticator = self.authenticator
        if self._always or authenticator.mode == REQUIRED or (self._file and authenticator.credentials is not None):
            return True
        return authenticator.mode != NONE and authenticator.has_users

    async def prepare_login(self, user: str, password: str, address: str) -> None:
        """Do the slow part of `login` or `check`, which are to follow at once. NOT_READY if too many logins wait."""
        authenticator = self.authenticator
        if not authenticator.needs_hash(user, password):
            return
        if authenticator.failed_logins.is_shut_out(address, user, authenticator.now_ms()):
            return  # It is refused unseen.
        preparing = authenticator.preparing
        if preparing.total() >= PREPARED_MAX or preparing[address] >= PREPARED_OF_ADDRESS_MAX:
            raise LonghallError(Code.NOT_READY, "too many logins wait; try again in a moment")
        preparing[address] += 1
        try:
            await authenticator.compute_hash(user, password)
        finally:
            preparing[address] -= 1
            if not preparing[address]:
                del preparing[address]

    def login(self, user: str, password: str, address: str) -> Principal | None:
        """The principal of a login; ANONYMOUS if the door does not ask, None if the login is refused."""
        return self.check(user, password, address) if self.required else ANONYMOUS

    def check(self, user: str, password: str, address: str) -> Principal | None:
        """The principal of a login, also if the door does not ask; None if it is refused."""
        authenticator, now_ms = self.authenticator, self.authenticator.now_ms()
        if authenticator.provider is not None and is_web_token(password):
            principal = authenticator.check_token_password(user, password)
            if principal is None and self.is_shut_out(address, user):
                return None
            self.note(principal, user, address, now_ms)
            return principal
        remembered = authenticator.is_remembered(user, password)
        if not remembered and self.is_shut_out(address, user):
            return None
        principal = authenticator.check_password(user, password)
        self.note(principal, user, address, now_ms)
        return principal

    def is_shut_out(self, address: str, user: str = "") -> bool:
        """True if a login is refused unseen, which is counted."""
        failed = self.authenticator.failed_logins
        if not failed.is_shut_out(address, user, self.authenticator.now_ms()):
            return False
        failed.note_shut_out(self.door)
        if self.authenticator.audit is not None:
            self.authenticator.audit.note_login(self.door, None, user, address)
        return True

    def note(self, principal: Principal | None, user: str, address: str, now_ms: int) -> None:
        """Count a login."""
        failed, audit = self.authenticator.failed_logins, self.authenticator.audit
        if audit is not None:
            audit.note_login(self.door, principal, user, address)
        if principal is not None:
            failed.note_login(self.door, address, user)
            return
        failed.note_failure(self.door, address, user, now_ms)
        _log.info("a login was refused", extra={"door": self.door, "peer": address, "user": user[:128]})

    async def prepare_request(self, authorization: bytes | None, address: str) -> None:
        """The same for `of_request`."""
        basic = basic_login(authorization) if authorization is not None else None
        if basic is not None:
            await self.prepare_login(*basic, address)

    def is_slow(self, authorization: bytes | None) -> bool:
        """True if `of_request` should be prepared."""
        basic = basic_login(authorization) if authorization is not None else None
        return basic is not None and self.authenticator.needs_hash(*basic)

    def of_header(self, authorization: bytes | None, address: str) -> Principal | None:
        """The principal of an HTTP `Authorization` header, Basic or Bearer; None if it is refused or missing."""
        scheme, _, shown = (authorization or b"").strip().partition(b" ")
        if scheme.lower() == b"bearer":
            login = self.of_token(shown.strip().decode("latin-1"), address)
            return login.principal if login is not None else None
        basic = basic_login(authorization)
        return self.check(*basic, address) if basic is not None else None

    def of_token(self, token: str, address: str) -> TokenLogin | None:
        """The login of a bearer token; None if it is refused."""
        now_ms = self.authenticator.now_ms()
        login = self.authenticator.check_bearer(token)
        if login is None and self.is_shut_out(address):
            return None
        self.note(login.principal if login is not None else None, "", address, now_ms)
        return login

    def of_request(self, authorization: bytes | None, origin: Origin | None, address: str) -> Principal | None:
        """The principal of an HTTP request: that of its header, or without one that of the client's certificate."""
        if authorization is None:
            return self.of_certificate(origin)
        return self.of_header(authorization, address)

    def of_certificate(self, origin: Origin | None) -> Principal | None:
        """The principal of the user that a client's certificate names; None if it names none that may log in."""
        if origin is None or not origin.user:
            return None
        authenticator = self.authenticator
        principal = authenticator.principal_of_user(origin.user)
        if principal is not None or self.required:
            self.note(principal, origin.user, origin.address, authenticator.now_ms())
        return principal

    def login_by_certificate(self, origin: Origin) -> Principal | None:
        """The principal of a login with a certificate; ANONYMOUS if the door does not ask and the directory does not
        know the user, None if the login is refused.
        """
        principal = self.of_certificate(origin)
        return ANONYMOUS if principal is None and not self.required else principal

    def may_go_on(self, principal: Principal) -> bool:
        """True if an open connection of this client may stay."""
        if principal.is_anonymous:
            return not self.required
        return self.authenticator.is_current(principal)


def right_key(key_lists: Sequence[Sequence[ScramKey]], password: str) -> ScramKey | None:
    """The key that a password belongs to. Every mechanism is tried, whether the user exists or not."""
    for keys in key_lists:
        right = key_of_password(keys, password)
        if right is not None:
            return right
    return None


def digest_of(token: str) -> str:
    """The name of a token's entry."""
    return hashlib.sha256(token.encode()).hexdigest()
