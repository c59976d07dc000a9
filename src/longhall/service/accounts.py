"""The directory's operations, carried out by the leader of the hall.

decide, append, apply, release: each operation is one event of the catalogue, and its reply waits for the commit. What
is decided between two operations is seen by the second, because the event is applied before the first one waits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final, final

import msgspec

from longhall.broker.feature_gates import (
    check_directory,
    check_tenant_sealing,
    may_end_sessions,
    may_keep_dormant_users,
)
from longhall.broker.hall import Hall
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.broker.waiting import committed
from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import ROLES_KIND, RULE_KIND, decode_rule
from longhall.directory.access_rules import USER as SUBJECT_OF_USER
from longhall.directory.accounts import (
    ACCESS_KEY,
    DEFAULT_TENANT,
    ENDED_SESSION,
    KINDS,
    MECHANISMS,
    TENANT,
    TOKEN,
    USER,
    AccessKey,
    Accounts,
    ScramKey,
    Tenant,
    Token,
    User,
    entry_of,
    is_valid,
)
from longhall.directory.directory import Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service import directory_operations as ops
from longhall.service.local import LocalBroker

TOKEN_ID_CHARACTERS: Final = 16
KEYS_OF_A_USER_MAX: Final = 20
TOKENS_OF_A_USER_MAX: Final = 100
SCRAM_KEYS_MAX: Final = 8  # Of one user, with the older ones that are still valid.
ENDED_SESSIONS_MAX: Final = 10_000  # Sessions that were ended before their time and are remembered,
ENDED_REMOVED_MAX: Final = 500  # and how many of them are forgotten when another one ends.
LABEL_CHARACTERS_MAX: Final = 128
RULES_REMOVED_MAX: Final = 500  # Access rules of a removed user, in one event.
FOLLOWERS_MAX: Final = 1_000  # Processes that wait for a change.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384  # As in Kafka.

# A colon ends the user of HTTP Basic, and a slash is a separator of addresses.
_NAME: Final = re.compile(r"[^\x00-\x20\x7f:/]([^\x00-\x1f\x7f:/]{0,126}[^\x00-\x20\x7f:/])?")
_ACCESS_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@final
class AccountService(DirectoryObserver):
    """The operations of `directory_operations` on one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._changed: set[asyncio.Future[None]] = set()
        hall.catalogue.directory.observers.append(self)

    def register(self, broker: LocalBroker) -> None:
        """Carry out these operations in this process."""
        broker.also(ops.AddTenant, self._add_tenant)
        broker.also(ops.EnableTenant, self._enable_tenant)
        broker.also(ops.SealTenant, self._seal_tenant)
        broker.also(ops.RemoveTenant, self._remove_tenant)
        broker.also(ops.ListTenants, self._list_tenants)
        broker.also(ops.AddUser, self._add_user)
        broker.also(ops.EnableUser, self._enable_user)
        broker.also(ops.SetAdministrator, self._set_administrator)
        broker.also(ops.RemoveUser, self._remove_user)
        broker.also(ops.ListUsers, self._list_users)
        broker.also(ops.ReplacePassword, self._replace_password)
        broker.also(ops.ChangeScramKeys, self._change_scram_keys)
        broker.also(ops.AddAccessKey, self._add_access_key)
        broker.also(ops.RemoveAccessKey, self._remove_access_key)
        broker.also(ops.AddToken, self._add_token)
        broker.also(ops.RemoveToken, self._remove_token)
        broker.also(ops.EndSession, self._end_session)
        broker.also(ops.ChangeDirectory, self._change)
        broker.also(ops.FollowDirectory, self._follow)

    def directory_changed(self, event: DirectoryChanged) -> None:
        """Wake the processes that follow the directory."""
        waiting, self._changed = self._changed, set()
        for one in waiting:
            if not one.done():
                one.set_result(None)

    @property
    def _directory(self) -> Directory:
        return self._hall.catalogue.directory

    @property
    def _accounts(self) -> Accounts:
        return self._hall.catalogue.directory.accounts

    def _now_ms(self) -> int:
        return self._hall.time.now_ms()

    async def _commit(self, put: Sequence[DirectoryEntry], removed: Sequence[tuple[str, str]] = ()) -> None:
        await commit_entries(self._hall, put, removed)

    # Tenants

    async def _add_tenant(self, op: ops.AddTenant, caller: Caller) -> None:
        _check_name("tenant", op.name)
        if op.name == DEFAULT_TENANT or op.name in self._accounts.tenants:
            raise LonghallError(Code.ENTRY_EXISTS, f"there is a tenant '{op.name}'")
        await self._commit([entry_of(op.name, Tenant(created_ms=self._now_ms()))])

    async def _enable_tenant(self, op: ops.EnableTenant, caller: Caller) -> None:
        tenant = self._tenant(op.name)
        if not op.enabled:
            self._check_last_of_tenant(op.name, caller)
        await self._commit([entry_of(op.name, msgspec.structs.replace(tenant, enabled=op.enabled))])

    async def _seal_tenant(self, op: ops.SealTenant, caller: Caller) -> None:
        check_tenant_sealing(self._hall)
        tenant = self._tenant(op.name)
        await self._commit([entry_of(op.name, msgspec.structs.replace(tenant, sealed=op.sealed))])

    async def _remove_tenant(self, op: ops.RemoveTenant, caller: Caller) -> None:
        self._tenant(op.name)
        if op.name == DEFAULT_TENANT:
            raise LonghallError(Code.INVALID_REQUEST, "the default tenant stays")
        if any(user.tenant == op.name for user in self._accounts.users.values()):
            raise LonghallError(Code.ENTRY_IN_USE, f"the tenant '{op.name}' has users: delete them first")
        await self._commit([], [(TENANT, op.name)])

    async def _list_tenants(self, op: ops.ListTenants, caller: Caller) -> list[ops.TenantView]:
        accounts = self._accounts
        counts: dict[str, int] = {DEFAULT_TENANT: 0}
        for user in accounts.users.values():
            counts[user.tenant] = counts.get(user.tenant, 0) + 1
        names = sorted({*counts, *accounts.tenants})
        found = [(name, accounts.tenants.get(name, Tenant())) for name in names]
        return [
            ops.TenantView(name, one.enabled, one.created_ms, counts.get(name, 0), one.sealed) for name, one in found
        ]

    def _tenant(self, name: str) -> Tenant:
        tenant = self._accounts.tenants.get(name, Tenant() if name == DEFAULT_TENANT else None)
        if tenant is None:
            raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no tenant '{name}'")
        return tenant

    # Users

    async def _add_user(self, op: ops.AddUser, caller: Caller) -> None:
        _check_name("user", op.name)
        _check_scram(op.scram)
        self._tenant(op.tenant)
        if op.name in self._accounts.users:
            raise LonghallError(Code.ENTRY_EXISTS, f"there is a user '{op.name}'")
        if not op.administrator:
            self._check_first(caller)
        now_ms = self._now_ms()
        user = User(op.tenant, True, op.administrator, now_ms, tuple(op.scram), now_ms)
        await self._commit([entry_of(op.name, user)])

    async def _enable_user(self, op: ops.EnableUser, caller: Caller) -> None:
        user = self._user(op.name)
        if not op.enabled:
            self._check_last(op.name, caller)
        # Sessions of browsers from before do not come back when the user is enabled again.
        changed_ms = user.changed_ms if op.enabled else self._change_ms(user)
        changed = msgspec.structs.replace(user, enabled=op.enabled, changed_ms=changed_ms)
        await self._commit([entry_of(op.name, changed)])

    async def _set_administrator(self, op: ops.SetAdministrator, caller: Caller) -> None:
        user = self._user(op.name)
        if not op.administrator:
            self._check_last(op.name, caller)
        changed = msgspec.structs.replace(
            user, administrator=op.administrator, dormant=user.dormant and not op.administrator
        )
        await self._commit([entry_of(op.name, changed)])

    async def _remove_user(self, op: ops.RemoveUser, caller: Caller) -> None:
        self._user(op.name)
        accounts = self._accounts
        if len(accounts.users) > 1:  # Without users the doors are as before the first one.
            self._check_last(op.name, caller)
        keys = [(ACCESS_KEY, name) for name, key in accounts.access_keys.items() if key.user == op.name]
        tokens = [(TOKEN, name) for name, token in accounts.tokens.items() if token.user == op.name]
        # Nobody who is called so later may inherit its roles and rules. No rule goes before the user: it may deny.
        rules = self._rules_of(op.name)
        await self._commit([], [(USER, op.name), *keys, *tokens, (ROLES_KIND, op.name), *rules[:RULES_REMOVED_MAX]])
        for start in range(RULES_REMOVED_MAX, len(rules), RULES_REMOVED_MAX):
            await self._commit([], rules[start : start + RULES_REMOVED_MAX])

    def _rules_of(self, user: str) -> list[tuple[str, str]]:
        """The access rules that are for this user alone."""
        rules = {name: decode_rule(value) for name, value in self._directory.entries_of(RULE_KIND).items()}
        subject = f"{SUBJECT_OF_USER}{user}"
        return [(RULE_KIND, name) for name, rule in rules.items() if rule is not None and rule.subject == subject]

    async def _list_users(self, op: ops.ListUsers, caller: Caller) -> list[ops.UserView]:
        return user_views(self._accounts, op.tenant, self._now_ms())

    async def _replace_password(self, op: ops.ReplacePassword, caller: Caller) -> None:
        user = self._user(op.name)
        _check_scram(op.scram)
        now_ms = self._now_ms()
        replaced = {key.mechanism for key in op.scram}
        old = _ended(user.scram, replaced, op.overlap_until_ms, now_ms)
        await self._put_scram(op.name, user, [*old, *op.scram])

    async def _change_scram_keys(self, op: ops.ChangeScramKeys, caller: Caller) -> None:
        _check_name("user", op.name)
        _check_scram(op.put)
        now_ms = self._now_ms()
        user = self._accounts.users.get(op.name)
        for mechanism in op.removed:
            if user is None or not user.keys_of(mechanism, now_ms):
                raise LonghallError(Code.UNKNOWN_ENTRY, "Attempt to delete a user credential that does not exist")
        if user is None:
            dormant = not self._accounts.awake and not caller.kind and may_keep_dormant_users(self._hall)
            if not dormant:
                self._check_first(caller)
            user = User(DEFAULT_TENANT, created_ms=now_ms, dormant=dormant)
        replaced = {*op.removed, *(key.mechanism for key in op.put)}
        await self._put_scram(op.name, user, [*_ended(user.scram, replaced, 0, now_ms), *op.put])

    async def _put_scram(self, name: str, user: User, keys: list[ScramKey]) -> None:
        changed = msgspec.structs.replace(user, scram=tuple(keys[-SCRAM_KEYS_MAX:]), changed_ms=self._change_ms(user))
        await self._commit([entry_of(name, changed)])

    def _change_ms(self, user: User) -> int:
        """The time of a change of this user, later than every earlier one."""
        return max(self._now_ms(), user.changed_ms + 1, user.created_ms + 1)

    def _check_first(self, caller: Caller) -> None:
        """Refuse a first user that could not add others: nobody else can log in from then on."""
        if not self._accounts.awake and not caller.kind:
            raise LonghallError(Code.INVALID_REQUEST, "the first user must be an administrator")

    def _check_last(self, name: str, caller: Caller) -> None:
        """Refuse to lose the last administrator, but to those who do not need one: keys of a file of credentials."""
        users = self._accounts.users
        others = [other for other in self._administrators() if other != name]
        if users[name].administrator and not others and (not caller.kind or caller.identity in users):
            raise LonghallError(Code.INVALID_REQUEST, f"'{name}' is the last administrator who can log in")

    def _check_last_of_tenant(self, tenant: str, caller: Caller) -> None:
        """The same for all administrators of a tenant, whom disabling it shuts out."""
        users = self._accounts.users
        found = self._administrators()
        others = [name for name in found if users[name].tenant != tenant]
        if found and not others and (not caller.kind or caller.identity in users):
            raise LonghallError(Code.INVALID_REQUEST, f"all administrators who can log in are of the tenant '{tenant}'")

    def _administrators(self) -> list[str]:
        """The administrators who can log in: enabled ones of enabled tenants."""
        accounts = self._accounts
        return [name for name, user in accounts.users.items() if user.administrator and accounts.active_user(name)]

    def _user(self, name: str) -> User:
        user = self._accounts.users.get(name)
        if user is None:
            raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no user '{name}'")
        return user

    # Access keys and tokens

    async def _add_access_key(self, op: ops.AddAccessKey, caller: Caller) -> None:
        self._user(op.user)
        if _ACCESS_KEY.fullmatch(op.access_key) is None or not op.sealed:
            raise LonghallError(Code.INVALID_NAME, "an access key has 1 to 128 letters, digits, '_', '.' and '-'")
        if op.access_key in self._accounts.access_keys:
            raise LonghallError(Code.ENTRY_EXISTS, f"there is an access key '{op.access_key}'")
        now_ms = self._now_ms()
        own = {name: key for name, key in self._accounts.access_keys.items() if key.user == op.user}
        ended = [(ACCESS_KEY, name) for name, key in own.items() if not is_valid(key.until_ms, now_ms)]
        if len(own) - len(ended) >= KEYS_OF_A_USER_MAX:
            raise LonghallError(Code.OVERLOADED, f"a user has at most {KEYS_OF_A_USER_MAX} access keys")
        others = [
            entry_of(name, msgspec.structs.replace(key, until_ms=_sooner(key.until_ms, op.others_until_ms)))
            for name, key in own.items()
            if op.others_until_ms and (ACCESS_KEY, name) not in ended
        ]
        key = AccessKey(op.user, op.sealed, now_ms)
        await self._commit([entry_of(op.access_key, key), *others], ended)

    async def _remove_access_key(self, op: ops.RemoveAccessKey, caller: Caller) -> None:
        key = self._accounts.access_keys.get(op.access_key)
        if key is None:
            raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no access key '{op.access_key}'")
        if op.until_ms:
            await self._commit([entry_of(op.access_key, msgspec.structs.replace(key, until_ms=op.until_ms))])
        else:
            await self._commit([], [(ACCESS_KEY, op.access_key)])

    async def _add_token(self, op: ops.AddToken, caller: Caller) -> None:
        self._user(op.user)
        if _DIGEST.fullmatch(op.digest) is None or len(op.label) > LABEL_CHARACTERS_MAX:
            raise LonghallError(
                Code.INVALID_REQUEST, f"a token has a SHA-256, and a label of up to {LABEL_CHARACTERS_MAX} characters"
            )
        if op.digest in self._accounts.tokens:
            raise LonghallError(Code.ENTRY_EXISTS, "there is this token already")
        now_ms = self._now_ms()
        own = {name: token for name, token in self._accounts.tokens.items() if token.user == op.user}
        ended = [(TOKEN, name) for name, token in own.items() if not is_valid(token.until_ms, now_ms)]
        if len(own) - len(ended) >= TOKENS_OF_A_USER_MAX:
            raise LonghallError(Code.OVERLOADED, f"a user has at most {TOKENS_OF_A_USER_MAX} tokens")
        await self._commit([entry_of(op.digest, Token(op.user, op.label, now_ms, op.until_ms))], ended)

    async def _remove_token(self, op: ops.RemoveToken, caller: Caller) -> None:
        short = len(op.token_id) < TOKEN_ID_CHARACTERS
        found = [] if short else [name for name in self._accounts.tokens if name.startswith(op.token_id)]
        if len(found) != 1:
            raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no token '{op.token_id[:TOKEN_ID_CHARACTERS]}'")
        await self._commit([], [(TOKEN, found[0])])

    # Other kinds, and processes without the log

    async def _end_session(self, op: ops.EndSession, caller: Caller) -> None:
        """Note the end, and forget those whose time is over; of too many, those that would end first."""
        if not may_end_sessions(self._hall):
            return  # The process that was asked has ended it for itself.
        ends = {name: int(value) for name, value in self._directory.entries_of(ENDED_SESSION).items()}
        now_ms = self._now_ms()
        first = sorted(ends, key=lambda name: ends[name])
        spare = len(ends) + 1 - ENDED_SESSIONS_MAX
        over = [name for number, name in enumerate(first) if number < spare or ends[name] <= now_ms]
        removed = [(ENDED_SESSION, name) for name in over[:ENDED_REMOVED_MAX] if name != op.session_id]
        await self._commit([DirectoryEntry(ENDED_SESSION, op.session_id, str(op.until_ms).encode())], removed)

    async def _change(self, op: ops.ChangeDirectory, caller: Caller) -> None:
        if KINDS & {*(one.kind for one in op.put), *(kind for kind, _ in op.removed)}:
            raise LonghallError(Code.INVALID_REQUEST, "accounts have operations of their own")
        await self._commit(op.put, op.removed)

    async def _follow(self, op: ops.FollowDirectory, caller: Caller) -> ops.DirectoryUpdate:
        directory = self._directory
        if op.version == directory.version and op.wait_ms > 0:
            await self._change_or_timeout(op.wait_ms)
        changes = directory.changes_since(op.version) if op.version >= 0 else None
        rows = directory.rows() if changes is None else []
        update = ops.DirectoryUpdate(directory.version, changes, rows)
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return update

    async def _change_or_timeout(self, wait_ms: int) -> None:
        if len(self._changed) >= FOLLOWERS_MAX:
            raise LonghallError(Code.OVERLOADED, "too many processes follow the directory")
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(changed)
        try:
            await asyncio.wait([changed], timeout=wait_ms / 1000)
        finally:
            self._changed.discard(changed)


