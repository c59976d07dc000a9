"""Tenants, users, access keys and tokens over HTTP. What is generated is in the reply, once, and nowhere else.

Secrets arrive here in clear and leave as what is stored of them (`front/account_secrets.py`): no other process, no log
and no file gets them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final, final

import msgspec

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.errors import Code, LonghallError
from longhall.front.account_secrets import AccountSecrets
from longhall.service import directory_operations as ops
from longhall.service.accounts import TOKEN_ID_CHARACTERS
from longhall.service.router import Router
from longhall.world.ports import Clock

OVERLAP_MS_MAX: Final = 90 * 24 * 3_600_000
LIFETIME_MS_MAX: Final = 10 * 365 * 24 * 3_600_000

Overlap = Annotated[int, msgspec.Meta(ge=0, le=OVERLAP_MS_MAX)]
Lifetime = Annotated[int, msgspec.Meta(ge=0, le=LIFETIME_MS_MAX)]
Secret = Annotated[str, msgspec.Meta(min_length=8, max_length=1024)]


class NewTenant(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST tenants."""

    name: str


class TenantChange(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PATCH tenants/NAME. `sealed` is a master key, or empty."""

    enabled: bool | None = None
    sealed: Annotated[str, msgspec.Meta(max_length=2048)] | None = None


class NewUser(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST users. Without `password` one is generated, unless the user is to have none."""

    name: str
    tenant: str = DEFAULT_TENANT
    administrator: bool = False
    password: str | None = None
    without_password: bool = False


class UserChange(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PATCH users/NAME."""

    enabled: bool | None = None
    administrator: bool | None = None


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST users/NAME/password. The old password stays valid for `overlap_ms`."""

    password: str | None = None
    overlap_ms: Overlap = 0


class NewAccessKey(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST users/NAME/access-keys: both generated, or both given. With `overlap_ms` other than -1 the
    other keys of the user end after this time.
    """

    access_key: str = ""
    secret: Secret | None = None
    overlap_ms: Annotated[int, msgspec.Meta(ge=-1, le=OVERLAP_MS_MAX)] = -1


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST users/NAME/tokens. A lifetime of 0 is without end."""

    label: str = ""
    lifetime_ms: Lifetime = 0


class Ending(msgspec.Struct, forbid_unknown_fields=True):
    """The query of DELETE access-keys/KEY."""

    after_ms: Overlap = 0


@final
class AccountHandlers:
    """The handlers of all these routes."""

    def __init__(self, secrets: AccountSecrets, clock: Clock) -> None:
        self._secrets = secrets
        self._clock = clock

    def routes(self) -> tuple[Route, ...]:
        """The table of routes."""
        return (
            Route("GET", "tenants", self.list_tenants),
            Route("POST", "tenants", self.add_tenant),
            Route("PATCH", "tenants/*", self.change_tenant),
            Route("DELETE", "tenants/*", self.remove_tenant),
            Route("GET", "users", self.list_users),
            Route("POST", "users", self.add_user),
            Route("GET", "users/*", self.show_user),
            Route("PATCH", "users/*", self.change_user),
            Route("DELETE", "users/*", self.remove_user),
            Route("POST", "users/*/password", self.replace_password),
            Route("POST", "users/*/access-keys", self.add_access_key),
            Route("DELETE", "access-keys/*", self.remove_access_key),
            Route("POST", "users/*/tokens", self.add_token),
            Route("DELETE", "tokens/*", self.remove_token),
        )

    # Tenants

    async def list_tenants(self, service: Router, asked: Asked) -> Reply:
        """GET tenants"""
        found = await service.call(ops.ListTenants(), asked.caller)
        return Reply([msgspec.structs.asdict(tenant) for tenant in found])

    async def add_tenant(self, service: Router, asked: Asked) -> Reply:
        """POST tenants"""
        name = asked.read(NewTenant).name
        await service.call(ops.AddTenant(name), asked.caller)
        return Reply({"name": name}, HTTPStatus.CREATED)

    async def change_tenant(self, service: Router, asked: Asked) -> Reply:
        """PATCH tenants/NAME"""
        change = asked.read(TenantChange)
        if change.enabled is None and change.sealed is None:
            raise LonghallError(Code.INVALID_REQUEST, "nothing to change: say enabled or sealed")
        if change.sealed is not None:
            await service.call(ops.SealTenant(asked.name, change.sealed), asked.caller)
        if change.enabled is not None:
            await service.call(ops.EnableTenant(asked.name, change.enabled), asked.caller)
        said = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}
        return Reply({"name": asked.name, **said})

    async def remove_tenant(self, service: Router, asked: Asked) -> Reply:
        """DELETE tenants/NAME"""
        await service.call(ops.RemoveTenant(asked.name), asked.caller)
        return Reply({"deleted": asked.name})

    # Users

    async def list_users(self, service: Router, asked: Asked) -> Reply:
        """GET users"""
        found = await service.call(ops.ListUsers(asked.query.get("tenant", "")), asked.caller)
        return Reply([_row(user) for user in found])

    async def show_user(self, service: Router, asked: Asked) -> Reply:
        """GET users/NAME"""
        found = await service.call(ops.ListUsers(), asked.caller)
        for user in found:
            if user.name == asked.name:
                return Reply(_row(user))
        raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no user '{asked.name}'")

    async def add_user(self, service: Router, asked: Asked) -> Reply:
        """POST users"""
        new = asked.read(NewUser)
        if new.password is not None and new.without_password:
            raise LonghallError(Code.INVALID_REQUEST, "give a password, or without_password, not both")
        password = None if new.without_password else new.password or self._secrets.new_password()
        scram = self._secrets.scram_keys(password) if password is not None else []
        await service.call(ops.AddUser(new.name, new.tenant, scram, new.administrator), asked.caller)
        reply = {"name": new.name, "tenant": new.tenant, "administrator": new.administrator}
        return _created(reply, password=password if not new.password else None)

    async def change_user(self, service: Router, asked: Asked) -> Reply:
        """PATCH users/NAME"""
        change = asked.read(UserChange)
        if change.enabled is None and change.administrator is None:
            raise LonghallError(Code.INVALID_REQUEST, "say enabled or administrator")
        if change.administrator is not None:
            await service.call(ops.SetAdministrator(asked.name, change.administrator), asked.caller)
        if change.enabled is not None:
            await service.call(ops.EnableUser(asked.name, change.enabled), asked.caller)
        return await self.show_user(service, asked)

    async def remove_user(self, service: Router, asked: Asked) -> Reply:
        """DELETE users/NAME"""
        await service.call(ops.RemoveUser(asked.name), asked.caller)
        return Reply({"deleted": asked.name})

    async def replace_password(self, service: Router, asked: Asked) -> Reply:
        """POST users/NAME/password"""
        new = asked.read(NewPassword)
        password = new.password if new.password is not None else self._secrets.new_password()
        scram = self._secrets.scram_keys(password, asked.name)
        until_ms = self._clock.wall_ms() + new.overlap_ms if new.overlap_ms else 0
        await service.call(ops.ReplacePassword(asked.name, scram, until_ms), asked.caller)
        reply = {"name": asked.name, "old_until_ms": until_ms}
        return _created(reply, password=password if new.password is None else None)

    # Access keys and tokens

    async def add_access_key(self, service: Router, asked: Asked) -> Reply:
        """POST users/NAME/access-keys"""
        new = asked.read(NewAccessKey)
        if bool(new.access_key) != (new.secret is not None):
            raise LonghallError(Code.INVALID_REQUEST, "give both access_key and secret, or none to have them generated")
        access_key, secret = (new.access_key, new.secret) if new.secret else self._secrets.new_access_key()
        until_ms = self._clock.wall_ms() + new.overlap_ms if new.overlap_ms >= 0 else 0
        sealed = self._secrets.seal(access_key, secret)
        await service.call(ops.AddAccessKey(asked.name, access_key, sealed, until_ms), asked.caller)
        reply = {"user": asked.name, "access_key": access_key, "others_until_ms": until_ms}
        return _created(reply, secret=secret if new.secret is None else None)

    async def remove_access_key(self, service: Router, asked: Asked) -> Reply:
        """DELETE access-keys/KEY"""
        after_ms = asked.question(Ending).after_ms
        until_ms = self._clock.wall_ms() + after_ms if after_ms else 0
        await service.call(ops.RemoveAccessKey(asked.name, until_ms), asked.caller)
        return Reply({"deleted": asked.name, "until_ms": until_ms})

    async def add_token(self, service: Router, asked: Asked) -> Reply:
        """POST users/NAME/tokens"""
        new = asked.read(NewToken)
        token, digest = self._secrets.new_token()
        until_ms = self._clock.wall_ms() + new.lifetime_ms if new.lifetime_ms else 0
        await service.call(ops.AddToken(asked.name, digest, new.label, until_ms), asked.caller)
        reply = {"user": asked.name, "token_id": digest[:TOKEN_ID_CHARACTERS], "until_ms": until_ms}
        return _created(reply, token=token)

    async def remove_token(self, service: Router, asked: Asked) -> Reply:
        """DELETE tokens/ID"""
        await service.call(ops.RemoveToken(asked.name), asked.caller)
        return Reply({"deleted": asked.name})


def _row(user: ops.UserView) -> dict[str, object]:
    return msgspec.structs.asdict(user) | {
        "access_keys": [msgspec.structs.asdict(key) for key in user.access_keys],
        "tokens": [msgspec.structs.asdict(token) for token in user.tokens],
    }


def _created(fields: dict[str, object], **generated: str | None) -> Reply:
    """With what was generated; what the client gave is not repeated."""
    return Reply({**fields, **{name: value for name, value in generated.items() if value}}, HTTPStatus.CREATED)
