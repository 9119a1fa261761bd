"""Submit a gang as a JobSet, or as a Job with the Service that names its workers; submit a sweep as a single Job.

A gang with a schedule is a CronJob with such a Service. An MPI gang also gets a Secret, which is deleted with the job.
"""

import os
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import structs
from msgspec.structs import replace

from muster.actions.choices import gpu_resource, node_cpus, queue_lacks_cpus
from muster.actions.errors import UserError
from muster.actions.server.session import Session
from muster.actions.submission.caller import find_account_name
from muster.actions.submission.defaultcpus import needs_default, read_default, set_default_cpus
from muster.actions.submission.gang import Gang
from muster.actions.submission.manifests import cron_job, make_job, make_jobset, make_service
from muster.actions.submission.mpi import has_identity, make_secret, secret_name
from muster.api.batch import CRON_JOB, JOB, Job
from muster.api.core import SECRET, SERVICE
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue.names import DEFAULT_QUEUE
from muster.api.meta import Object
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.status import ApiError
from muster.insight.jobs.state import NeverVerdict
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.listing.access import list_or_none
from muster.insight.record import JobRecord, record_of
from muster.runtime.client import Client
from muster.runtime.ids import Ids
from muster.runtime.kube.credentials import CredentialError
from muster.runtime.kube.requests import UnreachedError
from muster.runtime.realclock import RealClock
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import TransportError

# The length of the random suffix of a generated name.
_SUFFIX = 5


async def submit(client: Client, gang: Gang, say: Callable[[str], None], *, named: bool = True) -> JobRecord:
    """Create the objects of a gang, adapted to the cluster; return the job as the server created it.

    say: called with each remark for the user.
    named: whether the user chose the name, so that another job may have it.

    Raises `ApiError`, `TransportError`, and `UserError` if the name is taken. If the job may exist in spite of an
    error, the error's message explains how to end it.
    """
    if named:
        await _check_name(client, gang)
    gang = await fit_cluster(client, gang)
    if not gang.mpi:
        return await _create(client, gang, say)
    is_new = await _create_identity(client, gang)
    try:
        created = await _create(client, gang, say)
    except (ApiError, UserError):
        if is_new:
            await client.delete(SECRET, secret_name(gang), gang.namespace)
        raise
    await _give_identity(client, gang, created, say)
    return created


async def require_acceptable(client: Client, gang: Gang) -> None:
    """Check by a dry run with another name whether the server accepts the job of a gang. Raises `ApiError`.

    Only errors for a malformed job (400, 422) are raised. Any other refusal may be due to the job that currently has
    the name.
    """
    gang = await fit_cluster(client, gang)
    other = replace(gang, name=f"{gang.name[: max(len(gang.name) - _SUFFIX, 1)]}{Ids().suffix(_SUFFIX)}")
    kind, manifest = (JOB, make_job(other)) if gang.is_job else (JOB_SET, make_jobset(other))
    try:
        await client.create(kind.seen_as(dict), sign_manifest(manifest), gang.namespace, dry_run=True)
    except ApiError as error:
        if error.code in (400, 422):
            raise


async def submit_cron_job(client: Client, gang: Gang) -> None:
    """Create the CronJob of a gang with a schedule, and the Service that names its workers.

    Raises the errors of `submit`.
    """
    await _check_name(client, gang)
    gang = await fit_cluster(client, gang)
    try:
        created = await _create_job(client, gang, CRON_JOB, cron_job(gang))
        if gang.sweep is None:
            await _create_service(client, gang, CRON_JOB, created["metadata"]["uid"])
    except ApiError as error:
        raise _choose_error(error, _describe_taken_cron_job(gang)) from None


async def fit_cluster(client: Client, gang: Gang) -> Gang:
    """Return the gang adapted to the cluster: its controllers, its GPU resource, and default CPU requests.

    Raises `UserError` for an invalid setting.
    """
    gang = replace(gang, upstream=not await is_embedded(client))
    if any(role.gpus for role in gang.parts):
        gang = replace(gang, gpu_resource=await gpu_resource(client))
    default = read_default(os.environ) if needs_default(gang) else 0
    if default and not await queue_lacks_cpus(client, gang.namespace, gang.queue or DEFAULT_QUEUE):
        gang = set_default_cpus(gang, default, await node_cpus(client))
    return gang


