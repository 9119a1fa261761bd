"""Print the queues of a cluster."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.session import connect

# The maximum number of listed users of a queue.
_MOST_USERS = 4


async def print_queues(target: Target, output: str, *, everywhere: bool) -> None:
    """Print the ClusterQueues, then the LocalQueues of the namespace. Raises `ApiError`.

    everywhere: whether to print the LocalQueues of all namespaces.
    output: `json`, `yaml` or another format of `-o`; "" for tables.
    """
    from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
    from muster.cli.terminal.output import say
    from muster.insight.quota.queues import format_row, make_cluster_queue_row, make_local_queue_row
    from muster.insight.reader.clusters import find_destinations
    from muster.insight.reader.listing.access import list_or_say

    async with connect(target) as session:
        local = (await session.client.list(LOCAL_QUEUE, "" if everywhere else session.namespace)).items
        cluster = await list_or_say(session.client, CLUSTER_QUEUE, "", say, "ClusterQueues")
        sent = await find_destinations(session.client, cluster or ())
    rows = [row | {"clusters": sent.get(row["name"], ())} for row in map(make_cluster_queue_row, cluster or ())]
    locals_ = [make_local_queue_row(queue) for queue in local]
    if output in ("json", "yaml"):
        from muster.cli.terminal.output import dump

        click.echo(dump({"clusterQueues": [format_row(row) for row in rows], "localQueues": locals_}, output))
    elif output == "name":
        for row in rows:
            click.echo(f"clusterqueue/{row['name']}")
        for row in locals_:
            click.echo(f"localqueue/{row['name']}")
    elif rows or locals_:
        _print(rows, locals_, everywhere=everywhere, wide=output == "wide")
    elif cluster is not None:
        click.echo("no queues; make one with: muster queue create NAME --cpu N", err=True)
    else:
        click.echo("no LocalQueues", err=True)


def _print(rows: list[dict[str, Any]], local: list[dict[str, Any]], *, everywhere: bool, wide: bool) -> None:
    """Print a table of ClusterQueues and a table of LocalQueues. An empty table is left out.

    everywhere: whether LocalQueues of several namespaces are listed, which adds a column.
    wide: whether to add the columns of `-o wide`.
    """
    from muster.cli.terminal.output import terminal_width
    from muster.insight.quota.queues import format_usage, list_resources
    from muster.insight.text import format_table

    if rows:
        resources = list_resources(rows, everything=wide)
        header = ["CLUSTERQUEUE", "COHORT", "STATE", "PENDING", "ADMITTED", *(r.upper() for r in resources)]
        sends = any(row["clusters"] for row in rows)
        header += ["CLUSTERS"] if sends else []
        has_teams = any(row["users"] is not None for row in rows)
        header += ["SHARE", "USERS"] if has_teams else []
        cells = [
            [row["name"], row["cohort"] or "-", row["state"], str(row["pending"]), str(row["admitted"])]
            + [format_usage(row, resource) for resource in resources]
            + ([",".join(row["clusters"]) or "-"] if sends else [])
            + ([row["weight"] or "1", _list_users(row["users"])] if has_teams else [])
            + ([row["perUser"] or "-", row["strategy"], row["message"]] if wide else [])
            for row in rows
        ]
        width = terminal_width() if wide else 0
        click.echo(format_table(header + (["PER USER", "STRATEGY", "MESSAGE"] if wide else []), cells, width=width))
    if rows and local:
        click.echo()
    if local:
        first = ["NAMESPACE"] if everywhere else []
        header = [*first, "LOCALQUEUE", "CLUSTERQUEUE", "STATE", "PENDING", "ADMITTED"] + (["MESSAGE"] if wide else [])
        cells = [
            ([row["namespace"]] if everywhere else [])
            + [row["name"], row["clusterQueue"], row["state"], str(row["pending"]), str(row["admitted"])]
            + ([row["message"]] if wide else [])
            for row in local
        ]
        click.echo(format_table(header, cells, width=terminal_width() if wide else 0))


def _list_users(users: list[str] | None) -> str:
    """Return the users of a queue for a narrow column: the first few, `-` for all users, or `(none)`."""
    if users is None:
        return "-"
    more = len(users) - _MOST_USERS
    return (",".join(users[:_MOST_USERS]) + (f" and {more} more" if more > 0 else "")) or "(none)"
