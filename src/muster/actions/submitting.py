"""Submits a gang: its JobSet; or its Job and the Service that names its workers, or neither; or a sweep: its Job."""

import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from muster.actions.choices import gpu_resource
from muster.actions.errors import UserError
from muster.actions.gang import Gang
from muster.actions.manifests import job, jobset, service
from muster.api.batch import JOB, Job
from muster.api.core import SERVICE
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.status import ApiError
from muster.insight.reader.queues import list_or_none
from muster.insight.record import JobRecord, record_of
from muster.runtime.client import Client


async def submit(client: Client, gang: Gang, say: Callable[[str], None], *, named: bool = True) -> JobRecord:
    """The job as it was created. `named`: a user chose its name, so it may be taken.

    Raises `ApiError`, `TransportError`, `UserError` if the name is taken.
    """
    if named:
        await _check_name(client, gang)
    if any(role.gpus for role in gang.parts):
        gang = replace(gang, gpu_resource=await gpu_resource(client))
    if gang.is_job:
        return await _submit_job(client, gang)
    try:
        created = await client.create(JOB_SET.seen_as(dict), signed(jobset(gang)), gang.namespace)
    except ApiError as error:
        if error.code != 404 or await list_or_none(client, JOB_SET, gang.namespace) is not None:
            raise _said(error, _taken(gang)) from None
        if gang.roles:
            raise UserError("roles need JobSets, which this cluster does not serve") from None
        if gang.retries:
            raise UserError("--retries needs JobSets, which this cluster does not serve") from None
        say("this cluster serves no JobSets: the workers are a Job, and each begins as soon as it can")
        return await _submit_job(client, replace(gang, plain=True))
    if gang.size > 1 and "groupSchedulingConfig" not in created["spec"]:
        say("the JobSets of this cluster know no groupSchedulingConfig: each worker begins as soon as it can")
    return record_of(msgspec.convert(created, JobSet, strict=False))


def signed(manifest: dict[str, Any]) -> dict[str, Any]:
    """With the name of the account that submits it, where it has one: a server that knows users better says so."""
    try:
        account = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return manifest
    meta = manifest["metadata"]
    annotations = {**meta.get("annotations", {}), SUBMITTER_ANNOTATION: account}
    return manifest | {"metadata": meta | {"annotations": annotations}}


async def _submit_job(client: Client, gang: Gang) -> JobRecord:
    """The Job, and its Service: trials have no names."""
    name, namespace = gang.name, gang.namespace
    try:
        created = await client.create(JOB.seen_as(dict), signed(job(gang)), namespace)
    except ApiError as error:
        raise _said(error, _taken(gang)) from None
    if gang.sweep is not None:
        return record_of(msgspec.convert(created, Job, strict=False))
    try:
        await client.create(SERVICE.seen_as(dict), service(gang, created["metadata"]["uid"]), namespace)
    except ApiError as error:
        await client.delete(JOB, name, namespace, propagation="Background")
        raise _said(error, _named_already(gang)) from None
    return record_of(msgspec.convert(created, Job, strict=False))


async def _check_name(client: Client, gang: Gang) -> None:
    """That nothing has the name by which the job, or its workers, would be found: not of another kind either."""
    kinds: tuple[tuple[Kind[Any], str], ...] = (
        (JOB_SET, _taken(gang)),
        (JOB, _taken(gang)),
        (SERVICE, _named_already(gang)),
    )
    for kind, complaint in kinds:
        if await client.find(kind.seen_as(Object), gang.name, gang.namespace) is not None:
            raise UserError(complaint)


def _taken(gang: Gang) -> str:
    advice = f"give another name, or remove it with what it printed: muster cancel --delete {gang.name}"
    return f"there is a job {gang.name} already: {advice}"


def _named_already(gang: Gang) -> str:
    return f"there is a Service {gang.name} already, which workers would be named by: give another name"


def _said(error: ApiError, taken: str) -> Exception:
    """The error, but of a name that is taken what to do about it."""
    return UserError(taken) if error.reason == "AlreadyExists" else error
