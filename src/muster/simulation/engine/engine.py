"""Decide for one cluster in virtual time, with the decisions of admission and of the scheduler.

An event is a job that comes or ends. After the events of one moment the admission cycle runs until it finds nothing
more to decide. A job that it admits asks for nodes; a job that it preempts goes back to its queue at once.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from datetime import timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import Pod
from muster.api.kueue.clusterqueue import STOP_NONE
from muster.api.ours.teams import NOT_A_USER
from muster.api.ours.users import short_user
from muster.controllers.queueing.cache import ON_DEMAND
from muster.gang.order.ends import End
from muster.gang.placement import Placement
from muster.gang.shapes import Shape, shape_of
from muster.insight.forecasts.forecast import build_quota_tree
from muster.queueing import convert
from muster.queueing.model import Assignment, PodSet, WorkloadInfo
from muster.queueing.pending.queues import Queues
from muster.queueing.scheduling import cycle
from muster.queueing.scheduling.estimate import RunTime
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.runtimes import PastRun, PastRuns, Traits
from muster.runtime.objects import key_of
from muster.simulation.engine.agenda import Agenda, Rank
from muster.simulation.engine.forecasting import Forecaster
from muster.simulation.engine.machines import GangAsk, Machines, make_standing
from muster.simulation.engine.site import JobTemplate, Site
from muster.simulation.engine.takeup import Residents, TakenJob
from muster.simulation.engine.templates import KnownTemplate, Templates, find_local_queue
from muster.simulation.outcome.record import Record, Waiting
from muster.simulation.scenario.arrivals import Submission
from muster.simulation.scenario.model import Spec

# The reasons of jobs that wait for ever: in a simulation, nobody changes a queue.
_HOPELESS = frozenset(("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Suspended", NOT_A_USER))
# The digits of the numbers of jobs in their keys.
_DIGITS = 12

# How many shapes of pods are kept.
_MOST_SHAPES = 50_000


class _Job(Struct):
    """A job that has not ended.

    end: when it ends at the latest, from its start. started: since when it runs; None while it waits. starts: how often
    it has started, by which an end knows its start.
    """

    number: int
    submission: Submission
    known: KnownTemplate
    workload: WorkloadInfo
    end: End | None
    started: float | None = None
    starts: int = 0


class Engine:
    """A cluster in virtual time. Times are seconds from the start of the scenario.

    record: what became of the jobs so far. The record and the agenda are those of a `World`, which clusters share.
    """

    def __init__(self, spec: Spec, site: Site, configuration: Configuration, agenda: Agenda, record: Record) -> None:
        self.record = record
        self._agenda = agenda
        self._scope = ""  # what comes before the names of its queues in the record
        self._start = spec.start
        self._reading = convert.ConversionSettings.of(configuration)
        self._local = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._tree = build_quota_tree(site.cluster_queues, site.cohorts)
        self._flavors = {one.metadata.name: convert.flavor_spec(one) for one in site.flavors}
        self._queues = Queues()
        self._settings = cycle.AdmissionSettings(
            fair=_find_fairness(site, configuration),
            ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        )
        for namespace in site.namespaces:
            self._queues.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for local in site.local_queues:
            self._queues.stop_local(key_of(local), stopped=local.spec.stop_policy != STOP_NONE)
        for node in self._tree.queues.values():
            self._queues.set_queue(node.policy)
        overtakings = configuration.muster.scheduling.overtakings
        self._machines = Machines(site.nodes, overtakings) if site.nodes or spec.nodes else None
        self._past = PastRuns()
        self._forecaster = Forecaster(spec.forecasts, self._flavors, self._settings, self._run_time)
        self._fresh: list[_Job] = []  # that came at this moment
        self._jobs: dict[str, _Job] = {}  # that have not ended, by key
        self._templates = Templates([site.templates[work.name] for work in spec.work], self._convert)
        # The shapes of pods, by the key of their template, the number of their podset, and their flavors.
        self._shapes: dict[tuple[Hashable, int, tuple[str, ...]], Shape] = {}

    def take_up(self, residents: Residents) -> None:
        """Start with the jobs and pods of a cluster."""
        if self._machines is not None:
            for pod in residents.pods:
                self._machines.settle_pod(pod)
        for one in residents.jobs:
            self._take_up_job(one)
        self._agenda.plan(0.0, Rank.ARRIVAL, lambda: None)  # a moment to decide in

    def _take_up_job(self, taken: TakenJob) -> None:
        workload, template = taken.workload, taken.known.template
        submission = Submission(taken.created, len(self.record.works) - 1, taken.name, taken.run_time, None)
        pods = sum(podset.count for podset in workload.podsets)
        number = self.record.submit(
            taken.name, submission.work, workload.queue, pods, workload.priority, taken.created, taken.run_time
        )
        job = self._jobs[workload.key] = _Job(number, submission, taken.known, workload, template.end)
        if taken.flavors is not None and workload.queue in self._tree.queues:
            self._tree.hold(workload)
            self._note_use(workload, 1)
        elif workload.queue:
            self._queues.add(workload, until=taken.until)
            if taken.until is not None:
                wake = max(0.0, (taken.until - self._start).total_seconds())
                self._agenda.plan(wake, Rank.ARRIVAL, partial(self._queues.advance, taken.until))
            return
        if taken.started is not None:
            if self._machines is not None:
                shapes = {shape: sum(count for _, count in nodes) for shape, nodes in taken.nodes.items()}
                started = self._start.timestamp() + taken.started
                self._machines.take_up(self._make_ask(job, shapes), Placement(taken.nodes), started)
            self._begin(job, taken.started)
        elif self._machines is None:
            self._begin(job)
        else:
            counts: Counter[Shape] = Counter()
            for index, podset in enumerate(workload.podsets):
                counts[self._shape(job, index, () if taken.flavors is None else taken.flavors[index])] += podset.count
            if self._machines.ask(self._make_ask(job, counts), self._epoch):
                self._begin(job)

    def _convert(self, template: JobTemplate) -> WorkloadInfo:
        queue = self._local.get(template.local_queue, "")
        return convert.workload(template.workload, queue, self._reading)

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield the jobs that have not started, and why."""
        lacking: dict[Hashable, bool] = {}  # whether jobs with these pods lack nodes, of which there may be many
        for job in self._jobs.values():
            if job.started is None:
                yield self._explain(job, lacking)

    def _explain(self, job: _Job, lacking: dict[Hashable, bool]) -> Waiting:
        """Return why a job has not started. lacking: the answers of `_lacks_nodes` so far."""
        why = self._queues.why(job.workload.key) if job.workload.queue else None
        if why is not None:
            return Waiting(job.submission.name, why.message, never=why.reason in _HOPELESS)
        if job.workload.key in self._queues:
            return Waiting(job.submission.name, "other jobs of its queue come first", never=False)
        never = self._lacks_nodes(job, lacking)
        return Waiting(job.submission.name, "the nodes have no room for it", never=never)

    def _lacks_nodes(self, job: _Job, known: dict[Hashable, bool]) -> bool:
        """Return whether the pods of a job would not fit even if nothing else ran. known: the answers so far."""
        if self._machines is None:
            return False
        shapes = self._count_shapes(job, None)
        key = frozenset(shapes.items())
        if key not in known:
            known[key] = not self._machines.takes_ever(shapes)
        return known[key]

    # Events.

    def submit(self, submission: Submission) -> None:
        """Add a job, which queues or asks for nodes."""
        known = self._templates.find(submission)
        template, base = known.template, known.base
        local = find_local_queue(submission.local_queue, template)
        namespace = local.partition("/")[0] or template.workload.metadata.namespace
        key = f"{namespace}/{len(self.record):0{_DIGITS}}"  # of jobs that come at once, the first one listed is first
        created = self._start + timedelta(seconds=submission.at)
        podsets = base.podsets
        if submission.size is not None:
            podsets = (_resize(podsets[0], submission.size), *podsets[1:])
        if submission.gang is not None:
            podsets = (_resize(replace(podsets[0], least=submission.gang), podsets[0].count), *podsets[1:])
        workload = replace(
            base,
            key=key,
            uid=key,
            queue=self._local.get(local, ""),
            local_queue=local,
            priority=base.priority if submission.priority is None else submission.priority,
            created=created,
            queued=created,
            podsets=podsets,
            owner=short_user(submission.user),
        )
        pods = sum(podset.count for podset in podsets)
        number = self.record.submit(
            submission.name,
            submission.work,
            workload.queue,
            pods,
            workload.priority,
            submission.at,
            submission.run_time,
        )
        end = template.end if submission.limit is None else End(submission.limit, sure=True)
        job = self._jobs[key] = _Job(number, submission, known, workload, end)
        self._fresh.append(job)
        if workload.queue:
            self._queues.add(workload)
        else:
            self._place(job, None)

    def _end(self, key: str, starts: int) -> None:
        job = self._jobs.get(key)
        if job is None or job.starts != starts or job.started is None:
            return  # it was evicted meanwhile
        del self._jobs[key]
        self._past.add(_find_traits(job), PastRun(timedelta(seconds=self.record.now - job.started), _find_limit(job)))
        self._note_end(job)
        if self._machines is not None:
            self._machines.free(key)
        if job.workload.queue:
            self._release(job.workload)
            self._queues.forgive(self._tree.queues[job.workload.queue])

    def settle(self) -> None:
        """Decide until there is nothing to decide at this moment."""
        now = self._start + timedelta(seconds=self.record.now)
        while True:
            if self._machines is not None:
                for key in self._machines.sweep(self._epoch):
                    self._begin(self._jobs[key])
            if not self._queues.untried:
                return
            self._apply(cycle.run(self._tree, self._queues, self._flavors, self._settings, now))

    def forecast(self) -> None:
        """Forecast the starts of the jobs that came at this moment."""
        now = self._start + timedelta(seconds=self.record.now)
        for job in self._fresh:
            key, queue = job.workload.key, job.workload.queue
            wait: float | None = None
            if job.started is not None:
                wait = 0.0
            elif key in self._queues:
                wait = self._forecaster.forecast(self._tree, self._queues, key, queue, now)
            if wait is not None:
                self.record.forecast(job.number, wait)
        self._fresh.clear()

    def _run_time(self, key: str) -> RunTime:
        """Return what is known of the run time of a job before it has ended."""
        job = self._jobs[key]
        limit = _find_limit(job)
        expected = None if job.end is None or job.end.sure else timedelta(seconds=job.end.at)
        return RunTime(limit, self._past.find(_find_traits(job), limit), expected)

    def _apply(self, outcome: cycle.Outcome) -> None:
        for admission in outcome.admitted:
            job = self._jobs[admission.workload.key]
            job.workload = admission.workload
            self._note_use(admission.workload, 1)
            self._grant(job, admission.assignment)
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                self._evict(self._jobs[victim.workload.key])

    def _evict(self, job: _Job) -> None:
        """Take the quota and the nodes of a job, which goes back to its queue and starts anew."""
        if self._tree.holder(job.workload.key) is None:
            return  # it is a victim of two
        ran = 0.0 if job.started is None else self.record.now - job.started
        self._note_eviction(job, ran)
        job.started = None
        if self._machines is not None:
            self._machines.free(job.workload.key)
        self._release(job.workload)
        job.workload = replace(job.workload, usage=None, reserved=None, admitted=False)
        self._queues.add(job.workload)

    # What becomes of jobs: the clusters of a MultiKueue do more.

    def _grant(self, job: _Job, assignment: Assignment) -> None:
        """Let a job go on that has got quota."""
        self._place(job, assignment)

    def _note_end(self, job: _Job) -> None:
        self.record.end(job.number, self.record.now)

    def _note_eviction(self, job: _Job, ran: float) -> None:
        self.record.evict(job.number, ran)

    # What jobs hold.

    def _release(self, workload: WorkloadInfo) -> None:
        self._note_use(workload, -1)
        self._tree.release(workload)
        self._queues.flush(self._tree.queues[workload.queue], workload.usage)

    def _note_use(self, workload: WorkloadInfo, sign: int) -> None:
        for (flavor, resource), amount in (workload.usage or {}).items():
            self.record.change(self.record.now, self._scope + workload.queue, flavor, resource, sign * amount)

    def _place(self, job: _Job, assignment: Assignment | None) -> None:
        """Let a job run, once there are nodes for it. assignment: what its queue gave it."""
        if self._machines is None:
            self._begin(job)
            return
        shapes = self._count_shapes(job, assignment)
        if self._machines.ask(self._make_ask(job, shapes), self._epoch):
            self._begin(job)

    def _count_shapes(self, job: _Job, assignment: Assignment | None) -> Mapping[Shape, int]:
        shapes: Counter[Shape] = Counter()
        for number, podset in enumerate(job.workload.podsets):
            given = assignment.podsets[number] if assignment is not None else None
            flavors = sorted({choice.flavor for choice in given.flavors.values()}) if given is not None else ()
            shapes[self._shape(job, number, tuple(flavors))] += given.count if given is not None else podset.count
        return shapes

    def _make_ask(self, job: _Job, shapes: Mapping[Shape, int]) -> GangAsk:
        tenant = job.workload.queue or job.workload.namespace
        # The job makes its pods once it is admitted; the scheduler goes by the age of pods.
        standing = make_standing(job.known.template.pod_priority, tenant, self._epoch)
        return GangAsk.of(job.workload.key, standing, shapes, job.end)

    def _shape(self, job: _Job, number: int, flavors: tuple[str, ...]) -> Shape:
        """Return the shape of the pods of a podset, with the labels and tolerations of the flavors that it got."""
        known = self._shapes.get((job.known.key, number, flavors))
        if known is None:
            template = job.known.template.workload.spec.pod_sets[number].template
            given = [self._flavors[name] for name in flavors]
            labels = {key: value for flavor in given for key, value in flavor.labels.items()}
            spec = replace(
                template.spec,
                node_selector=template.spec.node_selector | labels,
                tolerations=(*template.spec.tolerations, *(one for flavor in given for one in flavor.tolerations)),
            )
            known = shape_of(Pod(metadata=template.metadata, spec=spec))
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[job.known.key, number, flavors] = known
        return known

    def _begin(self, job: _Job, since: float | None = None) -> None:
        """Let a job run. since: when it started, if it was before the start of the scenario."""
        started = self.record.now if since is None else since
        job.started, job.starts = started, job.starts + 1
        self.record.start(job.number, started)
        seconds = job.submission.run_time
        if job.end is not None and job.end.sure:
            seconds = min(seconds, job.end.at)
        end = partial(self._end, job.workload.key, job.starts)
        self._agenda.plan(max(self.record.now, started + seconds), Rank.END, end)

    @property
    def _epoch(self) -> float:
        return self._start.timestamp() + self.record.now


def _resize(podset: PodSet, count: int) -> PodSet:
    """Return a podset with this number of pods. It may still start with fewer, if its template says so."""
    return replace(podset, count=count, least=None if podset.least is None or podset.least >= count else podset.least)


def _find_fairness(site: Site, configuration: Configuration) -> FairSharing | None:
    """Return the settings of fair sharing, which a weight turns on where the Configuration says so."""
    fair = configuration.fair_sharing
    shares = [*(one.spec.fair_sharing for one in site.cluster_queues), *(one.spec.fair_sharing for one in site.cohorts)]
    weighted = any(share is not None for share in shares)
    if fair is None and configuration.muster.fair_sharing_on_demand and weighted:
        fair = ON_DEMAND
    return FairSharing.of(fair, configuration.features)


def _find_limit(job: _Job) -> timedelta | None:
    return None if job.end is None or not job.end.sure else timedelta(seconds=job.end.at)


def _find_traits(job: _Job) -> Traits:
    one, pods = job.submission, sum(podset.count for podset in job.workload.podsets)
    return Traits(job.workload.local_queue, one.user, one.series, pods)
