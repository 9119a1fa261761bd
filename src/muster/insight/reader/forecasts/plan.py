"""Read the cluster to forecast what would happen to objects that do not exist yet.

`plan` takes objects in the form in which the server would store them, and returns a forecast for each. It stores
nothing: it creates one pod of each Job as a dry run. `insight.forecasts` makes the forecasts themselves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace as changed

from muster.api.batch import COMPLETION_INDEX, JOB, MAX_PARALLELISM, Job
from muster.api.config import EMBEDDED, Muster, Scheduling
from muster.api.config.configz import CONFIGZ, settings_of
from muster.api.core import NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD_PRIORITY_CLASS, PodSet
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.managed.podgroup import group_name
from muster.api.managed.pods import is_managed
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import bounds_of
from muster.api.status import ApiError, forbidden
from muster.api.values import durations
from muster.api.values.quantity import QuantityError
from muster.controllers.gangs import GangSource, gang_of, starts_together
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.pods.groups import membership_of
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.carrier import Carrier
from muster.insight.forecasts.never import LeastDemand, judge_ask
from muster.insight.forecasts.plan import ObjectPlan, Subject, plan_subjects
from muster.insight.forecasts.quotaplan import QuotaPlan, plan_quota
from muster.insight.forecasts.rehearsal import ClusterReadings
from muster.insight.jobs.state import NeverVerdict
from muster.insight.reader.forecasts.jobsetplan import plan_jobset
from muster.insight.reader.forecasts.room import survey_room
from muster.insight.reader.forecasts.waiting import ADMITTED_BY, snapshot_of
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.views import NODE_LINES
from muster.jobs.job.plan import Creation
from muster.jobs.job.pods import PodTemplate
from muster.jobs.job.terms import JobTerms
from muster.jobs.podgroup.record import NATIVE
from muster.queueing.additions import Completion
from muster.queueing.jobframework.equivalence import remove_repeated_variables
from muster.runtime.client import Client
from muster.runtime.objects import key_of, split_key
from muster.runtime.transport import Request


async def plan(client: Client, stored: Sequence[tuple[Kind[Any], dict[str, Any]]], now: datetime) -> list[ObjectPlan]:
    """Return the forecast for each object.

    stored: the objects in the form in which the server would store them, with their kinds.

    Raises:
        ApiError: the user may not see the nodes or the pods.
    """
    lists = Lists(client)
    native = await lists.of(NATIVE) is not None or any(kind.resource == NATIVE.resource for kind, _ in stored)
    ours = Muster(apis=("scheduling.k8s.io/v1alpha2",) if native else ())  # the engine follows the served dialects
    sources = gang_sources(configuration=changed(EMBEDDED, muster=ours))
    carrying = {kind.resource: kind for source in sources for kind in source.kinds}
    settings = await _read_settings(client)
    carriers, subjects, pods = [], [], []
    for kind, document in stored:
        if kind.resource == JOB.resource:
            job = msgspec.convert(document, Job)
            carriers.append(Carrier(JOB, changed(job, spec=changed(job.spec, suspend=False))))
            subjects.append(await _of_job(lists, job))
        elif kind.resource == JOB_SET.resource:
            subject, jobs = await plan_jobset(lists, msgspec.convert(document, JobSet), settings.group_scheduling)
            carriers += jobs
            subjects.append(replace(subject, priority=await _find_priority(lists, subject)))
        elif kind.resource == POD.resource:
            pods.append(msgspec.convert(document, Pod))
        elif kind.resource in carrying:
            known = carrying[kind.resource]
            carriers.append(Carrier(known, msgspec.convert(document, known.type)))
    subjects += _of_pods(pods, sources, now)
    readings = await _survey(lists, sources, settings.scheduling, now, carriers)
    quotas = await _forecast_quotas(lists, [one for one in subjects if one.queue and not one.problem], now)
    prospects = await _find_prospects(lists, [one for one in subjects if not one.problem])
    return plan_subjects(subjects, quotas, readings, sources, await lists.of(RESOURCE_FLAVOR) or (), prospects)


async def _of_job(lists: Lists, job: Job) -> Subject:
    """Return the nodes and quota that a new Job needs; if no forecast is possible, the result names the problem.

    The server creates one pod as a dry run; copies of it stand for the other pods.
    """
    meta, integration = job.metadata, JobIntegration()
    queue = meta.labels.get(QUEUE_NAME_LABEL, "")
    podsets = tuple(map(remove_repeated_variables, integration.podsets(job)))
    subject = Subject("job.batch", meta, queue=queue, podsets=podsets, together=_at_once(meta, podsets))
    if job.spec.suspend and not queue:
        return replace(subject, problem="it is suspended")
    if subject.podsets[0].count > MAX_PARALLELISM:
        return replace(subject, problem=f"more than {MAX_PARALLELISM} pods at a time are not planned")
    index = 0 if JobTerms.of(job).indexed else None
    try:
        first = await lists.client.create(POD, PodTemplate(job).pod(Creation(index)), meta.namespace, dry_run=True)
    except ApiError as error:
        return replace(subject, problem=f"its pods would be refused: {error}")
    pods = tuple(_copy_pod(first, number, indexed=index is not None) for number in range(subject.podsets[0].count))
    bounds = bounds_of(meta.annotations)
    least = bounds.least if bounds is not None and bounds.least < len(pods) else 0
    subject = replace(subject, pods=pods, least=least)
    return replace(subject, priority=await _find_priority(lists, subject))


def _copy_pod(pod: Pod, number: int, *, indexed: bool) -> Pod:
    meta = pod.metadata
    annotations = meta.annotations | ({COMPLETION_INDEX: str(number)} if indexed else {})
    labels = meta.labels | ({COMPLETION_INDEX: str(number)} if indexed else {})
    name, uid = f"{meta.generate_name}{number}", f"{meta.uid}-{number}"
    return changed(pod, metadata=changed(meta, name=name, uid=uid, annotations=annotations, labels=labels))


async def _find_priority(lists: Lists, subject: Subject) -> int:
    """Return a job's priority in the queue: the value of the class that it names, or else the highest of its pods."""
    named = subject.meta.labels.get(PRIORITY_CLASS_LABEL, "")
    classes = await lists.of(WORKLOAD_PRIORITY_CLASS) or () if named else ()
    of_pods = max((pod.spec.priority or 0 for pod in subject.pods), default=0)
    return next((one.value for one in classes if one.metadata.name == named), of_pods)


