"""Make a team's queue from a part of the nodes' quota, and check changes of such a queue."""

from dataclasses import replace
from typing import Any

import click

from muster.actions.quota.editedqueue import QueueEdit
from muster.actions.quota.queues import create_all, make_taken_error
from muster.actions.quota.teams import (
    check_division,
    check_users,
    describe_rest,
    describe_users,
    find_division,
    open_cohort,
    require_known_submitters,
)
from muster.actions.server.session import Session, Target
from muster.api.kueue import CLUSTER_QUEUE
from muster.api.ours.teams import QUOTA_OF
from muster.cli.actions.queues.newqueue import make_documents
from muster.cli.actions.queues.queueoptions import read_new_queue, read_quotas
from muster.cli.session import connect
from muster.cli.terminal.output import print_documents, say
from muster.queueing.quota.nodes import is_following_nodes
from muster.runtime.realclock import RealClock


async def create_team(target: Target, name: str, options: dict[str, Any]) -> None:
    """Create the queue of a team, whose quota is a part of the nodes' queue; print which queue its users' jobs get.

    With the option `dry_run`, only print the manifests. Raises `ApiError`, `UserError`, `click.UsageError`.
    """
    if options["flavor"] or options["cohort"]:
        raise click.UsageError("--share and --users divide the queue of the nodes, whose flavor and cohort they take")
    if options["share"] and options["weight"]:
        raise click.UsageError("--share and --weight exclude each other")
    async with connect(target) as session:
        client = session.client
        await require_known_submitters(client)
        division = await find_division(client)
        if any(queue.metadata.name == name for queue in division.queues):
            raise make_taken_error(CLUSTER_QUEUE.kind, name)
        options |= {"flavor": division.flavor, "cohort": division.cohort}
        options |= {"part_of": division.whole.metadata.name}
        queue = read_new_queue(name, session.namespace, options, sorted(division.left))
        check_division(division, name, read_quotas(options))
        await check_users(session, queue.users or ())
        made = make_documents(replace(queue, created=RealClock().now()))
        if options["dry_run"]:
            print_documents(made, options["output"])
            return
        await open_cohort(client, division, dry_run=True)
        made.sort(key=lambda one: one["kind"] == CLUSTER_QUEUE.kind)  # with it, the server gives its users LocalQueues
        await open_cohort(client, division)
        lines = await create_all(client, made)
        for line in lines:
            click.echo(line)
        queues = (await client.list(CLUSTER_QUEUE)).items
        rest = [] if division.parts else [describe_rest(division, queues)]  # only the first team changes the rest
        for line in (*describe_users(name, queue.users or (), queues), *rest):
            say(line)


async def check_edit(session: Session, name: str, edit: QueueEdit) -> bool:
    """Raise `UserError` if a queue cannot be changed so: a user is unknown, or the quota is not available.

    Return whether the change would stop the queue's quota from following the nodes.
    """
    if edit.users or edit.added or edit.limits or edit.without_team is not None:
        await require_known_submitters(session.client)
    await check_users(session, (edit.users or frozenset()) | edit.added)
    queue = await session.client.find(CLUSTER_QUEUE, name) if edit.quotas else None
    if queue is None:
        return False
    if QUOTA_OF in queue.metadata.annotations:
        check_division((await find_division(session.client)).without(name), name, edit.quotas)
    return is_following_nodes(queue)