def user_views(accounts: Accounts, tenant: str, now_ms: int) -> list[ops.UserView]:
    """The users of a tenant, or of all tenants, by name."""
    keys: dict[str, list[ops.AccessKeyView]] = {}
    for name, key in sorted(accounts.access_keys.items()):
        if is_valid(key.until_ms, now_ms):
            keys.setdefault(key.user, []).append(ops.AccessKeyView(name, key.user, key.created_ms, key.until_ms))
    tokens: dict[str, list[ops.TokenView]] = {}
    for name, token in sorted(accounts.tokens.items()):
        if is_valid(token.until_ms, now_ms):
            view = ops.TokenView(name[:TOKEN_ID_CHARACTERS], token.user, token.label, token.created_ms, token.until_ms)
            tokens.setdefault(token.user, []).append(view)
    return [
        ops.UserView(
            name=name,
            tenant=user.tenant,
            enabled=user.enabled,
            administrator=user.administrator,
            created_ms=user.created_ms,
            changed_ms=user.changed_ms,
            iterations={key.mechanism: key.iterations for key in user.scram if not key.until_ms},
            access_keys=keys.get(name, []),
            tokens=tokens.get(name, []),
            overlap_until_ms=max((key.until_ms for key in user.scram if is_valid(key.until_ms, now_ms)), default=0),
        )
        for name, user in sorted(accounts.users.items())
        if tenant in ("", user.tenant)
    ]