def may_have_created(error: BaseException | None) -> bool:
    """Return whether the server may have created the job before the connection broke or the server failed.

    A server with a full disk responds only after it has rolled back the write.
    """
    is_full = is_refusal(error, "InsufficientStorage")
    failed = isinstance(error, ApiError) and error.code >= HTTPStatus.INTERNAL_SERVER_ERROR and not is_full
    unsent = isinstance(error, (UnreachedError, CredentialError))
    return failed or (isinstance(error, TransportError) and not unsent)


def describe_possible_job(gang: Gang) -> str:
    """Return a sentence that the server may have created a gang's job, and how to inspect and end the job."""
    where = f"{gang.name} -n {gang.namespace}" if gang.namespace else gang.name
    return f"{gang.name} may have been submitted; inspect it: muster why {where}; end it: muster cancel {where}"


async def foresee(session: Session, job: JobRecord, say: Callable[[str], None]) -> NeverVerdict:
    """Return the verdict whether the job can never start, or waits for nodes; `OPEN` if that is unknown.

    say: called with a sentence if the server does not provide the facts.

    The deciding module is imported only for jobs that need a verdict.
    """
    from muster.actions.submission.foresight import predict_start  # importing it takes long

    return await predict_start(session, job, say)


async def _create_job(client: Client, gang: Gang, kind: Kind[Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Create the job object of a gang; return it. Raises the errors of `submit`."""
    try:
        created: dict[str, Any] = await client.create(kind.seen_as(dict), sign_manifest(manifest), gang.namespace)
    except (ApiError, TransportError) as error:
        if not may_have_created(error):
            raise
        message = f"{error}; {describe_possible_job(gang)}"
        if isinstance(error, ApiError):
            raise ApiError(structs.replace(error.status, message=message)) from error
        raise type(error)(message) from error
    return created


async def _create(client: Client, gang: Gang, say: Callable[[str], None]) -> JobRecord:
    """Create and return a gang's JobSet, or its Job with a Service if that suffices. Raises the errors of `submit`.

    In a cluster without JobSets, a gang that does not need a JobSet becomes a Job.
    """
    if gang.is_job:
        return await _submit_job(client, gang)
    try:
        created = await _create_job(client, gang, JOB_SET, make_jobset(gang))
    except ApiError as error:
        if error.code != 404 or await list_or_none(client, JOB_SET, gang.namespace) is not None:
            raise _choose_error(error, _describe_taken_job(gang)) from None
        if gang.roles:
            raise UserError("roles need JobSets, which this cluster does not serve") from None
        if gang.retries:
            raise UserError("--retries needs JobSets, which this cluster does not serve") from None
        say("this cluster serves no JobSets: the workers are a Job, and each begins as soon as it can")
        return await _submit_job(client, replace(gang, plain=True))
    if gang.size > 1 and "groupSchedulingConfig" not in created["spec"]:
        say("the JobSets of this cluster know no groupSchedulingConfig: each worker begins as soon as it can")
    return record_of(msgspec.convert(created, JobSet, strict=False))


async def _create_identity(client: Client, gang: Gang) -> bool:
    """Create the Secret with which the workers of an MPI job authenticate each other; return whether it is new.

    No worker starts without the Secret, so it is created before the job. If an earlier attempt created only the Secret
    before its connection broke, that Secret is used. Raises `ApiError`, also if another job has a Secret of that name.
    """
    try:
        from muster.mpi.identity import make_identity  # it loads the whole of cryptography

        await client.create(SECRET.seen_as(dict), make_secret(gang, make_identity(RealClock().now())), gang.namespace)
    except ApiError as error:
        if not is_refusal(error, "AlreadyExists"):
            raise
        existing = await client.find(SECRET, secret_name(gang), gang.namespace)
        if existing is None or existing.metadata.owner_references or not has_identity(existing):
            raise
        return False
    return True


async def _give_identity(client: Client, gang: Gang, job: JobRecord, say: Callable[[str], None]) -> None:
    """Make an MPI job the owner of its Secret, so that both are deleted together.

    say: called with a sentence if that fails. The failure is not raised.
    """
    kind, name = job.kind, secret_name(gang)
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": gang.name, "uid": job.metadata.uid}
    try:
        await client.patch(SECRET, name, {"metadata": {"ownerReferences": [owner]}}, gang.namespace)
    except (ApiError, TransportError) as error:  # the job runs without an owner reference
        say(f"Secret {name} stays when the job has gone: {error}")


def sign_manifest(manifest: dict[str, Any], account: str = "") -> dict[str, Any]:
    """Return the manifest with an annotation that names the submitting account.

    account: the name of the submitter; "" for the account of this process.

    The manifest is unchanged if it names a submitter already, or if the account has no name. A server that
    authenticates users overwrites the annotation.
    """
    meta = manifest["metadata"]
    annotations = meta.get("annotations") or {}
    if SUBMITTER_ANNOTATION in annotations:
        return manifest
    account = account or find_account_name()
    if not account:
        return manifest
    return manifest | {"metadata": meta | {"annotations": {**annotations, SUBMITTER_ANNOTATION: account}}}


async def _submit_job(client: Client, gang: Gang) -> JobRecord:
    """Create the Job of a gang or sweep, and the Service of a gang; return the job. Raises the errors of `submit`.

    The workers of a sweep need no host names.
    """
    try:
        created = await _create_job(client, gang, JOB, make_job(gang))
    except ApiError as error:
        raise _choose_error(error, _describe_taken_job(gang)) from None
    if gang.sweep is not None:
        return record_of(msgspec.convert(created, Job, strict=False))
    await _create_service(client, gang, JOB, created["metadata"]["uid"])
    return record_of(msgspec.convert(created, Job, strict=False))


async def _create_service(client: Client, gang: Gang, owner: Kind[Any], uid: str) -> None:
    """Create the Service that names the workers. If that fails, delete the job, or report that the job still exists.

    Raises `UserError`, `ApiError` or `TransportError` if it fails.
    """
    try:
        await client.create(SERVICE.seen_as(dict), make_service(gang, uid), gang.namespace)
    except (ApiError, TransportError) as error:
        try:
            with ignoring("NotFound"):
                await client.delete(owner, gang.name, gang.namespace, propagation="Background", uid=uid)
        except (ApiError, TransportError) as obstacle:
            raise UserError(
                f"the {owner.kind} {gang.name} has no Service, so its workers may not find each other: {error}. "
                f"Remove it with: muster cancel --delete {gang.name} ({obstacle})"
            ) from error
        raise _choose_error(error, _describe_taken_service(gang)) from None


async def _check_name(client: Client, gang: Gang) -> None:
    """Raise `UserError` if an object of a kind that a gang uses already has the gang's name.

    If the object is being deleted, wait briefly for that.
    """
    kinds: tuple[tuple[Kind[Any], str], ...] = (
        (JOB_SET, _describe_taken_job(gang)),
        (JOB, _describe_taken_job(gang)),
        (SERVICE, _describe_taken_service(gang)),
    )
    if gang.schedule:
        kinds = ((CRON_JOB, _describe_taken_cron_job(gang)), *kinds)
    for kind, complaint in kinds:
        if await _find_staying(client, kind, gang) is not None:
            raise UserError(complaint)


async def _find_staying(client: Client, kind: Kind[Any], gang: Gang) -> Object | None:
    """Return the object of this kind with the gang's name; None if there is none.

    If the object is being deleted, wait up to 30 s for that.
    """
    existing = await client.find(kind.seen_as(Object), gang.name, gang.namespace)
    for _ in range(300):
        if existing is None or existing.metadata.deletion_timestamp is None:
            break
        await RealClock().sleep(0.1)
        existing = await client.find(kind.seen_as(Object), gang.name, gang.namespace)
    return existing


def _describe_taken_job(gang: Gang) -> str:
    advice = f"give another name, or remove it with what it printed: muster cancel --delete {gang.name}"
    return f"there is a job {gang.name} already: {advice}"


def _describe_taken_cron_job(gang: Gang) -> str:
    advice = f"give another name, or remove it with its jobs: muster cancel --delete {gang.name}"
    return f"there is a CronJob {gang.name} already: {advice}"


def _describe_taken_service(gang: Gang) -> str:
    return f"there is a Service {gang.name} already, which workers would be named by: give another name"


def _choose_error(error: ApiError | TransportError, taken_message: str) -> Exception:
    """Return the error to raise after a refused creation.

    It is a `UserError` with `taken_message` if an object has the name already, else the server's error.
    """
    return UserError(taken_message) if is_refusal(error, "AlreadyExists") else error
