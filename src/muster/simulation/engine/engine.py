"""Decide for one cluster in virtual time, with the decisions of admission and of the scheduler.

An event is a job that comes or ends. After the events of one moment the admission cycle runs until it finds nothing
more to decide. A job that it admits asks for nodes; a job that it preempts goes back to its queue at once.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.kueue.names import PODS_READY_TIMEOUT
from muster.api.ours.decisions import Decision, Subject, What
from muster.api.values import durations
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.scheduler.decisions import POD_PRIORITY
from muster.gang.order.ends import End
from muster.gang.placement import Placement
from muster.gang.shapes import Shape
from muster.insight.forecasts.forecast import build_quota_tree
from muster.queueing import convert
from muster.queueing.convert import list_flavors
from muster.queueing.decisions import describe_cycle
from muster.queueing.model import Assignment, WorkloadInfo
from muster.queueing.scheduling import cycle
from muster.runtime.objects import key_of
from muster.simulation.engine.agenda import Agenda, Rank
from muster.simulation.engine.asking import AskMaker
from muster.simulation.engine.changes import Changes
from muster.simulation.engine.checkpoints import Checkpoints, measure_kept
from muster.simulation.engine.definitions import Definitions
from muster.simulation.engine.explaining import drop_places, explain_wait
from muster.simulation.engine.forecasting import Forecaster
from muster.simulation.engine.freeroom import measure_rooms, sum_capacity
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.machines import Machines
from muster.simulation.engine.pastuse import PastUse
from muster.simulation.engine.readiness import ReadinessWatch, TimeOuts
from muster.simulation.engine.site import JobTemplate, Site
from muster.simulation.engine.takeup import Residents, TakenJob
from muster.simulation.engine.templates import Templates, find_local_queue, make_workload
from muster.simulation.outcome.nodelog import MOST_NODES
from muster.simulation.outcome.record import Record, Waiting
from muster.simulation.scenario.arrivals import Submission
from muster.simulation.scenario.model import Spec

# The digits of the numbers of jobs in their keys.
_DIGITS = 12


class Engine:
    """A cluster in virtual time. Times are seconds from the start of the scenario.

    record: what became of the jobs so far. The record and the agenda are those of a `World`, which clusters share.
    """

    def __init__(
        self,
        spec: Spec,
        site: Site,
        configuration: Configuration,
        agenda: Agenda,
        record: Record,
        checkpoints: Sequence[Checkpoints | None] = (),
        decisions: DecisionLog | None = None,
        scope: str = "",
    ) -> None:
        """Start empty.

        checkpoints: those of the jobs of each work. decisions: the log that gets each decision. scope: begins the names
        of its queues and nodes in the record.
        """
        self.record = record
        self._agenda = agenda
        self._scope = scope
        self._start = spec.start
        self._reading = convert.ConversionSettings.of(configuration)
        self._local = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._tree = build_quota_tree(site.cluster_queues, site.cohorts)
        self._flavors = list_flavors(site.flavors, site.topologies, topology=self._reading.topology)
        self._tree.ledger.in_use = any(flavor.levels for flavor in self._flavors.values())
        if self._tree.ledger.in_use:
            for one in site.nodes:
                self._tree.ledger.set_node(one)
        self._definitions = Definitions(site, self._tree, self._flavors)
        self._queues = self._definitions.make_queues()
        self._past = PastUse(configuration, site.local_queues, self._tree, agenda, spec.start)
        self._past.follow(self._queues)
        self._configuration = configuration
        templates = [site.templates[work.name] for work in spec.work]
        self._time_outs = TimeOuts(
            configuration.wait_for_pods_ready,
            site.cluster_queues,
            site.flavors,
            [template.workload.metadata.annotations for template in templates],
        )
        self._settings = cycle.AdmissionSettings(
            fair=self._definitions.find_fairness(configuration),
            blocking=self._time_outs.blocking,
            ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        )
        overtakings = configuration.muster.scheduling.overtakings
        least = configuration.muster.scheduling.minimum_run_time / durations.SECOND
        self._asks = AskMaker(site.nodes, self._flavors, least)
        self._retry_at: float | None = None
        self._machines = (
            Machines(site.nodes, overtakings, self._tree.ledger, self._flush_places)
            if site.nodes or spec.nodes
            else None
        )
        self._readiness = ReadinessWatch(self._time_outs, agenda, self._start, self._note_ready, self._requeue)
        self._ready = False  # whether pods got ready since the last cycle
        self._wake_at: datetime | None = None  # when the next job has waited long enough after an eviction
        self._decisions = decisions
        if self._machines is not None and decisions is not None:
            self._machines.record(decisions)
        self._draws_nodes = len(site.nodes) <= MOST_NODES
        for one in site.nodes if self._draws_nodes else ():
            self.record.nodes.add_node(self._scope + one.metadata.name)
        self._jobs: dict[str, SimulatedJob] = {}  # that have not ended, by key
        self._forecaster = Forecaster(spec.forecasts, self._flavors, self._jobs)
        self._templates = Templates(templates, self._convert)
        self._checkpoints = checkpoints
        self.changes: Changes | None = None
        self._unplaced: dict[
            str, SimulatedJob
        ] = {}  # that ask for nodes once the changes of a moment have happened, by key
        self._deciding = True  # whether the engine runs
        self._late: list[tuple[str, datetime | None]] = []  # jobs to requeue once it runs again
        self._note_quotas()
        self.note_capacity()

    @property
    def machines(self) -> Machines | None:
        """The nodes; None if quotas alone decide."""
        return self._machines

    def take_up(self, residents: Residents) -> None:
        """Start with the jobs and pods of a cluster."""
        if self._machines is not None:
            for pod in residents.pods:
                self._machines.settle_pod(pod)
        for one in residents.jobs:
            self._take_up_job(one)
        self._agenda.plan(0.0, Rank.ARRIVAL, _do_nothing)  # a moment to decide in

    def _take_up_job(self, taken: TakenJob) -> None:
        workload, template = taken.workload, taken.known.template
        submission = Submission(taken.created, len(self.record.works) - 1, taken.name, taken.run_time, None)
        pods = sum(podset.count for podset in workload.podsets)
        number = self.record.submit(
            taken.name, submission.work, workload.queue, pods, workload.priority, taken.created, taken.run_time
        )
        job = self._jobs[workload.key] = SimulatedJob(
            number, submission, taken.known, workload, template.end, taken.run_time, None
        )
        flavors = {name for names in taken.flavors or () for name in names}
        status, annotations = template.workload.status, template.workload.metadata.annotations
        self._readiness.take_up(workload.key, annotations, workload.queue, flavors, status)
        if taken.flavors is not None and workload.queue in self._tree.queues:
            job.flavors = taken.flavors
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
                ask = self._asks.make_ask(job, shapes, self._epoch, has_places=bool(workload.places))
                self._machines.take_up(ask, Placement(taken.nodes), started)
            self._begin(job, taken.started)
        elif self._machines is None:
            self._begin(job)
        else:
            if self._machines.ask(self._asks.ask_for_all(job, None, self._epoch), self._epoch):
                self._begin(job)

    def _convert(self, template: JobTemplate) -> WorkloadInfo:
        queue, annotations = self._local.get(template.local_queue, ""), template.workload.metadata.annotations
        workload = convert.workload(template.workload, queue, self._reading)
        return replace(workload, blocks=self._time_outs.find_blocking(annotations))

    def count_jobs(self) -> int:
        """Return how many jobs wait or run."""
        return len(self._jobs)

    @property
    def is_busy(self) -> bool:
        """Whether a job waits or runs."""
        return bool(self._jobs)

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield the jobs that have not started, and why."""
        lacking: dict[Hashable, bool] = {}  # whether jobs with these pods lack nodes, of which there may be many
        for job in self._jobs.values():
            if job.started is None:
                yield self._explain(job, lacking)

    def _explain(self, job: SimulatedJob, lacking: dict[Hashable, bool]) -> Waiting:
        """Return why a job has not started. lacking: the answers of `_lacks_nodes` so far."""
        key = job.workload.key
        return explain_wait(
            job,
            self._queues.why(key) if job.workload.queue else None,
            is_pending=key in self._queues,
            runs_anything=self._runs_anything,
            redefines_later=self.changes is not None and self.changes.redefines_later,
            lacks_nodes=partial(self._lacks_nodes, job, lacking),
        )

    def _runs_anything(self) -> bool:
        return any(job.started is not None for job in self._jobs.values())

    def _lacks_nodes(self, job: SimulatedJob, known: dict[Hashable, bool]) -> bool:
        """Return whether the pods of a job would not fit even if nothing else ran. known: the answers so far."""
        if self._machines is None:
            return False
        shapes = self._asks.count_shapes(job, drop_places(job.assignment))
        key = frozenset(shapes.items())
        if key not in known:
            known[key] = not self._machines.takes_ever(shapes)
        return known[key]

    # Events.

    def submit(self, submission: Submission) -> None:
        """Add a job, which queues or asks for nodes."""
        known = self._templates.find(submission)
        template = known.template
        local = find_local_queue(submission.local_queue, template)
        namespace = local.partition("/")[0] or template.workload.metadata.namespace
        key = f"{namespace}/{len(self.record):0{_DIGITS}}"  # of jobs that come at once, the first one listed is first
        created = self._start + timedelta(seconds=submission.at)
        workload = make_workload(known, submission, key, self._local.get(local, ""), local, created)
        pods = sum(podset.count for podset in workload.podsets)
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
        checkpoints = self._checkpoints[submission.work] if self._checkpoints else None
        job = SimulatedJob(number, submission, known, workload, end, submission.run_time, checkpoints)
        self._jobs[key] = job
        self._forecaster.expect(job)
        if workload.queue:
            self._queues.add(workload)
        else:
            self._place(job, None)

    def _end(self, key: str, starts: int) -> None:
        job = self._jobs.get(key)
        if job is None or job.starts != starts or (job.started is None and job.counts_since is None):
            return  # it was evicted meanwhile
        del self._jobs[key]
        if job.started is not None:
            self._forecaster.learn(job, self.record.now - job.started)
        self._unplaced.pop(key, None)
        self._note_end(job)
        self._readiness.forget(key)
        if self._machines is not None:
            self._machines.free(key)
        if job.workload.queue:
            self._release(job.workload)
            self._queues.forgive(self._tree.queues[job.workload.queue])

    def settle(self) -> None:
        """Decide until there is nothing to decide at this moment."""
        if self._deciding:
            self._decide()
        self._readiness.plan_deadlines(self.record.now)

    def _decide(self) -> None:
        unplaced, self._unplaced = self._unplaced, {}
        for job in unplaced.values():
            self._resume(job)
        now = self._start + timedelta(seconds=self.record.now)
        self._past.advance(now)
        while True:
            if self._machines is not None:
                self._settle_nodes(self._machines)
            self._queues.advance(now)
            if not self._queues.untried and not self._ready:
                break
            self._ready = False
            outcome = cycle.run(self._tree, self._queues, self._flavors, self._settings, now)
            if (decisions := self._decisions) is not None:
                for decision in describe_cycle(outcome, self._tree, self._find_subject, decisions.is_news, now):
                    decisions.add(decision)
            self._apply(outcome)
            self._past.settle()
        if (wake := self._queues.next_wake) is not None and wake != self._wake_at:
            self._wake_at = wake
            self._agenda.plan((wake - self._start).total_seconds(), Rank.ARRIVAL, _do_nothing)

    def _resume(self, job: SimulatedJob) -> None:
        """Let a job ask for the nodes that it lacks."""
        if job.lacking:
            self._repair(job, job.lacking)
        else:
            self._place(job, job.assignment)

    def _flush_places(self) -> None:
        self._queues.flush_places()

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

    def _record_eviction(self, job: SimulatedJob, rule: str, because: str) -> None:
        """Record an eviction that is no preemption, unless it goes on already."""
        if self._decisions is not None and not job.workload.evicted:
            self._record(self._decisions, job, "Evicted", rule, because)

    def _record(self, decisions: DecisionLog, job: SimulatedJob, what: What, rule: str, because: str) -> None:
        now, subject = self._start + timedelta(seconds=self.record.now), job.subject
        decisions.add(Decision(now, what, subject.job, subject.uid, job.workload.queue, rule, because))

    def _find_subject(self, workload: WorkloadInfo) -> Subject:
        return self._jobs[workload.key].subject

    def measure(self) -> None:
        """Record what a moment leaves: forecasts of the jobs that came, and the free room."""
        now = self._start + timedelta(seconds=self.record.now)
        for job, wait in self._forecaster.forecast_all(self._tree, self._queues, self._settings, now):
            self.record.forecast(job.number, wait)
        self._measure_rooms()

    def _apply(self, outcome: cycle.Outcome) -> None:
        for admission in outcome.admitted:
            job = self._jobs[admission.workload.key]
            job.workload, job.assignment = admission.workload, admission.assignment
            self._note_use(admission.workload, 1)
            self._grant(job, admission.assignment)
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                self._evict(self._jobs[victim.workload.key])

    def _evict(self, job: SimulatedJob) -> None:
        """Take the quota and the nodes of a job, which goes back to its queue and starts anew."""
        if self._tree.holder(job.workload.key) is None:
            return  # it is a victim of two
        self._release_all(job)
        job.workload = replace(job.workload, queued=job.workload.created)
        self._queues.add(job.workload)

    def _requeue(self, key: str, until: datetime | None) -> None:
        """Evict a job whose pods were not ready in time. until: when it is queued again; None: never."""
        if not self._deciding:
            self._late.append((key, until))
            return
        job = self._jobs.get(key)
        if job is None:
            return  # it has ended while the engine was stopped
        self._record_eviction(job, PODS_READY_TIMEOUT, "its pods were not ready in time")
        self._release_all(job)
        if until is None:
            job.given_up = True
            return
        moment = (self._start + timedelta(seconds=self.record.now)).replace(microsecond=0)
        job.workload = replace(job.workload, queued=moment if self._reading.by_eviction else job.workload.created)
        self._queues.add(job.workload, until=until)

    def _release_all(self, job: SimulatedJob) -> None:
        """Take the quota and the nodes of a job."""
        self._take_nodes(job)
        self._unplaced.pop(job.workload.key, None)
        job.counts_since = None
        job.flavors = ()
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

    def _displace(self, job: SimulatedJob) -> None:
        """Let a job that lost its nodes to another one wait for nodes with new pods. It keeps its quota."""
        self._record_eviction(job, POD_PRIORITY, "a job of a higher priority needs its nodes")
        lost = self._stop_job(job)
        self._note_displacement(job, lost)
        self._note_loss(job.workload, lost)
        self._expect_limit(job)
        self._place(job, job.assignment)

    def _take_nodes(self, job: SimulatedJob) -> None:
        """Take the nodes of a job, which starts anew."""
        lost = self._stop_job(job)
        self._note_eviction(job, lost)
        self._note_loss(job.workload, lost)

    # The hooks by which the clusters of a MultiKueue do more.

    def _grant(self, job: SimulatedJob, assignment: Assignment) -> None:
        """Let a job go on that has got quota."""
        self._await_pods(job, assignment)
        self._place(job, assignment)

    def _await_pods(self, job: SimulatedJob, assignment: Assignment) -> None:
        """Count the time until the pods of a job are ready, from now on."""
        flavors = {choice.flavor for one in assignment.podsets for choice in one.flavors.values()}
        annotations = job.known.template.workload.metadata.annotations
        self._readiness.admit(job.workload.key, annotations, job.workload.queue, flavors, self.record.now)

    def _note_end(self, job: SimulatedJob) -> None:
        self.record.end(job.number, self.record.now)

    def _note_displacement(self, job: SimulatedJob, ran: float) -> None:
        self.record.evict(job.number, ran)

    def _note_eviction(self, job: SimulatedJob, ran: float) -> None:
        self.record.evict(job.number, ran)

    def _stop_job(self, job: SimulatedJob) -> float:
        """Take the nodes of a job; return for how many seconds it worked in vain."""
        if self._machines is not None:
            self._machines.free(job.workload.key)
        job.lacking = None
        return self._pause_job(job)

    def _pause_job(self, job: SimulatedJob) -> float:
        """Set a job back to its last checkpoint; return for how many seconds it worked in vain."""
        ran = 0.0 if job.started is None else self.record.now - job.started
        startup = min(ran, job.submission.startup)
        kept = measure_kept(job.checkpoints, job.work, ran - startup)
        job.work -= kept.work
        job.started = None
        self._readiness.interrupt(job.workload.key, self.record.now)
        if job.workload.ready and self._readiness.follows(job.workload.key):
            job.workload = replace(job.workload, ready=False)
            self._tree.hold(job.workload)
        return kept.lost + startup

    def _expect_limit(self, job: SimulatedJob) -> None:
        """Plan the end of an interrupted job at its time limit, which goes on; its former end does not come."""
        job.starts += 1
        if job.end is not None and job.end.sure and job.counts_since is not None:
            end = partial(self._end, job.workload.key, job.starts)
            self._agenda.plan(max(self.record.now, job.counts_since + job.end.at), Rank.END, end)

    # What jobs hold.

    def _release(self, workload: WorkloadInfo) -> None:
        self._note_use(workload, -1)
        self._tree.release(workload)
        self._queues.flush(self._tree.queues[workload.queue], workload.usage)
        if workload.places:
            self._queues.flush_places()

    def _note_use(self, workload: WorkloadInfo, sign: int) -> None:
        for (flavor, resource), amount in (workload.usage or {}).items():
            self.record.change(self.record.now, self._scope + workload.queue, flavor, resource, sign * amount)

    def _note_quotas(self) -> None:
        """Record the nominal quotas, as they are from now on."""
        for name, node in self._tree.queues.items():
            for (flavor, resource), quota in node.policy.quotas.items():
                self.record.quotas.set(self.record.now, (self._scope + name, flavor, resource), quota.nominal)

    def note_capacity(self) -> None:
        """Record what the nodes have, as it is from now on."""
        if self._machines is not None:
            self.record.capacity.set(self.record.now, sum_capacity(self._machines.capacity), self._scope)

    def _note_loss(self, workload: WorkloadInfo, ran: float) -> None:
        """Record that the use of the last seconds was in vain."""
        now = self.record.now
        for (flavor, resource), amount in (workload.usage or {}).items() if ran else ():
            self.record.quotas.lose((self._scope + workload.queue, flavor, resource), now - ran, now, amount)

    def _measure_rooms(self) -> None:
        if self._machines is not None:
            names = self.record.works
            shapes = ((names[work], shape) for work, shape in self._asks.list_shapes_of_works())
            measure_rooms(self.record.rooms, self._machines.capacity, shapes, self.record.now)

    def _place(self, job: SimulatedJob, assignment: Assignment | None) -> None:
        """Let a job run, once there are nodes for it. assignment: what its queue gave it."""
        job.assignment = assignment
        if not self._deciding:
            self._unplaced[job.workload.key] = job
            return
        if self._machines is None:
            self._begin(job)
            return
        if self._machines.ask(self._asks.ask_for_all(job, assignment, self._epoch), self._epoch):
            self._begin(job)

    def _repair(self, job: SimulatedJob, lacking: Mapping[Shape, int]) -> None:
        """Let a broken gang go on, once there are nodes for the pods that it lost."""
        assert self._machines is not None, "a broken gang has nodes"
        ask = self._asks.ask_for_rest(job, lacking, self._machines.count_guests(job.workload.key), self._epoch)
        if self._machines.ask(ask, self._epoch):
            self._begin(job)

    def _begin(self, job: SimulatedJob, since: float | None = None) -> None:
        """Let a job run. since: when it started, if it was before the start of the scenario."""
        started = self.record.now if since is None else since
        job.started, job.starts = started, job.starts + 1
        nodes: Mapping[str, int] | None = None
        if self._machines is not None and self._draws_nodes:
            on_nodes = self._machines.count_pods(job.workload.key)
            nodes = {self._scope + name: pods for name, pods in on_nodes.items()}
        self.record.start(job.number, started, job.sum_demand(), nodes)
        self._readiness.begin(job.workload.key, self.record.now, job.submission.startup)
        span = job.work if job.checkpoints is None else job.checkpoints.compute_span(job.work)
        seconds = job.submission.startup + span
        job.lacking = None
        if job.counts_since is None:
            job.counts_since = job.started
        if job.end is not None and job.end.sure:
            seconds = max(0.0, min(seconds, job.counts_since + job.end.at - job.started))
        end = partial(self._end, job.workload.key, job.starts)
        self._agenda.plan(max(self.record.now, started + seconds), Rank.END, end)

    @property
    def _epoch(self) -> float:
        return self._start.timestamp() + self.record.now


def _do_nothing() -> None:
    """Let a moment come at which jobs are tried again."""
