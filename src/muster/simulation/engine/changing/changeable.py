"""Apply the changes of a scenario to a simulated cluster: nodes are lost, queues change, the engine stops."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from muster.api.core import Node
from muster.api.kueue import ClusterQueue
from muster.api.kueue.names import NODE_FAILURES
from muster.api.meta import ObjectMeta
from muster.api.values import durations
from muster.controllers.queueing.replacement import DELAY_SECONDS
from muster.controllers.scheduler.decisions import describe_give_back
from muster.gang.order.recovery import gives_back_at
from muster.queueing.topology.replacement import describe_eviction, hosts_of, replace_in_all
from muster.simulation.engine.agenda import Rank
from muster.simulation.engine.changing.redefinitions import Definition
from muster.simulation.engine.engine import Engine
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.takeup import Residents

# The rule by which a job is interrupted.
NODE_LOST = "NodeLost"


class ChangeableEngine(Engine):
    """A simulated cluster whose nodes, queues and engine change while the simulation runs."""

    def __init__(self, *shared: Any) -> None:
        """Start a cluster without jobs. shared: the arguments of `Engine`."""
        super().__init__(*shared)
        self._lost_hosts: dict[str, dict[str, None]] = {}  # of the places of jobs, not yet replaced
        self._fails_fast = self._configuration.features.is_enabled("TASFailedNodeReplacementFailFast")

    def take_up(self, residents: Residents) -> None:
        """Start with the jobs and pods of an existing cluster. Jobs on nodes that no longer exist are interrupted."""
        machines = self._machines
        if machines is None:
            super().take_up(residents)
            return
        for name in residents.gone:
            node = Node(metadata=ObjectMeta(name=name))
            machines.set_node(node, node)
        super().take_up(residents)
        for name in residents.gone:
            self.interrupt_on(name)
            machines.remove_node(name)
            self.record.change_node(name, "gone")

    def interrupt_on(self, node: str) -> None:
        """Interrupt each gang with pods on a node: the gang keeps its quota and requests other nodes.

        The scenario must have nodes.
        """
        assert self._machines is not None, "a scenario without nodes has no changes of nodes"
        for key in self._machines.list_gangs_on(node):
            self._interrupt(key, node)

    def _interrupt(self, key: str, node: str) -> None:
        """Remove a gang's pods from one node; the gang keeps its quota and requests another node.

        A gang that restarts as a whole loses its pods on other nodes, too. The lost work is recorded.
        """
        job = self._jobs[key]
        if self._decisions is not None:
            self._record(self._decisions, job, "Interrupted", NODE_LOST, f"it lost its pods on node {node}")
        assert self._machines is not None, "a gang has nodes"
        host = self._asks.find_host(node)
        if host in hosts_of(job.workload.places):
            self._lost_hosts.setdefault(key, {})[host] = None
        self._unplaced[key] = job
        if job.known.template.restarts_whole:
            job.counts_since = None  # its Jobs are created again, so that the time limit starts again
            self._note_interruption(job, self._stop_job(job))
            return
        runs = job.started is not None
        lost = self._machines.break_gang(key, node)
        # A gang without any node requests nodes for all its pods.
        job.lacking = (job.lacking or Counter()) + lost if self._machines.runs(key) else None
        if runs:
            self._note_interruption(job, self._pause_job(job))
            self._expect_limit(job)
            self._expect_give_back(job)

    def _resume(self, job: SimulatedJob) -> None:
        hosts = self._lost_hosts.pop(job.workload.key, None)
        if not hosts or self._replace_hosts(job, list(hosts)):
            super()._resume(job)

    def _replace_hosts(self, job: SimulatedJob, hosts: Sequence[str]) -> bool:
        """Replace a job's lost node with another node in its topology domain; return whether one was found.

        A job that lost several nodes, or has no assigned domains, is evicted. If no other node is free, the job is
        evicted if the feature to fail fast is on; otherwise it tries again later.
        """
        key, places = job.workload.key, None
        if job.assignment is not None and len(hosts) == 1:
            places = replace_in_all(job.workload, self._flavors, self._tree.ledger, hosts[0])
        if isinstance(places, str) and not self._fails_fast:
            self._lost_hosts[key] = dict.fromkeys(hosts)
            again = partial(self._try_again, key, job.starts)
            self._agenda.plan(self.record.now + DELAY_SECONDS, Rank.CHANGE, again)
            return False
        if places is None or isinstance(places, str):
            self._record_eviction(job, NODE_FAILURES, describe_eviction(hosts, places or ""))
            self._evict(job)
            return False
        job.workload = replace(job.workload, places=places)
        self._tree.hold(job.workload)
        assert job.assignment is not None, "it has places by its assignment"
        by_name = {one.podset: one for one in places}
        podsets = tuple(replace(one, places=by_name.get(one.name, one.places)) for one in job.assignment.podsets)
        job.assignment = replace(job.assignment, podsets=podsets)
        return True

    def _try_again(self, key: str, starts: int) -> None:
        if (job := self._jobs.get(key)) is not None and job.starts == starts and key in self._lost_hosts:
            self._unplaced[key] = job

    def _release_all(self, job: SimulatedJob) -> None:
        self._lost_hosts.pop(job.workload.key, None)
        super()._release_all(job)

    def _note_interruption(self, job: SimulatedJob, lost: float) -> None:
        self.record.interrupt(job.number, lost)
        self._note_loss(job.workload, lost)

    def _expect_give_back(self, job: SimulatedJob) -> None:
        """Plan that a gang which is still broken after the recovery timeout gives up its other nodes.

        The timeout starts now. Nothing is planned if there is no timeout.
        """
        now, timeout = self.record.now, self._configuration.muster.scheduling.recovery_timeout / durations.SECOND
        job.broken_since = now
        if (at := gives_back_at(now, timeout)) is not None:
            self._agenda.plan(at, Rank.CHANGE, partial(self._give_back, job.workload.key, now))

    def _give_back(self, key: str, since: float) -> None:
        """Remove a gang broken since `since` from its remaining nodes; it then requests nodes for all its pods.

        Does nothing if the gang has ended, is complete, broke again later, or if the engine is stopped.
        """
        job = self._jobs.get(key)
        if job is not None and job.lacking and job.broken_since == since and self._deciding:
            if self._decisions is not None:
                now, lacking = self._start + timedelta(seconds=self.record.now), sum(job.lacking.values())
                timeout = self._configuration.muster.scheduling.recovery_timeout
                self._decisions.add(describe_give_back(job.subject, now, lacking=lacking, timeout=timeout))
            self._stop_job(job)
            self._unplaced[key] = job

    def redefine(self, definition: Definition) -> None:
        """Apply a changed queue or Cohort, and evict the jobs that a stopped queue drains.

        Workloads that the change could help are tried again.
        """
        self._definitions.change(definition, self._queues)
        if isinstance(definition, ClusterQueue):
            self._time_outs.set_queue(definition)
        fair = self._definitions.find_fairness(self._configuration)
        self._settings = replace(self._settings, fair=fair, blocking=self._time_outs.blocking)
        self._note_quotas()
        for key, why in self._definitions.list_drained(definition):
            self._record_eviction(self._jobs[key], why.reason, why.message)
            self._evict(self._jobs[key])

    def stop(self) -> None:
        """Stop all decisions until `restart`. Running jobs continue."""
        self._deciding = False

    def restart(self) -> None:
        """Resume decisions after `stop`: forget all refusals, and try every waiting job like a new one.

        Jobs that missed their deadline for ready pods in the meantime are evicted and queued again.
        """
        self._rebuild_queues()
        if self._machines is not None:
            self._machines.forget_decisions()
        for job in self._jobs.values():
            if job.lacking:
                self._expect_give_back(job)
        self._deciding = True
        late, self._late = self._late, []
        for key, until in late:
            self._requeue(key, until)

    def _rebuild_queues(self) -> None:
        """Replace the pending queues by new ones with the same jobs, without earlier decisions about them."""
        before, self._queues = self._queues, self._queues.copy(self._tree.queues)
        self._settings = replace(self._settings, past=self._queues.usage)
        self._past.follow(self._queues)
        for job in self._jobs.values():
            if job.workload.key in before and job.workload.key not in self._queues:
                self._queues.add(job.workload)  # no queue has this name
