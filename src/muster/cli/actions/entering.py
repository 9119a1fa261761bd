"""Runs a command beside a worker of a job, in its container."""

from collections.abc import Iterable

import click

from muster.api.core import POD, Pod
from muster.insight.jobstate import worker
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.transport import Request


async def entry(client: Client, job: JobRecord, rank: str) -> Pod:
    """The worker of this rank, or the first that runs. Raises `ApiError`, `click.ClickException` if it does not run."""
    pods = (await client.list(POD, job.metadata.namespace, labels=job.pod_labels)).items
    try:
        return chosen(job, pods, worker(job, rank) if rank else "")
    except LookupError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rank") from None


def chosen(job: JobRecord, pods: Iterable[Pod], rank: str) -> Pod:
    """The pod that runs as the worker of a rank; "" is the first. Raises `LookupError` that says what runs."""
    running = {job.rank(pod): pod for pod in pods if job.owns(pod) and _runs(pod)}
    ordered = sorted(running, key=lambda one: (len(one), one) if one.isdecimal() else (0, one))
    name = job.metadata.name
    if not ordered:
        raise LookupError(f"no worker of {name} runs; see: muster why {name}")
    if rank and rank not in running:
        raise LookupError(f"worker {rank} of {name} does not run; there run: {', '.join(ordered)}")
    return running[rank or ordered[0]]


def _runs(pod: Pod) -> bool:
    return any(status.state.running is not None for status in pod.status.container_statuses)


def joining(pod: Pod) -> Request:
    """What asks for the terminal of its first container's own process."""
    meta = pod.metadata
    query = dict.fromkeys(("stdin", "stdout", "tty"), "true") | {"container": pod.spec.containers[0].name}
    return Request("GET", POD.path(meta.namespace, meta.name, "attach"), query)


def request(pod: Pod, container: str, command: Iterable[str], *, stdin: bool, tty: bool) -> Request:
    """What asks for it. A terminal has one stream for all that is printed."""
    meta = pod.metadata
    asked = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    query = {name: "true" for name, wanted in asked.items() if wanted}
    query["container"] = container or pod.spec.containers[0].name
    path = POD.path(meta.namespace, meta.name, "exec")
    return Request("GET", path, query, lists={"command": tuple(command)})