def _of_pods(pods: Iterable[Pod], sources: Sequence[GangSource[Any]], now: datetime) -> list[Subject]:
    """Return the planned objects that pods stand for: one for each gang or queued group, and one for each other pod."""
    gangs: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        key, source = gang_of(pod, sources)
        queued = group_name(pod.metadata) if is_managed(pod.metadata) else ""
        name = queued or (split_key(split_key(key)[0])[1] if source is not None else "")
        gangs.setdefault((name, f"{pod.metadata.namespace}/{name}" if name else key), []).append(pod)
    return [_of_gang(name, members, now) for (name, _), members in gangs.items()]


def _of_gang(name: str, pods: Sequence[Pod], now: datetime) -> Subject:
    first = pods[0]
    meta = changed(first.metadata, name=name or first.metadata.name)
    subject = Subject("podgroup" if name else "pod", meta, tuple(pods), priority=first.spec.priority or 0)
    if not is_managed(first.metadata):
        return subject
    try:
        membership = membership_of(group_name(first.metadata), pods, None, now)
    except QuantityError as error:
        return replace(subject, problem=str(error))
    queue = first.metadata.labels.get(QUEUE_NAME_LABEL, "")
    podsets = tuple(map(remove_repeated_variables, membership.group.podsets))
    together = _at_once(first.metadata, podsets)
    return replace(subject, queue=queue, podsets=podsets, problem=membership.complaint, together=together)


def _at_once(meta: ObjectMeta, podsets: Iterable[PodSet]) -> frozenset[str]:
    """Return the names of the podsets that start together: all of them, or none if pods may start one by one."""
    return frozenset(one.name for one in podsets) if starts_together(meta) else frozenset()


async def _survey(
    lists: Lists,
    sources: Iterable[GangSource[Any]],
    settings: Scheduling,
    now: datetime,
    carriers: Sequence[Carrier],
) -> ClusterReadings:
    """Read the nodes, pods and other objects on which placement depends.

    Raises `ApiError` if the user may not see all nodes and pods, so that no forecast is possible.
    """
    nodes, pods = await lists.of(NODE_LINES), await lists.of(POD)
    if nodes is None or pods is None:
        await snapshot_of(lists, Completion())
        raise forbidden(f"nothing can be planned: {lists.describe_lacking(NODE_LINES, POD, *ADMITTED_BY)}")
    all_carriers = list(carriers)
    for source in sources:
        for kind in source.kinds:
            all_carriers += [Carrier(kind, obj) for obj in await lists.of(kind) or ()]
    return ClusterReadings(
        now=now,
        nodes=nodes,
        pods=pods,
        carriers=all_carriers,
        namespaces=await lists.of(NAMESPACE) or (),
        claims=await lists.of(PERSISTENT_VOLUME_CLAIM) or (),
        volumes=await lists.of(PERSISTENT_VOLUME) or (),
        budgets=await lists.of(POD_DISRUPTION_BUDGET) or (),
        settings=settings,
    )


async def _read_settings(client: Client) -> Muster:
    """Return the settings of the server; the defaults if the server does not report them."""
    try:
        return settings_of(msgspec.json.decode((await client.raw(Request("GET", CONFIGZ))).body))
    except (ApiError, msgspec.MsgspecError, durations.DurationError):
        return Muster()


async def _find_prospects(lists: Lists, subjects: Sequence[Subject]) -> dict[str, NeverVerdict]:
    """Return, by UID, the verdict whether each subject could ever start with its minimum number of pods."""
    if not subjects:
        return {}
    room = await survey_room(lists, subjects[0].meta.namespace)
    verdicts = {}
    for subject in subjects:
        least_counts = (
            min(podset.count, subject.least or podset.min_count or podset.count) for podset in subject.podsets
        )
        ask = LeastDemand(tuple(zip(subject.podsets, least_counts, strict=True)), subject.together)
        verdicts[subject.meta.uid] = judge_ask(ask, room, subject.meta.namespace, subject.queue)
    return verdicts


async def _forecast_quotas(lists: Lists, subjects: Sequence[Subject], now: datetime) -> dict[str, QuotaPlan]:
    """Return, by UID, the forecast of each subject's quota, as if all subjects were created at once and competed."""
    if not subjects:
        return {}
    planned = {}
    for one in subjects:
        planned[one.meta.uid] = (await lists.completion(one.meta.namespace)).workload(one.workload)
    snapshot = await snapshot_of(lists, await lists.completion(subjects[0].meta.namespace))
    if snapshot is None:
        reason = lists.describe_lacking(*ADMITTED_BY)
        return {one.meta.uid: QuotaPlan(one.queue, "", "waits", reason=reason) for one in subjects}
    behind = {key_of(queue): queue.spec.cluster_queue for queue in await lists.of(LOCAL_QUEUE) or ()}
    snapshot = replace(snapshot, workloads=[*snapshot.workloads, *planned.values()])
    return {
        uid: plan_quota(
            snapshot, workload, behind.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}", ""), now
        )
        for uid, workload in planned.items()
    }
