"""`longhall limit ...`: how much tenants, users, queues, kinds of operation and addresses may use, at every door."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple
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


class ScopeOptions(NamedTuple):
    """The options that name what a limit is for."""

    tenant: TenantOption = None
    user: UserOption = None
    queue: QueueOption = None
    operation: OperationOption = None
    client_address: AddressOption = None

    def as_fields(self) -> dict[str, str | None]:
        """The scope as the API has it."""
        return dict(zip(("tenant", "user", "queue", "operation", "address"), self, strict=True))

    def as_scope(self) -> LimitScope:
        """The scope as the directory has it."""
        return LimitScope(*(EVERY if name == EVERY_TEXT else name for name in self))


@app.command("set")
@with_option_groups
def set_limit(
    scope: ScopeOptions,
    options: ApiOptions,
    bytes_a_second: BytesOption = None,
    messages_a_second: MessagesOption = None,
    requests_a_second: RequestsOption = None,
) -> None:
    """Limit what a scope may use in a second, in place of the limit that it has."""
    rates = {
        "bytes_a_second": bytes_a_second,
        "messages_a_second": messages_a_second,
        "requests_a_second": requests_a_second,
    }
    wanted = {key: value for key, value in (*scope.as_fields().items(), *rates.items()) if value is not None}
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
def delete(scope: ScopeOptions, options: ApiOptions) -> None:
    """Delete the limit of a scope."""
    path = f"limits/{quote(scope_name(scope.as_scope()), safe='')}"
    gone = options.open_client().ask("DELETE", path, dict[str, Any])
    show_outcome(gone, f"deleted {gone['removed']}", options.output)
