"""Make the requests that run a command in the container of a job's worker."""

from collections.abc import Iterable

import click

from muster.api.core import POD, Pod
from muster.insight.jobs.state import parse_rank
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.transport import Request


async def find_entry(client: Client, job: JobRecord, rank: str) -> Pod:
    """Return the running pod of a rank, or of the first rank that runs if `rank` is "".

    Raises `ApiError`, `click.ClickException` if none runs, and `click.BadParameter` if the job has no such rank.
    """
    pods = await read_own_pods(client, job)
    try:
        return choose_pod(job, pods, parse_rank(job, rank) if rank else "")
    except LookupError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rank") from None


def choose_pod(job: JobRecord, pods: Iterable[Pod], rank: str) -> Pod:
    """Return the running pod of a rank; if `rank` is "", the pod of the first rank that runs.

    Raises `LookupError` that names the ranks that run.
    """
    running = {job.rank(pod): pod for pod in pods if job.owns(pod) and _is_running(pod)}
    ordered = sorted(running, key=lambda one: (len(one), one) if one.isdecimal() else (0, one))
    name = job.metadata.name
    if not ordered:
        raise LookupError(f"no worker of {name} runs; see: muster why {name}")
    if rank and rank not in running:
        raise LookupError(f"worker {rank} of {name} does not run; there run: {', '.join(ordered)}")
    return running[rank or ordered[0]]


def _is_running(pod: Pod) -> bool:
    return any(status.state.running is not None for status in pod.status.container_statuses)


def make_attach_request(pod: Pod) -> Request:
    """Return the request that connects to the main process of the pod's first container."""
    meta = pod.metadata
    query = dict.fromkeys(("stdin", "stdout", "tty"), "true") | {"container": pod.spec.containers[0].name}
    return Request("GET", POD.path(meta.namespace, meta.name, "attach"), query)


def make_exec_request(pod: Pod, container: str, command: Iterable[str], *, stdin: bool, tty: bool) -> Request:
    """Return the request to run a command in a container. With a terminal, stdout and stderr are one stream."""
    meta = pod.metadata
    streams = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    query = {name: "true" for name, wanted in streams.items() if wanted}
    query["container"] = container or pod.spec.containers[0].name
    path = POD.path(meta.namespace, meta.name, "exec")
    return Request("GET", path, query, lists={"command": tuple(command)})
