"""Provide the template of each job: of its source of work, or made for the pods that a trace defines. Pure."""

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api import kueue
from muster.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    ResourceRequirements,
)
from muster.api.ours.users import short_user
from muster.api.values.quantity import ResourceList, format_amount
from muster.gang.order.ends import CENTURY, EndTime
from muster.queueing.model import PodSet, WorkloadInfo
from muster.simulation.engine.site import JobTemplate
from muster.simulation.scenario.arrivals import Submission
from muster.simulation.scenario.logs.jobs import Role

# The maximum number of cached templates of traced jobs, because a log may have more kinds of jobs than fit into memory.
_MOST_KEPT = 20_000


class KnownTemplate(Struct, frozen=True):
    """A template in the form that decisions read.

    key: a key that is equal for templates with equal pods.
    base: the workload of its jobs, without name and queue.
    """

    key: Hashable
    template: JobTemplate
    base: WorkloadInfo


class Templates:
    """The templates of the jobs of all sources of work, by the source's index."""

    def __init__(self, templates: Sequence[JobTemplate], convert: Callable[[JobTemplate], WorkloadInfo]) -> None:
        self._convert = convert
        self._of_works = [KnownTemplate(number, one, convert(one)) for number, one in enumerate(templates)]
        self._of_roles: dict[tuple[int, tuple[Role, ...]], KnownTemplate] = {}

    def find(self, submission: Submission) -> KnownTemplate:
        """Return the template of a job: its source's template, with the pods of its roles if a log defines roles."""
        of_work = self._of_works[submission.work]
        if not submission.roles:
            return of_work
        key = submission.work, submission.roles
        known = self._of_roles.get(key)
        if known is None:
            if len(self._of_roles) >= _MOST_KEPT:
                self._of_roles.clear()
            template = make_template(of_work.template, submission.roles)
            known = self._of_roles[key] = KnownTemplate(key, template, self._convert(template))
        return known


def make_template(template: JobTemplate, roles: Sequence[Role]) -> JobTemplate:
    """Return a template with one podset per role, otherwise equal to the first podset of `template`."""
    workload = template.workload
    first = workload.spec.pod_sets[0]
    podsets = tuple(
        _make_podset(first, first.name if number == 0 else f"{first.name}-{number}", role)
        for number, role in enumerate(roles)
    )
    return replace(template, workload=replace(workload, spec=replace(workload.spec, pod_sets=podsets)))


def _make_podset(podset: kueue.PodSet, name: str, role: Role) -> kueue.PodSet:
    spec = podset.template.spec
    if role.requests is not None:
        spec = _replace_requests(spec, role.requests)
    spec = _select(spec, role)
    return replace(podset, name=name, count=role.pods, template=replace(podset.template, spec=spec))


def _replace_requests(spec: PodSpec, requests: Sequence[tuple[str, int]]) -> PodSpec:
    """Return a pod spec whose only container requests exactly these amounts, in the units of decisions."""
    amounts: ResourceList = {resource: format_amount(resource, amount) for resource, amount in requests}
    container = replace(spec.containers[0], resources=ResourceRequirements(requests=amounts))
    return replace(spec, containers=(container,), init_containers=(), overhead={}, resources=None)


def _select(spec: PodSpec, role: Role) -> PodSpec:
    """Return a pod spec that only runs on nodes with the labels that a role allows."""
    alone = {label: values[0] for label, values in role.labels if len(values) == 1}
    any_of = [
        NodeSelectorRequirement(key=label, operator="In", values=values)
        for label, values in role.labels
        if len(values) != 1
    ]
    spec = replace(spec, node_selector=spec.node_selector | alone)
    if not any_of:
        return spec
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    required = node_affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required is not None else (NodeSelectorTerm(),)
    narrowed = tuple(replace(term, match_expressions=(*term.match_expressions, *any_of)) for term in terms)
    node_affinity = replace(
        node_affinity,
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=narrowed),
    )
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def make_workload(
    known: KnownTemplate, submission: Submission, key: str, queue: str, local: str, created: datetime
) -> WorkloadInfo:
    """Return the workload of a job that has not been queued yet.

    queue, local: the names of its ClusterQueue and LocalQueue.
    """
    base, podsets = known.base, known.base.podsets
    if submission.size is not None:
        podsets = (_resize(podsets[0], submission.size), *podsets[1:])
    if submission.gang is not None:
        podsets = (_resize(replace(podsets[0], least=submission.gang), podsets[0].count), *podsets[1:])
    return replace(
        base,
        key=key,
        uid=key,
        queue=queue,
        local_queue=local,
        priority=base.priority if submission.priority is None else submission.priority,
        created=created,
        queued=created,
        podsets=podsets,
        owner=short_user(submission.user),
    )


def _resize(podset: PodSet, count: int) -> PodSet:
    """Return a podset with this number of pods. It may still start with fewer, if its template allows that."""
    return replace(podset, count=count, least=None if podset.least is None or podset.least >= count else podset.least)


def find_local_queue(name: str, template: JobTemplate) -> str:
    """Return the LocalQueue of a job, as `namespace/name`.

    name: the job's own LocalQueue; "" for the LocalQueue of its template.
    """
    if not name:
        return template.local_queue
    return name if "/" in name else f"{template.workload.metadata.namespace}/{name}"


def find_end(submission: Submission, template: JobTemplate) -> EndTime | None:
    """Return when a job ends by its own limit, or else by its template, in seconds from its start; None if unknown.

    A limit of more than a century counts as no limit, as in a cluster.
    """
    if submission.limit is None:
        return template.end
    return EndTime(submission.limit, is_enforced=True) if submission.limit < CENTURY else None
