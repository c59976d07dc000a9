"""`longhall limit ...`: how much tenants, users, queues, kinds of operation and addresses may use, at every door."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import columns, show_outcome, show_rows
from longhall.directory.rate_limits import EVERY, EVERY_TEXT, LimitScope, scope_name

app = typer.Typer(name="limit", help="Rate limits: set, list, delete.", no_args_is_help=True)

TenantOption = Annotated[str | None, typer.Option(metavar="NAME", help="For a tenant; * for each tenant.")]
UserOption = Annotated[str | None, typer.Option(metavar="NAME", help="For a user; * for each user.")]
QueueOption = Annotated[str | None, typer.Option(metavar="NAME", help="For a queue or topic; * for each of them.")]
OperationOption = Annotated[str | None, typer.Option(metavar="KIND", help="For send, receive, settle or manage.")]
AddressOption = Annotated[str | None, typer.Option(metavar="IP", help="For a client's address; * for each of them.")]
BytesOption = Annotated[int | None, typer.Option("--bytes", metavar="N", help="Bytes a second.")]
MessagesOption = Annotated[int | None, typer.Option("--messages", metavar="N", help="Messages a second.")]
RequestsOption = Annotated[int | None, typer.Option("--requests", metavar="N", help="Requests a second.")]

_NUMBERS = "bytes messages requests"
_LIST = columns(f"tenant user queue operation address {_NUMBERS}", right=_NUMBERS)


@app.command("set")
@with_option_groups
def set_limit(
    options: ApiOptions,
    tenant: TenantOption = None,
    user: UserOption = None,
    queue: QueueOption = None,
    operation: OperationOption = None,
    client_address: AddressOption = None,
    bytes_a_second: BytesOption = None,
    messages_a_second: MessagesOption = None,
    requests_a_second: RequestsOption = None,
) -> None:
    """Limit what a scope may use in a second, in place of the limit that it has."""
    scope = {"tenant": tenant, "user": user, "queue": queue, "operation": operation, "address": client_address}
    rates = {
        "bytes_a_second": bytes_a_second,
        "messages_a_second": messages_a_second,
        "requests_a_second": requests_a_second,
    }
    wanted = {key: value for key, value in (*scope.items(), *rates.items()) if value is not None}
    made = options.open_client().ask("PUT", "limits", dict[str, Any], wanted)
    show_outcome(made, f"limited {made['id']}", options.output)


@app.command("list")
@with_option_groups
def list_limits(options: ApiOptions) -> None:
    """List the limits."""
    found = options.open_client().ask("GET", "limits", list[dict[str, Any]])
    rows = [{key.removesuffix("_a_second"): value for key, value in one.items() if key != "id"} for one in found]
    show_rows(rows, _LIST, options.output, "there are no limits")


@app.command()
@with_option_groups
def delete(
    options: ApiOptions,
    tenant: TenantOption = None,
    user: UserOption = None,
    queue: QueueOption = None,
    operation: OperationOption = None,
    client_address: AddressOption = None,
) -> None:
    """Delete the limit of a scope."""
    names = (tenant, user, queue, operation, client_address)
    scope = LimitScope(*(EVERY if name == EVERY_TEXT else name for name in names))
    path = f"limits/{quote(scope_name(scope), safe='')}"
    gone = options.open_client().ask("DELETE", path, dict[str, Any])
    show_outcome(gone, f"deleted {gone['removed']}", options.output)
