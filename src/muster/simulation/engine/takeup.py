"""Read the running and waiting jobs of the recorded cluster state from which a simulation starts.

A running job continues for the time that the scenario draws, else until its expected end, else until its time limit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import Job
from muster.api.conditions import find_true
from muster.api.core import NODE, Pod, PodTemplateSpec
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kueue import PodSet as WorkloadPodSet
from muster.api.kueue import Workload, WorkloadSpec
from muster.api.kueue.names import ADMITTED
from muster.api.managed.variants import is_variant
from muster.api.meta import ObjectMeta, controller_of
from muster.api.ours.elastic import Bounds
from muster.api.pods import is_finished, job_of
from muster.api.validation.kueue.workload import validate_create
from muster.api.values.quantity import QuantityError
from muster.api.values.selectors import SelectorError
from muster.gang.order.ends import EndTime, end_of
from muster.gang.shapes import Shape, shape_of
from muster.insight.quota.state import display_name, owner_uids
from muster.queueing import convert
from muster.queueing.devices import devices_by_status
from muster.queueing.model import WorkloadInfo
from muster.queueing.moments import NEVER
from muster.queueing.workload.place import Holds, Waits, place_of
from muster.runtime.objects import key_of
from muster.simulation.engine.gangterms import GangTermsError, find_bounds, find_end
from muster.simulation.engine.site import JobTemplate, Site, admit_pod
from muster.simulation.engine.templates import KnownTemplate
from muster.simulation.scenario.draws import Draw, DrawError, make_draw, parse_seconds
from muster.simulation.scenario.reading import STATE_WORK, Reading, list_state_values
from muster.simulation.scenario.state import ClusterState

# The maximum number of jobs that an error names.
_NAMED = 3


class UnreadableJobError(ValueError):
    """An invalid job or pod in the state from which a simulation starts."""


class UnknownEndError(ValueError):
    """Jobs with an unknown run time.

    field: the field of the scenario that could set it.
    """

    def __init__(self, field: str, names: Sequence[str]) -> None:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        jobs = f"{', '.join(names[:_NAMED])}{more}"
        super().__init__(f"is needed, such as 10m: there is neither a time limit nor an expected duration of {jobs}")
        self.field = field


class Durations(Struct, frozen=True):
    """Functions that draw the run times of a state's jobs; None if the scenario does not define them.

    remaining: draws the remaining run time of a running job.
    run_time: draws the run time of a waiting job.
    """

    remaining: Callable[[], float] | None = None
    run_time: Callable[[], float] | None = None


class TakenJob(Struct, frozen=True):
    """A job of the cluster from which a simulation starts. Times are seconds from the start of the scenario.

    started: the start time; None if it has no pod on a node yet.
    nodes: the number of pods of each shape on each node.
    flavors: the flavors of its podsets, if it holds quota.
    until: the time until which it backs off, if it waits.
    """

    name: str
    known: KnownTemplate
    workload: WorkloadInfo
    created: float
    run_time: float
    started: float | None
    nodes: Mapping[Shape, tuple[tuple[str, int], ...]]
    flavors: tuple[tuple[str, ...], ...] | None
    until: datetime | None = None


class Residents(Struct, frozen=True):
    """The jobs of the cluster from which a simulation starts, and the pods without a job, which stay.

    gone: the nodes on which jobs run, but which do not exist.
    """

    jobs: tuple[TakenJob, ...]
    pods: tuple[Pod, ...]
    gone: tuple[str, ...] = ()


def read_residents(reading: Reading, site: Site, settings: convert.ConversionSettings) -> Residents:
    """Return the jobs in the state of a scenario.

    Raises:
        ScenarioError: they cannot be simulated.
    """
    assert reading.state is not None, "the scenario has a state"
    try:
        residents = take_up(reading.state, site, settings, _make_durations(reading))
    except UnknownEndError as error:
        raise reading.source.error(f"spec.state.{error.field}", str(error)) from None
    except UnreadableJobError as error:
        raise reading.source.error("spec.state", str(error)) from None
    # A snapshot without nodes does not say which of them exist.
    return residents if NODE.resource in reading.state.missing else replace(residents, gone=_list_gone(residents, site))


def _list_gone(residents: Residents, site: Site) -> tuple[str, ...]:
    known = {node.metadata.name for node in site.nodes}
    used = {node for job in residents.jobs for stays in job.nodes.values() for node, _ in stays}
    return tuple(sorted(used - known))


def _make_durations(reading: Reading) -> Durations:
    """Return the functions that draw the run times of the state's jobs. Raises `ScenarioError`."""
    random = Random(f"{reading.scenario.spec.seed}/{STATE_WORK}")
    draws: dict[str, Callable[[], float] | None] = {}
    for field, value in list_state_values(reading.scenario).items():
        try:
            draw = None if value is None else make_draw(value, parse_seconds, reading.samples)
        except DrawError as error:
            raise reading.source.error(f"spec.state.{field}{error.path}", error.why) from None
        draws[field] = None if draw is None else partial(_draw_seconds, draw, random)
    return Durations(draws["remaining"], draws["runTime"])


