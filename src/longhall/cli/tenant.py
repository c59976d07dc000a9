"""`longhall tenant ...`: tenants, each with users of its own."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.confirmation import confirm
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import columns, show_outcome, show_rows

app = typer.Typer(name="tenant", help="Tenants: add, list, disable, enable, seal, delete.", no_args_is_help=True)

TenantArgument = Annotated[str, typer.Argument(metavar="TENANT")]

KeyArgument = Annotated[str, typer.Argument(metavar="[KEY]", help="A master key of the nodes, or `managed`.")]

_LIST = columns("tenant enabled users sealed", right="users")


@app.command("add")
@with_option_groups
def add(tenant: TenantArgument, options: ApiOptions) -> None:
    """Add a tenant."""
    made = options.open_client().ask("POST", "tenants", dict[str, Any], {"name": tenant})
    show_outcome(made, f"added {tenant}", options.output)


@app.command("list")
@with_option_groups
def list_tenants(options: ApiOptions) -> None:
    """List tenants with the number of their users."""
    found = options.open_client().ask("GET", "tenants", list[dict[str, Any]])
    rows = [{"tenant": one["name"], **one} for one in found]
    show_rows(rows, _LIST, options.output, "there are no tenants")


@app.command()
@with_option_groups
def disable(tenant: TenantArgument, options: ApiOptions) -> None:
    """Disable a tenant: none of its users can log in, and their connections are closed."""
    _change(options, tenant, {"enabled": False}, f"disabled {tenant}")


@app.command()
@with_option_groups
def enable(tenant: TenantArgument, options: ApiOptions) -> None:
    """Enable a tenant that was disabled."""
    _change(options, tenant, {"enabled": True}, f"enabled {tenant}")


@app.command()
@with_option_groups
def delete(tenant: TenantArgument, options: ApiOptions, yes: YesOption = False) -> None:
    """Delete a tenant that has no users."""
    confirm(f"delete {tenant}?", yes)
    gone = options.open_client().ask("DELETE", f"tenants/{quote(tenant, safe='')}", dict[str, Any])
    show_outcome(gone, f"deleted {tenant}", options.output)


@app.command()
@with_option_groups
def seal(tenant: TenantArgument, options: ApiOptions, key: KeyArgument = "") -> None:
    """Seal the queues and topics that users of a tenant create from now on; without a key, no more."""
    words = f"what {tenant} creates is sealed under {key}" if key else f"what {tenant} creates is not sealed any more"
    _change(options, tenant, {"sealed": key}, words)


def _change(options: ApiOptions, tenant: str, change: dict[str, object], sentence: str) -> None:
    path = f"tenants/{quote(tenant, safe='')}"
    changed = options.open_client().ask("PATCH", path, dict[str, Any], change)
    show_outcome(changed, sentence, options.output)
