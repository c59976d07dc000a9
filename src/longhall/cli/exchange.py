"""`longhall exchange ...`: create, list, bind and delete exchanges, and see where a message would go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from longhall.cli.confirmation import confirm
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import Format, Row, columns, print_note, show_json, show_outcome, show_rows

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient

app = typer.Typer(
    name="exchange",
    help="Exchanges: create, list, delete, bind, unbind, test where a message would go, graph.",
    no_args_is_help=True,
)

HostOption = Annotated[str, typer.Option("--vhost", "-V", help="The virtual host.")]
ArgumentsOption = Annotated[
    list[str] | None, typer.Option("--argument", metavar="NAME=VALUE", help="An argument; JSON or text; repeatable.")
]
ExchangeArgument = Annotated[str, typer.Argument(metavar="EXCHANGE")]
KeyOption = Annotated[str, typer.Option("--key", "-k", help="The routing key of the binding.")]
ToExchangeOption = Annotated[bool, typer.Option("--to-exchange", help="The destination is an exchange.")]
DestinationArgument = Annotated[str, typer.Argument(metavar="DESTINATION", help="A queue, or an exchange.")]

_LIST = columns("exchange type durable auto_delete internal bindings", right="bindings")
_BINDINGS = columns("source routing_key destination destination_type arguments", people="arguments")
_ROUTE = columns("queue")


class BindingOptions(NamedTuple):
    """The options that tell a binding from others of the same exchange and destination."""

    key: KeyOption = ""
    to_exchange: ToExchangeOption = False
    vhost: HostOption = "/"
    arguments: ArgumentsOption = None

    def as_fields(self, exchange: str, destination: str) -> dict[str, Any]:
        """The binding as the API has it."""
        return {
            "source": exchange,
            "destination": destination,
            "destination_type": "exchange" if self.to_exchange else "queue",
            "routing_key": self.key,
            "vhost": self.vhost,
            "arguments": _assigned(self.arguments, "--argument"),
        }


@app.command("list")
@with_option_groups
def list_exchanges(options: ApiOptions, vhost: HostOption = "/") -> None:
    """List the exchanges of a virtual host with the number of their bindings."""
    client = options.open_client()
    bindings = _bindings(client, vhost)
    rows: list[Row] = [
        {
            "exchange": one["name"],
            "type": one["type"],
            "durable": one["durable"],
            "auto_delete": one["auto_delete"],
            "internal": one["internal"],
            "bindings": sum(binding["source"] == one["name"] for binding in bindings),
            "arguments": one["arguments"],
        }
        for one in _exchanges(client, vhost)
    ]
    show_rows(rows, _LIST, options.output, "there are no exchanges")


@app.command()
@with_option_groups
def create(
    exchange: ExchangeArgument,
    options: ApiOptions,
    kind: Annotated[
        str, typer.Option("--type", "-t", help="direct, topic, fanout, headers or x-delayed-message.")
    ] = "direct",
    vhost: HostOption = "/",
    transient: Annotated[bool, typer.Option("--transient", help="Declared as not durable.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="Deleted with its last binding.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Clients cannot publish to it.")] = False,
    arguments: ArgumentsOption = None,
) -> None:
    """Create an exchange. The same exchange may exist; another one of the name is refused."""
    value = {
        "name": exchange,
        "type": kind,
        "vhost": vhost,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": _assigned(arguments, "--argument"),
    }
    made = options.open_client().ask("POST", "exchanges", dict[str, Any], value)
    show_outcome(made, f"created {exchange}", options.output)


@app.command()
@with_option_groups
def delete(exchange: ExchangeArgument, options: ApiOptions, vhost: HostOption = "/", yes: YesOption = False) -> None:
    """Delete an exchange with its bindings. Queues and their messages stay."""
    confirm(f"delete {exchange} with its bindings?", yes)
    path = f"exchanges/{quote(exchange, safe='')}"
    options.open_client().ask("DELETE", path, dict[str, Any], query={"vhost": vhost})
    show_outcome({"deleted": exchange}, f"deleted {exchange}", options.output)


@app.command()
@with_option_groups
def bind(
    exchange: ExchangeArgument,
    destination: DestinationArgument,
    binding: BindingOptions,
    options: ApiOptions,
) -> None:
    """Bind a queue, or another exchange, to an exchange."""
    bound = options.open_client().ask("POST", "bindings", dict[str, Any], binding.as_fields(exchange, destination))
    show_outcome(bound, f"bound {destination} to {exchange}", options.output)


@app.command()
@with_option_groups
def unbind(
    exchange: ExchangeArgument,
    destination: DestinationArgument,
    binding: BindingOptions,
    options: ApiOptions,
    yes: YesOption = False,
) -> None:
    """Remove a binding: the one with this key and these arguments."""
    confirm(f"remove the binding of {destination} to {exchange}?", yes)
    options.open_client().ask("DELETE", "bindings", dict[str, Any], binding.as_fields(exchange, destination))
    show_outcome({"unbound": destination}, f"unbound {destination} from {exchange}", options.output)


@app.command("test")
@with_option_groups
def find_route(
    exchange: Annotated[str, typer.Argument(metavar="EXCHANGE", help="amq.default is the default exchange.")],
    options: ApiOptions,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="The routing key of the message.")] = "",
    headers: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header; JSON or text; repeatable.")
    ] = None,
    vhost: HostOption = "/",
) -> None:
    """Show the queues to which a message with this key and these headers would go. Nothing is sent."""
    value = {"routing_key": key, "headers": _assigned(headers, "--header"), "vhost": vhost}
    path = f"exchanges/{quote(exchange, safe='')}/route"
    found = options.open_client().ask("POST", path, dict[str, list[str]], value)["queues"]
    nothing = "no queue: the message would be returned if it is mandatory, and dropped otherwise"
    show_rows([{"queue": queue} for queue in found], _ROUTE, options.output, nothing)


@app.command()
@with_option_groups
def graph(
    options: ApiOptions,
    vhost: HostOption = "/",
    dot: Annotated[bool, typer.Option("--dot", help="In the language of Graphviz: | dot -Tsvg > graph.svg")] = False,
) -> None:
    """Show which exchange leads to which queue or exchange, and by which key."""
    client = options.open_client()
    bindings = _bindings(client, vhost)
    if not dot:
        rows = [{**one, "arguments": json.dumps(one["arguments"]) if one["arguments"] else ""} for one in bindings]
        if options.output is Format.JSON:
            show_json(bindings)
        else:
            show_rows(rows, _BINDINGS, options.output, "there are no bindings")
        return
    if options.output is Format.JSON:
        raise CommandError("--dot is a format of its own: leave out -o json", Exit.USAGE)
    print(dot_graph(_exchanges(client, vhost), bindings))
    if not bindings:
        print_note("there are no bindings")


def dot_graph(exchanges: list[dict[str, Any]], bindings: list[dict[str, Any]]) -> str:
    """A graph of exchanges (boxes) and queues (ovals) in the language of Graphviz."""
    kinds = {one["name"]: one["type"] for one in exchanges}
    bound = {one["source"] for one in bindings}
    bound |= {one["destination"] for one in bindings if one["destination_type"] == "exchange"}
    alternates = [(one["name"], one["arguments"].get("alternate-exchange")) for one in exchanges]
    bound |= {name for pair in alternates if pair[1] for name in pair}
    lines = ["digraph bindings {", "  rankdir=LR;"]
    for name in sorted(bound):
        label = f"{name}\n{kinds[name]}" if name in kinds else name
        lines.append(f"  {_quoted('x:' + name)} [shape=box, label={_quoted(label)}];")
    for queue in sorted({one["destination"] for one in bindings if one["destination_type"] == "queue"}):
        lines.append(f"  {_quoted('q:' + queue)} [shape=oval, label={_quoted(queue)}];")
    for one in bindings:
        to = ("q:" if one["destination_type"] == "queue" else "x:") + one["destination"]
        text = one["routing_key"]
        if one["arguments"]:
            text = f"{text} {json.dumps(one['arguments'])}".strip()
        lines.append(f"  {_quoted('x:' + one['source'])} -> {_quoted(to)} [label={_quoted(text)}];")
    for name, alternate in alternates:
        if alternate:
            lines.append(f"  {_quoted('x:' + name)} -> {_quoted('x:' + alternate)} [style=dashed, label=alternate];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    """A text of Graphviz; a line end stands for itself."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _exchanges(client: ApiClient, vhost: str) -> list[dict[str, Any]]:
    return client.ask("GET", "exchanges", list[dict[str, Any]], query={"vhost": vhost})


def _bindings(client: ApiClient, vhost: str) -> list[dict[str, Any]]:
    return client.ask("GET", "bindings", list[dict[str, Any]], query={"vhost": vhost})


def _assigned(words: list[str] | None, option: str) -> dict[str, Any]:
    """NAME=VALUE, the value as JSON if it is some, else as text."""
    values: dict[str, Any] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} {word}: write NAME=VALUE", Exit.USAGE)
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values
