"""`longhall cluster status`: the hosts of a cluster, the leader, the in-sync set and the lag of the others."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, Row, columns, print_note, short_age, short_size, show_rows
from longhall.cli.watch import WatchOption, watch

if TYPE_CHECKING:
    from longhall.console.cluster_view import ClusterView, HostView

TIMEOUT_S = 5.0
LIVENESS = {True: "yes", False: "no", None: "unknown"}

_COLUMNS = columns(
    "node role liveness in_sync behind levels kafka sqs http rack",
    right="node",
    titles={"liveness": "alive"},
    people="liveness behind levels",
)


@with_option_groups
def status(
    options: ApiOptions,
    again: WatchOption = False,
) -> None:
    """Show the hosts of a cluster: liveness, leader, in-sync set, and lag.

    Any node can be asked; the lag is asked of the leader.
    """

    place = options.find_target().address
    if again:
        watch(lambda: (_look(place), _COLUMNS), options.output, "there are no hosts")
        return
    rows = _look(place)
    show_rows(rows, _COLUMNS, options.output, "there are no hosts")
    if rows and options.output is Format.TABLE:
        level, possible = rows[0]["level"], rows[0]["level_possible"]
        more = f"; `longhall cluster upgrade` raises it to {possible}" if possible != level else ""
        print_note(f"feature level {level}{more}")
        for row in rows:
            if row["unfit"]:
                print_note(f"node {row['node']} should not lead: {row['unfit']}")
            if row["halted"]:
                print_note(f"node {row['node']} takes no part: {row['halted']}")


def _look(place: str) -> list[Row]:
    view = best_view(ask(place))
    return [_row(view, host) for host in view.hosts]


def best_view(view: ClusterView) -> ClusterView:
    """The view of the leader if it answers, else the given one."""
    leader = next((host for host in view.hosts if host.leads and host.alive and host.node != view.node), None)
    if leader is not None:
        try:
            return ask(leader.http)
        except CommandError:
            pass  # Then this is what can be known.
    return view


def ask_leader(place: str) -> ClusterView | None:
    """The view of the leader, looked up at this node; None if no leader answers."""
    try:
        view = best_view(ask(place))
    except CommandError:
        return None
    return view if view.serving else None


def ask(place: str) -> ClusterView:
    """The view of one node. Raises CommandError if it does not answer, or is not in a cluster."""
    import msgspec

    from longhall.cli.addresses import parse_http_address, unreachable, untrusted, wants_tls
    from longhall.cli.profiles import find_tls
    from longhall.client.tls import http_connection
    from longhall.console.cluster_view import ClusterView

    where = parse_http_address(place)
    tls = find_tls(None)
    connection = http_connection(where.host, where.port, tls.context() if wants_tls(place, tls) else None, TIMEOUT_S)
    try:
        connection.request("GET", "/cluster")
        answer = connection.getresponse()
        body = answer.read()
    except http.client.HTTPException:
        raise CommandError(
            f"what answers at {place} does not speak HTTP; give the HTTP address with --address"
        ) from None
    except ssl.SSLError as error:
        raise untrusted(where, error) from None
    except OSError:
        raise unreachable(where) from None
    finally:
        connection.close()
    if answer.status == 404:
        raise CommandError(f"the node at {place} is alone; `longhall cluster up` starts a cluster")
    try:
        return msgspec.json.decode(body, type=ClusterView)
    except msgspec.DecodeError:
        raise CommandError(f"what answers at {place} is no node of Longhall", Exit.UNREACHABLE) from None


def behind_of(host: HostView) -> str:
    """The lag of a host, in words."""
    if host.leads or not host.keeps:
        return ""
    if host.copied_bytes is not None and host.copied_bytes_total:
        percent = 100 * host.copied_bytes // host.copied_bytes_total
        return f"fetches everything, {percent} % of {short_size(host.copied_bytes_total)}"
    if host.lag_entries is None:
        return "?" if host.alive else ""
    if host.lag_entries == 0:
        return "nothing"
    return f"{host.lag_entries} entries, {short_age(host.lag_ms or 0)}"


def _row(view: ClusterView, host: HostView) -> Row:
    role = "leader" if host.leads else "follower" if host.keeps else host.role
    role = role or ("drained" if host.drained else "doors")
    words = [role, *(["manager"] if host.manages else []), *(["leaving"] if host.leaving else [])]
    words += ["unfit"] if host.unfit else []
    words = ["halted"] if host.halted else words
    return {
        "node": host.node,
        "role": ", ".join(words),
        "leader": host.leads,
        "manager": host.manages,
        "alive": host.alive,
        "liveness": LIVENESS[host.alive],
        "in_sync": host.in_sync,
        "lag_entries": 0 if host.leads else host.lag_entries,
        "lag_ms": 0 if host.leads else host.lag_ms,
        "behind": behind_of(host),
        "keeps": host.keeps,
        "leaving": host.leaving,
        "drained": host.drained,
        "copied_bytes": host.copied_bytes,
        "copied_bytes_total": host.copied_bytes_total,
        "epoch": view.epoch,
        "kafka": host.kafka,
        "sqs": host.sqs,
        "http": host.http,
        "peers": host.peers,
        "level": view.level,
        "level_possible": view.level_possible,
        "level_min": host.level_min,
        "level_max": host.level_max,
        "levels": _levels(host),
        "rack": host.rack,
        "unfit": host.unfit,
        "halted": host.halted,
    }


def _levels(host: HostView) -> str:
    if host.level_max is None:
        return "?"
    return str(host.level_max) if host.level_min == host.level_max else f"{host.level_min}-{host.level_max}"