def _draw_seconds(draw: Draw, random: Random) -> float:
    return max(0.0, draw(random))


def take_up(state: ClusterState, site: Site, settings: convert.ConversionSettings, durations: Durations) -> Residents:
    """Return the jobs of a cluster in the order in which they were submitted.

    Raises:
        UnknownEndError: the scenario has to define the run time of some jobs.
        UnreadableJobError: a job or pod is invalid.
    """
    reader = _Reader(state, site, settings)
    jobs = sorted((*reader.read_workloads(), *reader.read_jobs()), key=lambda one: (one.created, one.name))
    for field, running, draw in (("remaining", True, durations.remaining), ("runTime", False, durations.run_time)):
        unknown = [one.name for one in jobs if (one.started is not None) is running and one.known.template.end is None]
        if unknown and draw is None:
            raise UnknownEndError(field, unknown)
    return Residents(tuple(_set_run_time(one, durations) for one in jobs), tuple(reader.read_others()))


def _set_run_time(job: TakenJob, durations: Durations) -> TakenJob:
    end, elapsed = job.known.template.end, 0.0 if job.started is None else -job.started
    draw = durations.run_time if job.started is None else durations.remaining
    if draw is not None:
        return replace(job, run_time=elapsed + draw())
    assert end is not None, "a job without any end needs a draw"
    return replace(job, run_time=max(elapsed, end.at))


class _Reader:
    """A reader of the jobs in a state."""

    def __init__(self, state: ClusterState, site: Site, settings: convert.ConversionSettings) -> None:
        self._state, self._site, self._settings = state, site, settings
        self._local = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._sources: dict[str, Job | JobSet] = {one.metadata.uid: one for one in state.job_sets}
        self._sources |= {one.metadata.uid: one for one in state.jobs if not _is_part(one)}
        self._pods: dict[str, list[Pod]] = {}  # pods on nodes and pods to be created, by the UID of their job
        for pod in state.pods:
            if not is_finished(pod):
                self._pods.setdefault(job_of(pod)[0], []).append(pod)
        self._owned: set[str] = set()

    def read_workloads(self) -> Iterator[TakenJob]:
        """Yield the jobs that have a Workload that holds quota or waits for it, and remember these jobs.

        Raises `UnreadableJobError` if a Workload or its job is invalid.
        """
        for workload in self._state.workloads:
            uids = owner_uids(workload)
            self._owned |= uids
            place = place_of(workload)
            if place is None or is_variant(workload):
                continue
            pods = [pod for uid in sorted(uids) for pod in self._pods.get(uid, ())]
            with _name_in_errors("Workload", workload.metadata):
                _require_valid(workload)
                job = self._read_workload(workload, uids, place, pods)
            yield job

    def _read_workload(
        self, workload: Workload, uids: Iterable[str], place: Holds | Waits, pods: Sequence[Pod]
    ) -> TakenJob:
        local = f"{workload.metadata.namespace}/{workload.spec.queue_name}"
        # without its LocalQueue, the job waits in a queue of that name, which no ClusterQueue has
        info = convert.convert_workload(
            workload, self._local.get(local, local), self._settings, devices_by_status(workload)
        )
        sources = [self._sources[uid] for uid in uids if uid in self._sources]
        own = end_of(workload.metadata, workload.spec.maximum_execution_time_seconds, started=0.0)
        ends = [end for end in (own, *map(find_end, sources)) if end is not None]
        template = self._make_template(workload, local, min(ends, key=_get_end_time, default=None), sources)
        started = _find_start(pods)
        if isinstance(place, Holds) and not self._site.nodes and started is None:
            admitted = find_true(workload.status.conditions, ADMITTED)
            started = admitted.last_transition_time if admitted is not None else None
        name = display_name(workload.metadata, workload.metadata.namespace)
        return self._make(name, template, info, started, pods, place)

    def read_jobs(self) -> Iterator[TakenJob]:
        """Yield the Jobs and JobSets with pods but without a Workload, which need no quota.

        Raises `UnreadableJobError`.
        """
        for uid, pods in self._pods.items():
            source = self._sources.get(uid)
            if uid in self._owned or source is None:
                continue
            with _name_in_errors("the pods of", source.metadata):
                job = self._read_job(source, pods)
            yield job

    def _read_job(self, source: Job | JobSet, pods: Sequence[Pod]) -> TakenJob:
        meta = source.metadata
        podsets = tuple(
            WorkloadPodSet(name=f"pods-{number}", template=_make_template(some[0]), count=len(some))
            for number, some in enumerate(_group_alike(pods))
        )
        own = ObjectMeta(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, creation_timestamp=meta.creation_timestamp
        )
        workload = Workload(metadata=own, spec=WorkloadSpec(pod_sets=podsets))
        template = self._make_template(workload, "", find_end(source), (source,))
        info = convert.convert_workload(workload, "", self._settings)
        return self._make(meta.name, template, info, _find_start(pods), pods, None)

    def read_others(self) -> Iterator[Pod]:
        """Yield the pods on nodes that belong to no job."""
        for uid, pods in self._pods.items():
            if uid not in self._owned and uid not in self._sources:
                yield from (pod for pod in pods if pod.spec.node_name)

    def _make(
        self,
        name: str,
        template: JobTemplate,
        info: WorkloadInfo,
        started: datetime | None,
        pods: Sequence[Pod],
        place: Holds | Waits | None,
    ) -> TakenJob:
        """Return a job of the recorded state.

        started: when the job started; None if it has not.
        place: whether the job's Workload holds or waits for quota; None for neither.
        """
        admission = template.workload.status.admission if isinstance(place, Holds) else None
        flavors = None
        if admission is not None:
            by_name = {one.name: tuple(sorted(set(one.flavors.values()))) for one in admission.pod_set_assignments}
            flavors = tuple(by_name.get(podset.name, ()) for podset in info.podsets)
        created = self._find_seconds(info.created)
        return TakenJob(
            name,
            KnownTemplate(("state", info.uid), template, info),
            info,
            created,
            0.0,
            # a node reports the start of a pod by the node's clock, in whole seconds
            None if started is None else min(0.0, max(created, self._find_seconds(started))),
            _place_pods(pods),
            flavors,
            _find_wake(place),
        )

    def _find_seconds(self, moment: datetime) -> float:
        return (moment - self._state.at).total_seconds()

    def _make_template(
        self, workload: Workload, local: str, end: EndTime | None, sources: Sequence[Job | JobSet]
    ) -> JobTemplate:
        pods = tuple(admit_pod(one.template, self._site.pod_classes) for one in workload.spec.pod_sets)
        bounds = next((its for one in sources if (its := _find_bounds(one)) is not None), None)
        return JobTemplate(workload, local, end, pods, bounds=bounds)


