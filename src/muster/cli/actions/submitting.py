"""Submits a gang: its Job and the Service that names its workers, or neither of them."""

from typing import Any

import click

from muster.api.batch import JOB
from muster.api.core import SERVICE
from muster.api.status import ApiError
from muster.cli.actions.gang import Gang, job, service
from muster.runtime.client import Client


async def submit(client: Client, gang: Gang) -> dict[str, Any]:
    """The Job as it was created. Raises `ApiError`, `TransportError`, `click.ClickException` if the name is taken."""
    name, namespace = gang.name, gang.namespace
    try:
        created = await client.create(JOB.seen_as(dict), job(gang), namespace)
    except ApiError as error:
        advice = f"--name another, or remove it with what it printed: muster cancel --delete {name}"
        raise _said(error, f"there is a job {name} already: {advice}") from None
    try:
        await client.create(SERVICE.seen_as(dict), service(gang, created["metadata"]["uid"]), namespace)
    except ApiError as error:
        await client.delete(JOB, name, namespace, propagation="Background")
        raise _said(
            error, f"there is a Service {name} already, which workers would be named by: --name another"
        ) from None
    return created


def _said(error: ApiError, taken: str) -> Exception:
    """The error, but of a name that is taken what to do about it."""
    return click.ClickException(taken) if error.reason == "AlreadyExists" else error