def _ended(keys: Sequence[ScramKey], mechanisms: set[str], until_ms: int, now_ms: int) -> list[ScramKey]:
    """The keys that stay valid when those of these mechanisms end at a time; 0: at once."""
    kept = []
    for key in keys:
        if not is_valid(key.until_ms, now_ms):
            continue
        if key.mechanism not in mechanisms:
            kept.append(key)
        elif until_ms:
            kept.append(msgspec.structs.replace(key, until_ms=_sooner(key.until_ms, until_ms)))
    return kept


def _sooner(one_ms: int, other_ms: int) -> int:
    return min(one_ms, other_ms) if one_ms else other_ms


def _check_name(kind: str, name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise LonghallError(
            Code.INVALID_NAME,
            f"the name of a {kind} has 1 to 128 characters, no ':', no '/', and no blank at its ends",
        )


def _check_scram(keys: Sequence[ScramKey]) -> None:
    mechanisms = [key.mechanism for key in keys]
    for key in keys:
        if key.mechanism not in MECHANISMS or mechanisms.count(key.mechanism) > 1:
            raise LonghallError(Code.INVALID_REQUEST, f"one key for each of {', '.join(MECHANISMS)}")
        if not ITERATIONS_MIN <= key.iterations <= ITERATIONS_MAX:
            raise LonghallError(Code.INVALID_REQUEST, f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        size = 32 if key.mechanism == MECHANISMS[0] else 64
        if len(key.stored_key) != size or len(key.server_key) != size or not 1 <= len(key.salt) <= 256:
            raise LonghallError(Code.INVALID_REQUEST, "a SCRAM key or its salt has the wrong size")


async def commit_entries(hall: Hall, put: Sequence[DirectoryEntry], removed: Sequence[tuple[str, str]] = ()) -> None:
    """Change entries of the directory at the leader, in one event; done when it is committed."""
    must_lead(hall)
    check_directory(hall)
    event = hall.catalogue.directory.decide_change(put, removed)
    if event is not None:
        await commit_event(hall, event)
    else:
        await committed(hall, hall.shards[CATALOGUE_SHARD])  # The change that made it so may not be committed yet.