def _find_bounds(job: Job | JobSet) -> Bounds | None:
    """Return the sizes between which the engine resizes a job of the state; None if its annotation is invalid."""
    try:
        return find_bounds(job)
    except GangTermsError:
        return None


@contextmanager
def _name_in_errors(kind: str, meta: ObjectMeta) -> Iterator[None]:
    """Re-raise an error about a value inside the `with` block as an `UnreadableJobError` that names the object."""
    try:
        yield
    except (QuantityError, SelectorError) as error:
        raise UnreadableJobError(f"{kind} {meta.namespace}/{meta.name}: {error}") from None


def _require_valid(workload: Workload) -> None:
    errors = validate_create(workload)
    counts = [podset.count for podset in workload.spec.pod_sets]
    if errors or min(counts, default=-1) < 0:
        why = str(errors[0]) if errors else "has no pods, or fewer than none"
        raise UnreadableJobError(f"Workload {workload.metadata.namespace}/{workload.metadata.name}: {why}")


def _is_part(job: Job) -> bool:
    """Return whether a Job belongs to a JobSet."""
    above = controller_of(job.metadata)
    return above is not None and JOB_SET.is_of(above)


def _find_wake(place: Holds | Waits | None) -> datetime | None:
    """Return when a waiting job may be tried; None for immediately.

    A job that is being evicted may be tried immediately, because its pods end soon.
    """
    if not isinstance(place, Waits) or place.expected == NEVER:
        return None
    return place.expected


def _get_end_time(end: EndTime) -> float:
    return end.at


def _find_start(pods: Iterable[Pod]) -> datetime | None:
    """Return when the first pod on a node started; None if no pod is on a node."""
    bound = [pod for pod in pods if pod.spec.node_name]
    moments = [pod.status.start_time or pod.metadata.creation_timestamp for pod in bound]
    return min((moment for moment in moments if moment is not None), default=None)


def _place_pods(pods: Iterable[Pod]) -> dict[Shape, tuple[tuple[str, int], ...]]:
    nodes: dict[Shape, Counter[str]] = {}
    for pod in pods:
        if pod.spec.node_name:
            nodes.setdefault(shape_of(pod), Counter())[pod.spec.node_name] += 1
    return {shape: tuple(sorted(counts.items())) for shape, counts in nodes.items()}


def _group_alike(pods: Iterable[Pod]) -> list[list[Pod]]:
    groups: dict[Shape, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(shape_of(pod), []).append(pod)
    return list(groups.values())


def _make_template(pod: Pod) -> PodTemplateSpec:
    return PodTemplateSpec(metadata=pod.metadata, spec=replace(pod.spec, node_name=""))
