"""Resize the elastic jobs of a cluster, with the engine's own decisions about quota and about room on nodes.

After all other decisions at one time, elastic jobs shrink for jobs that lack quota, and then for jobs that lack nodes.
If no job can be helped, elastic jobs grow; jobs with a queue first request quota for the additional pods.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from muster.controllers.elastic.decisions import NODES, QUOTA, Resized
from muster.gang.elastic import ElasticGang, WaitingGang, limit_growth, resize
from muster.queueing.elastic import sizing
from muster.queueing.elastic.growth import grow_by, growth_key
from muster.queueing.model import Assignment, WorkloadInfo
from muster.queueing.quota.trial import assume_usage
from muster.queueing.requests import scale_usage
from muster.queueing.scheduling.cycle import CycleAdmission, CycleOutcome, CyclePreemption
from muster.queueing.scheduling.nomination import nominate
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.nodes.gangask import GangAsk
from muster.simulation.engine.nodes.machines import Machines
from muster.simulation.engine.running import JobRunner


class JobResizer(JobRunner):
    """A simulated cluster that resizes elastic jobs."""

    def _note_short(self, outcome: CycleOutcome) -> None:
        """Record the jobs of an admission cycle that lack quota, so that elastic jobs may shrink for them."""
        if not self._elastic:
            return
        for decision in outcome.spared:
            self._short[decision.workload.key] = True
        for pending in outcome.pending:
            if pending.reason in sizing.SHORT_REASONS:
                self._short.setdefault(pending.workload.key, False)

    def _should_shrink_instead(self, decision: CyclePreemption) -> bool:
        """Return whether elastic jobs should shrink for a workload, instead of the eviction of other jobs.

        If elastic jobs should have shrunk for the workload before but could not, the result is False once.
        """
        if not self._elastic or decision.workload.growth_of:
            return False
        if decision.workload.key in self._waited_in_vain:
            self._waited_in_vain.discard(decision.workload.key)
            return False
        return bool(self._find_smaller(decision.workload))

    def _adapt_sizes(self, *, grow: bool) -> bool:
        """Resize elastic jobs after all other decisions; return whether there is something to decide again.

        Requests for growth that got no quota are withdrawn.
        """
        if not self._elastic:
            return False
        if self._shrink_for_quota() or self._resize_by_room(grow=grow):
            return True
        for key in self._growths:  # no quota is free for them now
            self._queues.remove(key)
        self._growths.clear()
        return self._machines is not None and self._machines.lose_patience()

    # Quota.

    def _shrink_for_quota(self) -> bool:
        short, self._short = self._short, {}
        changed = False
        for key, instead in short.items():
            waiting = self._queues.workload(key)
            if waiting is None:
                continue
            if waiting.growth_of:
                changed |= self._limit_growth(waiting)
            else:
                changed |= self._make_room(waiting, instead=instead)
        return changed

    def _make_room(self, waiting: WorkloadInfo, *, instead: bool) -> bool:
        """Shrink elastic jobs so that a waiting job gets quota; return whether to try the queue again.

        instead: whether the waiting job could preempt other jobs, which were spared so that elastic jobs shrink
        instead. If no job can shrink, the other jobs are not spared the next time.

        The waiting job itself may shrink.
        """
        why = self._queues.why(waiting.key)
        if not instead and (why is None or why.reason not in sizing.SHORT_REASONS):
            return False
        sizes = self._find_smaller(waiting)
        for key, size in sizes.items():
            helps = () if key == waiting.key else (self._find_subject(waiting).job,)
            self._record_size(self._jobs[key], size, QUOTA, f"quota for {size} is free", helps)
            self._shrink(self._jobs[key], size)
        if sizes or not instead:
            return bool(sizes)
        self._waited_in_vain.add(waiting.key)  # a workload must be evicted
        self._queues.retry(waiting.queue)
        return True

    def _find_smaller(self, waiting: WorkloadInfo) -> Mapping[str, int]:
        """Return smaller sizes of elastic jobs with which a waiting job gets quota, by key; empty if none help."""
        own = self._elastic.get(waiting.key)
        holders = [one for job in self._elastic.values() if (one := self._describe_holder(job)) is not None]
        least = own.bounds.least if own is not None and own.bounds is not None else None
        return sizing.find_smaller_sizes(self._tree, waiting, least, holders, self._fits)

    def _describe_holder(self, job: SimulatedJob) -> sizing.ElasticWorkload | None:
        holder = self._tree.holder(job.workload.key)
        if holder is None or holder.places or job.bounds is None:
            return None
        return sizing.describe_holder(holder, job.size, job.bounds.least)

    def _fits(self, workload: WorkloadInfo) -> bool:
        return nominate(self._tree, workload, self._flavors, self._settings).fits

    def _count_affordable(self, growth: WorkloadInfo) -> int:
        with assume_usage(more=sizing.list_claims(self._tree, self._queues.parked)):
            return sizing.count_affordable(growth, self._fits)

    def _limit_growth(self, growth: WorkloadInfo) -> bool:
        """Queue the growth of a job again with fewer pods, if there is quota for some; return whether that is so."""
        count = self._count_affordable(growth)
        if not 0 < count < growth.podsets[0].count:
            return False
        self._queues.add(replace(growth, podsets=(replace(growth.podsets[0], count=count),)))
        return True

    # Room on nodes.

    def _resize_by_room(self, *, grow: bool) -> bool:
        if self._machines is None:
            return grow and self._grow_without_nodes()
        asks = self._machines.list_asks()
        if not asks and not grow:
            return False
        waiting = [self._describe_waiting(ask) for ask in asks]
        gangs = [
            one
            for job in self._elastic.values()
            if (one := self._describe_gang(job, self._machines, grow=grow)) is not None
        ]
        resizes = resize(self._machines.capacity, (), waiting, gangs, grow=grow)
        changed = False
        for change in resizes:
            job = self._jobs[change.key]
            if change.new < change.old:
                self._record_size(job, change.new, NODES, change.why.removeprefix(": "), change.helps)
                changed |= self._shrink(job, change.new)
            else:
                changed |= self._ask_growth(job, change.new)
        return changed

    def _describe_waiting(self, ask: GangAsk) -> WaitingGang:
        job = self._jobs[ask.key]
        # the nodes that admission chose are node selectors of the pods
        shapes = ask.shapes if ask.pins is None else self._asks.count_shapes(job, job.assignment)
        return WaitingGang(ask.key, ask.subject.job, ask.criteria.priority, shapes)

    def _describe_gang(self, job: SimulatedJob, machines: Machines, *, grow: bool) -> ElasticGang | None:
        """Return a gang that has or requests nodes as an elastic gang; None if it may not be resized."""
        workload, bounds = job.workload, job.bounds
        if workload.places or bounds is None or not (machines.runs(workload.key) or machines.waits(workload.key)):
            return None
        (shape,) = self._asks.count_shapes(job, job.assignment)
        return ElasticGang(
            workload.key,
            job.known.template.pod_priority,
            workload.created,
            job.size,
            least=bounds.least,
            most=self._find_most(job) if grow and job.started is not None else job.size,
            shape=shape,
            bound=machines.find_ranks(workload.key),
        )

    def _find_most(self, job: SimulatedJob) -> int:
        """Return the maximum number of pods that a job's bounds and free quota allow."""
        assert job.bounds is not None, "it is elastic"
        most = limit_growth(job.size, job.bounds.least, job.bounds.most)
        if most <= job.size or not job.workload.queue:
            return most
        return job.size + self._count_affordable(self._make_growth(job, most))

    def _make_growth(self, job: SimulatedJob, size: int) -> WorkloadInfo:
        flavors = {fr.resource: fr.flavor for fr in job.workload.usage or {}}
        return grow_by(job.workload, size - job.size, flavors)

    def _grow_without_nodes(self) -> bool:
        changed = False
        for job in self._elastic.values():
            if job.started is not None and (most := self._find_most(job)) > job.size and job.workload.queue:
                changed |= self._ask_growth(job, most)
        return changed

    # Changes of a job.

    def _ask_growth(self, job: SimulatedJob, size: int) -> bool:
        """Request quota for the growth of a job, or let it grow if it has no queue; return whether to decide again."""
        if not job.workload.queue:
            return self._grow(job, size)
        growth = self._make_growth(job, size)
        self._growths[growth.key] = None
        self._queues.add(growth)
        return True

    def _take_growth(self, admission: CycleAdmission) -> None:
        """Let a job grow whose additional pods got quota.

        The quota passes from the request to the job. If the pods find no nodes, pending workloads may use the quota.
        """
        growth, job = admission.workload, self._jobs[admission.workload.growth_of]
        self._growths.pop(growth.key, None)
        self._tree.release(growth)
        if not self._grow(job, job.size + growth.podsets[0].count):
            self._queues.flush(self._tree.queues[growth.queue], growth.usage)

    def _give_up_growth(self, job: SimulatedJob) -> None:
        """Withdraw the growth request of a job, if there is one, because the job loses its quota."""
        if (key := growth_key(job.workload.key)) in self._growths:
            self._growths.pop(key)
            self._queues.remove(key)

    def _grow(self, job: SimulatedJob, size: int) -> bool:
        """Let a job grow if its new pods get nodes; return whether they do."""
        if self._machines is not None:
            ask = self._asks.ask_for_more(job, size - job.size, self._epoch)
            if not self._machines.grow(ask, self._epoch):
                return False
        self._record_size(job, size, NODES, f"room for {size - job.size} more is free")
        self._set_size(job, size)
        self._go_on(job)
        return True

    def _record_size(self, job: SimulatedJob, size: int, rule: str, because: str, helps: Sequence[str] = ()) -> None:
        """Add the new size of a job to the log of decisions, if there is one.

        helps: the jobs for which it shrinks.
        """
        if self._decisions is not None:
            now = self._start + timedelta(seconds=self.record.now)
            resized = Resized(job.subject, job.size, size, rule, because, helps, job.workload.queue)
            self._decisions.add(resized.describe(now))

    def _shrink(self, job: SimulatedJob, size: int) -> bool:
        """Shrink a job and free the nodes of the removed pods. The job continues, or requests nodes for fewer pods.

        Always returns True, because more has to be decided afterwards.
        """
        key = job.workload.key
        self._set_size(job, size)
        if self._machines is None or not (self._machines.runs(key) or self._machines.waits(key)):
            self._go_on(job)
            return True
        self._machines.shrink(key, size)
        if job.started is not None:
            self._go_on(job)
        elif job.lacking and self._machines.runs(key):
            self._set_lacking_pods(job, size - len(self._machines.find_ranks(key)))
        else:
            job.lacking = None
            self._place(job, job.assignment)
        return True

    def _set_lacking_pods(self, job: SimulatedJob, pods: int) -> None:
        """Let a broken gang request nodes for the pods that it lacks at its new size.

        If it lacks none, it continues.
        """
        (shape,) = self._asks.count_shapes(job, job.assignment)
        job.lacking = Counter({shape: pods}) if pods > 0 else None
        if job.lacking:
            self._repair(job, job.lacking)
        else:
            self._begin(job)

    def _set_size(self, job: SimulatedJob, size: int) -> None:
        """Change the number of pods of a job, and the quota that it requests or holds."""
        before, now = job.workload, self.record.now
        job.done, job.since = job.measure_work(now), now
        old, job.size = job.size, size
        job.workload = replace(before, podsets=(replace(before.podsets[0], count=size),))
        if before.usage is not None:
            usage = {fr: amount // old * size for fr, amount in before.usage.items()}
            job.workload = replace(job.workload, usage=usage)
            if job.assignment is not None:
                job.assignment = _scale_assignment(job.assignment, size)
            self._note_use(before, -1)
            self._note_use(job.workload, 1)
            self._tree.hold(job.workload)
            if size < old:
                self._queues.flush(self._tree.queues[before.queue], before.usage)
        elif before.key in self._queues:
            self._queues.add(job.workload)

    def _go_on(self, job: SimulatedJob) -> None:
        """Record the new size of a running job, and plan its new end. Does nothing if the job does not run."""
        if job.started is None:
            return
        job.starts += 1
        self.record.resize(job.number, job.sum_demand(), self._count_pods_to_draw(job), job.size)
        self._expect_end(job, self.record.now)


def _scale_assignment(assignment: Assignment, pods: int) -> Assignment:
    """Return an assignment of one podset, scaled to another number of pods."""
    (one,) = assignment.podsets
    requests = scale_usage(one.requests, one.count, pods)
    usage = {fr: amount // one.count * pods for fr, amount in assignment.usage.items()}
    return replace(assignment, podsets=(replace(one, count=pods, requests=requests),), usage=usage)
