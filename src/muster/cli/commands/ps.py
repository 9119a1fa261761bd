"""`muster ps`: the jobs and what they do."""

from collections import defaultdict
from typing import Any

import click

from muster.cli.session import Session, Target, connect, run, target_options


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Another form.")
@target_options
def command(all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List jobs with state, pods, reason and age."""
    run(_ps(Target.of(options), output or "", everywhere=all_namespaces))


async def _ps(target: Target, output: str, *, everywhere: bool) -> None:
    async with connect(target) as session:
        rows = await _rows(session, "" if everywhere else session.namespace)
    if output in ("json", "yaml"):
        from muster.cli.output import dump

        click.echo(dump(rows, output))
    elif output == "name":
        for row in rows:
            click.echo(row["name"])
    elif not rows:
        click.echo("no jobs", err=True)
    else:
        _print(rows, everywhere=everywhere, wide=output == "wide")


async def _rows(session: Session, namespace: str) -> list[dict[str, Any]]:
    from muster.api.batch import JOB
    from muster.api.core import POD, Pod
    from muster.cli.follow import JOB_NAME_LABEL
    from muster.cli.jobstate import job_state
    from muster.cli.output import age
    from muster.runtime.clock import RealClock

    jobs = await session.client.list(JOB, namespace)
    pods = await session.client.list(POD, namespace, labels=JOB_NAME_LABEL)
    by_job: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods.items:
        for owner in pod.metadata.owner_references:
            by_job[owner.uid].append(pod)
    now = RealClock().now()
    refused = await _refused_pods(session, namespace)
    rows = []
    for job in sorted(jobs.items, key=lambda job: (job.metadata.creation_timestamp or now, job.metadata.name)):
        state = job_state(job, by_job[job.metadata.uid])
        nodes = {pod.spec.node_name for pod in by_job[job.metadata.uid] if pod.spec.node_name}
        rows.append(
            {
                "namespace": job.metadata.namespace,
                "name": job.metadata.name,
                "state": state.word,
                "ready": state.ready,
                "wanted": state.wanted,
                "reason": refused.get(job.metadata.uid, state.reason) if state.word == "Pending" else state.reason,
                "nodes": sorted(nodes),
                "age": age(job.metadata.creation_timestamp, now),
            }
        )
    return rows


async def _refused_pods(session: Session, namespace: str) -> dict[str, str]:
    """Why the pods of jobs could not be made, by the job's UID: the newest event that says so."""
    from muster.api.core import EVENT

    events = await session.client.list(EVENT, namespace, fields="reason=FailedCreate,involvedObject.kind=Job")
    newest = sorted(events.items, key=lambda event: str(event.last_timestamp))
    return {event.involved_object.uid: event.message for event in newest}


def _print(rows: list[dict[str, Any]], *, everywhere: bool, wide: bool) -> None:
    from muster.cli.output import table

    columns = (["namespace"] if everywhere else []) + ["name", "state", "pods", "age"] + (["nodes"] if wide else [])
    cells = [row | {"pods": f"{row['ready']}/{row['wanted']}", "nodes": ",".join(row["nodes"]) or "-"} for row in rows]
    header = [column.upper() for column in columns] + ["REASON"]
    click.echo(table(header, [[str(row[column]) for column in columns] + [row["reason"]] for row in cells]))
