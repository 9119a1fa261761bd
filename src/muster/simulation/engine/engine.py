"""Play a scenario: from event to event in virtual time, with the decisions of admission and of the scheduler.

An event is a job that comes or ends. After the events of one moment the admission cycle runs until it finds nothing
more to decide. A job that it admits asks for nodes; a job that it preempts goes back to its queue at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import partial
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import Pod
from muster.api.kueue.clusterqueue import STOP_NONE
from muster.api.kueue.names import REQUEUING_LIMIT_EXCEEDED, TOPOLOGY_PLACEMENT_FAILED
from muster.api.ours.teams import NOT_A_USER
from muster.api.values.durations import SECOND
from muster.controllers.queueing.cache import ON_DEMAND
from muster.gang.order.ends import End
from muster.gang.shapes import Shape, shape_of
from muster.insight.forecasts.forecast import build_quota_tree
from muster.queueing import convert
from muster.queueing.convert import list_flavors
from muster.queueing.model import Assignment, PendingReason, PodSet, PodSetAssignment, WorkloadInfo
from muster.queueing.pending.queues import Queues
from muster.queueing.scheduling import cycle
from muster.queueing.scheduling.fairness import FairSharing
from muster.runtime.objects import key_of
from muster.simulation.engine.agenda import Agenda, Rank
from muster.simulation.engine.displacement import Precedence
from muster.simulation.engine.machines import GangAsk, Machines, make_standing
from muster.simulation.engine.pinning import Pins, index_hosts, pin
from muster.simulation.engine.readiness import ReadinessWatch, TimeOuts
from muster.simulation.engine.site import JobTemplate, Site
from muster.simulation.outcome.record import Record, Waiting
from muster.simulation.scenario.arrivals import Submission, list_submissions
from muster.simulation.scenario.draws import parse_seconds
from muster.simulation.scenario.reading import Reading

# The reasons of jobs that wait for ever: in a simulation, nobody changes a queue.
_HOPELESS = frozenset(
    ("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Suspended", NOT_A_USER, REQUEUING_LIMIT_EXCEEDED)
)
# The digits of the numbers of jobs in their keys.
_DIGITS = 12

# Called with the record so far after each moment.
Progress = Callable[[Record], None]


class _Job(Struct):
    """A job that has not ended.

    end: when it ends at the latest, from its start. started: since when it runs; None while it waits. starts: how often
    it has started, by which an end knows its start. assignment: what its queue gave it last.
    given_up: its pods were not ready in time too often, so that it is never queued again.
    """

    number: int
    submission: Submission
    template: JobTemplate
    workload: WorkloadInfo
    end: End | None
    started: float | None = None
    starts: int = 0
    assignment: Assignment | None = None
    given_up: bool = False


class Engine:
    """A cluster in virtual time. Times are seconds from the start of the scenario.

    record: what became of the jobs so far.
    """

    def __init__(self, reading: Reading, site: Site, configuration: Configuration) -> None:
        spec = reading.scenario.spec
        self.record = Record([work.name for work in spec.work])
        self._source = reading.source
        self._start = spec.start
        self._last = (datetime.max.replace(tzinfo=UTC) - spec.start).total_seconds()
        self._until = inf if spec.until is None else parse_seconds(spec.until)
        self._submissions = list_submissions(reading)
        self._templates = [site.templates[work.name] for work in spec.work]
        self._reading = convert.ConversionSettings.of(configuration)
        self._local = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._tree = build_quota_tree(site.cluster_queues, site.cohorts)
        self._flavors = list_flavors(site.flavors, site.topologies, topology=self._reading.topology)
        self._tree.ledger.in_use = any(flavor.levels for flavor in self._flavors.values())
        if self._tree.ledger.in_use:
            for one in site.nodes:
                self._tree.ledger.set_node(one)
        self._hosts = index_hosts((one.metadata.name, one.metadata.labels) for one in site.nodes)
        self._queues = Queues()
        time_outs = TimeOuts(
            configuration.wait_for_pods_ready,
            site.cluster_queues,
            site.flavors,
            [template.workload.metadata.annotations for template in self._templates],
        )
        self._settings = cycle.AdmissionSettings(
            fair=_find_fairness(site, configuration),
            blocking=time_outs.blocking,
            ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        )
        for namespace in site.namespaces:
            self._queues.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for local in site.local_queues:
            self._queues.stop_local(key_of(local), stopped=local.spec.stop_policy != STOP_NONE)
        for node in self._tree.queues.values():
            self._queues.set_queue(node.policy)
        overtakings = configuration.muster.scheduling.overtakings
        least = configuration.muster.scheduling.minimum_run_time / SECOND
        self._precedences = [Precedence.of(template.pods, least) for template in self._templates]
        self._retry_at: float | None = None
        self._machines = (
            Machines(site.nodes, overtakings, self._tree.ledger, self._queues.flush_places)
            if site.nodes or spec.nodes
            else None
        )
        self._jobs: dict[str, _Job] = {}  # that have not ended, by key
        self._agenda = Agenda()
        self._coming = True  # whether more jobs come
        self._readiness = ReadinessWatch(time_outs, self._agenda, self._start, self._note_ready, self._requeue)
        self._ready = False  # whether pods got ready since the last cycle
        self._wake_at: datetime | None = None  # when the next job has waited long enough after an eviction
        self._bases = [self._convert(template, time_outs) for template in self._templates]
        # The shapes of pods, by the number of their work and podset, their flavors, and the labels of their domain.
        self._shapes: dict[tuple[int, int, tuple[str, ...], tuple[tuple[str, str], ...]], Shape] = {}

    def _convert(self, template: JobTemplate, time_outs: TimeOuts) -> WorkloadInfo:
        queue, annotations = self._local.get(template.local_queue, ""), template.workload.metadata.annotations
        workload = convert.workload(template.workload, queue, self._reading)
        return replace(workload, blocks=time_outs.find_blocking(annotations))

    def run(self, progress: Progress | None = None) -> None:
        """Play until all jobs have ended, nothing can happen any more, or the scenario's time is over."""
        self._expect_next()
        while self._agenda and (self._jobs or self._coming):  # not for the time-outs of jobs that have ended
            now = self._agenda.next_at
            if now > self._until:
                self.record.now = self._until
                return
            if now > self._last:
                raise self._source.error("spec", f"would pass the year {MAXYEAR}: set until to end before it")
            self.record.now = now
            while (event := self._agenda.take_due(now)) is not None:
                event()
            self._settle()
            if progress is not None:
                progress(self.record)

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield the jobs that have not started, and why."""
        # Where nothing runs, a job that finds no place in a topology never will.
        idle = all(job.started is None for job in self._jobs.values())
        hopeless = _HOPELESS | {TOPOLOGY_PLACEMENT_FAILED} if idle else _HOPELESS
        for job in self._jobs.values():
            if job.started is None:
                why = self._queues.why(job.workload.key) if job.workload.queue else None
                if job.given_up:
                    why = PendingReason(REQUEUING_LIMIT_EXCEEDED, "its pods were not ready in time too often")
                if why is not None:
                    yield Waiting(job.submission.name, why.message, never=why.reason in hopeless)
                elif job.workload.key in self._queues:
                    yield Waiting(job.submission.name, "other jobs of its queue come first", never=False)
                else:
                    yield Waiting(job.submission.name, "the nodes have no room for it", never=self._lacks_nodes(job))

    def _lacks_nodes(self, job: _Job) -> bool:
        """Return whether the pods of a job would not fit even if nothing else ran."""
        return self._machines is not None and not self._machines.takes_ever(self._count_shapes(job, None))

    # Events.

    def _expect_next(self) -> None:
        """Plan the next submission, which plans the one after it: there may be more than fit into memory."""
        submission = next(self._submissions, None)
        self._coming = submission is not None
        if submission is not None:
            self._agenda.plan(submission.at, Rank.ARRIVAL, partial(self._submit, submission))

    def _submit(self, submission: Submission) -> None:
        self._expect_next()
        template, base = self._templates[submission.work], self._bases[submission.work]
        namespace = template.workload.metadata.namespace
        key = f"{namespace}/{len(self.record):0{_DIGITS}}"  # of jobs that come at once, the first one listed is first
        created = self._start + timedelta(seconds=submission.at)
        local = f"{namespace}/{submission.local_queue}" if submission.local_queue else template.local_queue
        podsets = base.podsets
        if submission.size is not None:
            podsets = (_resize(podsets[0], submission.size), *podsets[1:])
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
        job = self._jobs[key] = _Job(number, submission, template, workload, end)
        if workload.queue:
            self._queues.add(workload)
        else:
            self._place(job, None)

    def _end(self, key: str, starts: int) -> None:
        job = self._jobs.get(key)
        if job is None or job.starts != starts or job.started is None:
            return  # it was evicted meanwhile
        del self._jobs[key]
        self.record.end(job.number, self.record.now)
        self._readiness.forget(key)
        if self._machines is not None:
            self._machines.free(key)
        if job.workload.queue:
            self._release(job.workload)
            self._queues.forgive(self._tree.queues[job.workload.queue])

    def _settle(self) -> None:
        """Decide until there is nothing to decide at this moment."""
        now = self._start + timedelta(seconds=self.record.now)
        while True:
            if self._machines is not None:
                self._settle_nodes(self._machines)
            self._queues.advance(now)
            if not self._queues.untried and not self._ready:
                break
            self._ready = False
            self._apply(cycle.run(self._tree, self._queues, self._flavors, self._settings, now))

        if (wake := self._queues.next_wake) is not None and wake != self._wake_at:
            self._wake_at = wake
            self._agenda.plan((wake - self._start).total_seconds(), Rank.ARRIVAL, _do_nothing)

    def _settle_nodes(self, machines: Machines) -> None:
        """Start the gangs that find room, until no gang starts and none loses its nodes any more."""
        while True:
            for key in machines.sweep(self._epoch):
                self._begin(self._jobs[key])
            displaced = machines.take_displaced()
            if not displaced:
                break
            for key in displaced:
                self._displace(self._jobs[key])
        if (until := machines.protected_until) is not None and until != self._retry_at:
            self._retry_at = until
            self._agenda.plan(until - self._start.timestamp(), Rank.ARRIVAL, machines.retry)

    def _apply(self, outcome: cycle.Outcome) -> None:
        for admission in outcome.admitted:
            job = self._jobs[admission.workload.key]
            job.workload, job.assignment = admission.workload, admission.assignment
            self._note_use(admission.workload, 1)
            flavors = {choice.flavor for one in job.assignment.podsets for choice in one.flavors.values()}
            annotations = job.template.workload.metadata.annotations
            self._readiness.admit(job.workload.key, annotations, job.workload.queue, flavors, self.record.now)
            self._place(job, admission.assignment)
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                self._evict(self._jobs[victim.workload.key])

    def _evict(self, job: _Job) -> None:
        """Take the quota and the nodes of a job, which goes back to its queue and starts anew."""
        if self._tree.holder(job.workload.key) is None:
            return  # it is a victim of two
        self._give_back(job)
        job.workload = replace(job.workload, queued=job.workload.created)
        self._queues.add(job.workload)

    def _requeue(self, key: str, until: datetime | None) -> None:
        """Evict a job whose pods were not ready in time. until: when it is queued again; None: never."""
        job = self._jobs[key]
        self._give_back(job)
        if until is None:
            job.given_up = True
            return
        moment = (self._start + timedelta(seconds=self.record.now)).replace(microsecond=0)
        job.workload = replace(job.workload, queued=moment if self._reading.by_eviction else job.workload.created)
        self._queues.add(job.workload, until=until)

    def _give_back(self, job: _Job) -> None:
        """Take the quota and the nodes of a job."""
        self._interrupt(job)
        self._readiness.release(job.workload.key)
        self._release(job.workload)
        job.workload = replace(job.workload, usage=None, reserved=None, admitted=False, ready=False, places=())

    def _note_ready(self, key: str) -> None:
        """Let the jobs be tried that wait for the pods of a job."""
        if self._settings.blocking is None:
            return
        job = self._jobs[key]
        job.workload = replace(job.workload, ready=True)
        self._tree.hold(job.workload)
        self._ready = True

    def _displace(self, job: _Job) -> None:
        """Let a job that lost its nodes to another one wait for nodes with new pods. It keeps its quota."""
        self._interrupt(job)
        if job.workload.ready:
            job.workload = replace(job.workload, ready=False)
            self._tree.hold(job.workload)
        self._place(job, job.assignment)

    def _interrupt(self, job: _Job) -> None:
        """Take the nodes of a job, which starts anew."""
        ran = 0.0 if job.started is None else self.record.now - job.started
        self.record.evict(job.number, ran)
        job.started = None
        self._readiness.interrupt(job.workload.key, self.record.now)
        if self._machines is not None:
            self._machines.free(job.workload.key)

    # What jobs hold.

    def _release(self, workload: WorkloadInfo) -> None:
        self._note_use(workload, -1)
        self._tree.release(workload)
        self._queues.flush(self._tree.queues[workload.queue], workload.usage)
        if workload.places:
            self._queues.flush_places()

    def _note_use(self, workload: WorkloadInfo, sign: int) -> None:
        for (flavor, resource), amount in (workload.usage or {}).items():
            self.record.change(self.record.now, workload.queue, flavor, resource, sign * amount)

    def _place(self, job: _Job, assignment: Assignment | None) -> None:
        """Let a job run, once there are nodes for it. assignment: what its queue gave it."""
        if self._machines is None:
            self._begin(job)
            return
        if self._machines.ask(self._make_ask(job, assignment), self._epoch):
            self._begin(job)

    def _count_shapes(self, job: _Job, assignment: Assignment | None) -> Mapping[Shape, int]:
        """Count the pods of a job by shape; those of each domain of a topology select its labels."""
        shapes: Counter[Shape] = Counter()
        for number, podset in enumerate(job.workload.podsets):
            given = assignment.podsets[number] if assignment is not None else None
            flavors = _list_flavors(given)
            if given is None or given.places is None:
                shapes[self._shape(job, number, flavors)] += podset.count if given is None else given.count
                continue
            for values, count in given.places.domains:
                labels = tuple(zip(given.places.levels, values, strict=True))
                shapes[self._shape(job, number, flavors, labels)] += count
        return shapes

    def _pin(self, job: _Job, assignment: Assignment) -> Pins | None:
        shapes = [self._shape(job, number, _list_flavors(one)) for number, one in enumerate(assignment.podsets)]
        return pin(shapes, [one.places for one in assignment.podsets], self._hosts)

    def _make_ask(self, job: _Job, assignment: Assignment | None) -> GangAsk:
        has_places = assignment is not None and any(one.places is not None for one in assignment.podsets)
        pins = self._pin(job, assignment) if assignment is not None and has_places else None
        if pins is None:
            shapes = self._count_shapes(job, assignment)
        else:
            shapes = {shape: sum(count for _, count in nodes) for shape, nodes in pins.items()}
        tenant = job.workload.queue or job.workload.namespace
        # The job makes its pods once it is admitted; the scheduler goes by the age of pods.
        priority, precedence = job.template.pod_priority, self._precedences[job.submission.work]
        if job.submission.priority is not None and not job.workload.queue:  # no queue goes by it instead
            priority = job.submission.priority
            precedence = precedence.with_priority(priority)
        standing = make_standing(priority, tenant, self._epoch)
        return GangAsk.of(job.workload.key, standing, shapes, job.end, precedence, pins, has_places=has_places)

    def _shape(
        self, job: _Job, number: int, flavors: tuple[str, ...], domain: tuple[tuple[str, str], ...] = ()
    ) -> Shape:
        """Return the shape of the pods of a podset, with the labels and tolerations of the flavors that it got.

        domain: the labels of the domain that its pods are for.
        """
        key = job.submission.work, number, flavors, domain
        known = self._shapes.get(key)
        if known is None:
            template = job.template.workload.spec.pod_sets[number].template
            given = [self._flavors[name] for name in flavors]
            labels = {key: value for flavor in given for key, value in flavor.labels.items()}
            spec = replace(
                template.spec,
                node_selector=template.spec.node_selector | labels | dict(domain),
                tolerations=(*template.spec.tolerations, *(one for flavor in given for one in flavor.tolerations)),
            )
            known = shape_of(Pod(metadata=template.metadata, spec=spec))
            self._shapes[key] = known
        return known

    def _begin(self, job: _Job) -> None:
        job.started, job.starts = self.record.now, job.starts + 1
        self.record.start(job.number, self.record.now)
        self._readiness.begin(job.workload.key, self.record.now, job.submission.startup)
        seconds = job.submission.startup + job.submission.run_time
        if job.end is not None and job.end.sure:
            seconds = min(seconds, job.end.at)
        end = partial(self._end, job.workload.key, job.starts)
        self._agenda.plan(self.record.now + seconds, Rank.END, end)

    @property
    def _epoch(self) -> float:
        return self._start.timestamp() + self.record.now


def _do_nothing() -> None:
    """Let a moment come at which jobs are tried again."""


def _resize(podset: PodSet, count: int) -> PodSet:
    """Return a podset with this number of pods. It may still start with fewer, if its template says so."""
    return replace(podset, count=count, least=None if podset.least is None or podset.least >= count else podset.least)


def _list_flavors(given: PodSetAssignment | None) -> tuple[str, ...]:
    """Return the flavors that a podset got, in order."""
    return () if given is None else tuple(sorted({choice.flavor for choice in given.flavors.values()}))


def _find_fairness(site: Site, configuration: Configuration) -> FairSharing | None:
    """Return the settings of fair sharing, which a weight turns on where the Configuration says so."""
    fair = configuration.fair_sharing
    shares = [*(one.spec.fair_sharing for one in site.cluster_queues), *(one.spec.fair_sharing for one in site.cohorts)]
    weighted = any(share is not None for share in shares)
    if fair is None and configuration.muster.fair_sharing_on_demand and weighted:
        fair = ON_DEMAND
    return FairSharing.of(fair, configuration.features)
