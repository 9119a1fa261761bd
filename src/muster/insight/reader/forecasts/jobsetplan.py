"""Plan a JobSet that does not exist yet: the Jobs that its controller would create, and their pods."""

from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as changed

from muster.api.batch import JOB, MAX_PARALLELISM, Job
from muster.api.config import GroupScheduling
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, ReplicatedJobStatus
from muster.api.kueue.names import POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.status import ApiError
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.controllers.scheduler.carrier import Carrier
from muster.insight.forecasts.plan import Subject
from muster.insight.reader.listing.lists import Lists
from muster.jobs.job.plan import Creation
from muster.jobs.job.pods import PodTemplate
from muster.jobs.job.terms import JobTerms
from muster.jobs.jobset.children import Children
from muster.jobs.jobset.gang import at_once, is_one_gang
from muster.jobs.jobset.ordering import find_startable_roles
from muster.jobs.jobset.size import pods_of_job
from muster.queueing.jobframework.equivalence import remove_repeated_variables


async def plan_jobset(lists: Lists, jobset: JobSet, start: GroupScheduling) -> tuple[Subject, list[Carrier]]:
    """Return the nodes and quota that a new JobSet needs, with its first pods, and the carriers of their gangs.

    The server creates one pod of each role as a dry run; the other pods of the role are copies of it. The first pods
    are the pods of the roles that wait for no other role.
    If no forecast is possible, for example because the server refuses a pod, the result names the problem.

    start: the settings for how the pods of a group wait for each other.
    """
    meta, queue = jobset.metadata, jobset.metadata.labels.get(QUEUE_NAME_LABEL, "")
    podsets = tuple(map(remove_repeated_variables, JobSetIntegration().podsets(jobset)))
    subject = Subject("jobset.jobset.x-k8s.io", meta, queue=queue, podsets=podsets)
    if jobset.spec.suspend and not queue:
        return replace(subject, problem="it is suspended"), []
    if sum(podset.count for podset in podsets) > MAX_PARALLELISM:
        return replace(subject, problem=f"more than {MAX_PARALLELISM} pods at a time are not planned"), []
    runs = changed(jobset, spec=changed(jobset.spec, suspend=False))
    carriers, pods = [Carrier(JOB_SET, runs)], list[Pod]()
    nothing_yet = [ReplicatedJobStatus(name=role.name) for role in runs.spec.replicated_jobs]
    for role in find_startable_roles(runs, nothing_yet).roles:
        jobs = list(_make_jobs(runs, role, start))
        carriers += [Carrier(JOB, job) for job in jobs]
        try:
            pods += await _make_pods(lists, role, jobs)
        except ApiError as error:
            return replace(subject, problem=f"pods of {role.name} would be refused: {error}"), []
    together = at_once(runs)
    grouped = bool(together) and not is_one_gang(runs)
    return replace(subject, pods=tuple(pods), together=together, grouped=grouped), carriers


def _make_jobs(jobset: JobSet, role: ReplicatedJob, start: GroupScheduling) -> Iterator[Job]:
    meta, children = jobset.metadata, Children(jobset, start)
    for index in range(role.replicas):
        job = children.job(role, index)
        uid = f"{meta.uid}-{role.name}-{index}"
        yield changed(job, metadata=changed(job.metadata, uid=uid, creation_timestamp=meta.creation_timestamp))


async def _make_pods(lists: Lists, role: ReplicatedJob, jobs: list[Job]) -> list[Pod]:
    """Return the pods of a role that run at the same time, made from one that the server creates as a dry run.

    Their podset label determines which flavors they get. Raises `ApiError`.
    """
    pods: list[Pod] = []
    first: Pod | None = None
    for job in jobs:
        template, indexed = PodTemplate(job), JobTerms.of(job).indexed
        for number in range(pods_of_job(role)):
            pod = template.pod(Creation(number if indexed else None))
            if first is None:
                first = await lists.client.create(POD, pod, job.metadata.namespace, dry_run=True)
            meta = changed(
                pod.metadata,
                name=f"{job.metadata.name}-{number}",
                uid=f"{job.metadata.uid}-{number}",
                creation_timestamp=job.metadata.creation_timestamp,
                labels=pod.metadata.labels | {POD_SET_LABEL: role.name},
            )
            pods.append(changed(first, metadata=meta))
    return pods
