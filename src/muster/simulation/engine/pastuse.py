"""Track the past use of LocalQueues, by which a ClusterQueue with admission fair sharing sorts them.

The accounting is the same as in a cluster (`queueing.pending.usage`). A cluster charges a job when it gets quota,
corrects the charge when the admission is written, and samples the current use every few minutes. In a simulation an
admission is written immediately, and only queues that are sorted by past use have accounts.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from muster.api.config import Configuration
from muster.api.kueue import LocalQueue
from muster.controllers.queueing.fairusage import find_sharing
from muster.queueing.model import Usage, WorkloadInfo
from muster.queueing.pending import usagestatus
from muster.queueing.pending.queues import Queues
from muster.queueing.pending.usage import Accounts, Decay
from muster.queueing.quota.tree import Tree
from muster.runtime.objects import key_of
from muster.simulation.engine.agenda import EventAgenda, Rank


class PastUse:
    """The past use of quota by LocalQueues in a simulation. Times are seconds from its start."""

    def __init__(
        self,
        configuration: Configuration,
        local_queues: Iterable[LocalQueue],
        tree: Tree,
        agenda: EventAgenda,
        start: datetime,
    ) -> None:
        """Start without any past use."""
        sharing = find_sharing(configuration)
        self._decay: Decay | None = None if sharing is None else Decay.of(sharing)
        self._accounts = Accounts(self._decay) if self._decay is not None else None
        self._locals = {key_of(one): one for one in local_queues}
        self._tree = tree
        self._agenda = agenda
        self._start = start
        self._queues = Queues()
        self._now = start
        self._charged: dict[str, list[str]] = {}  # the jobs that got quota at this time, by LocalQueue

    def follow(self, queues: Queues) -> None:
        """Sort the workloads of these queues by past use from now on.

        Does nothing if the Configuration has no admission fair sharing.
        """
        self._queues = queues
        if self._accounts is None:
            return
        if self._decay is not None and self._decay.half_life:
            queues.on_charge(self._charge)
        for key in self._locals:
            self._weigh(key)

    def advance(self, now: datetime) -> None:
        """Set the time of later charges."""
        self._now = now

    def settle(self) -> None:
        """Replace the charges since the last call with the actual use of the charged jobs' LocalQueues."""
        charged, self._charged = self._charged, {}
        for key, workloads in charged.items():
            assert self._accounts is not None, "what is charged has an account"
            for workload in workloads:
                self._accounts.settle(key, workload, self._measure_reserved(key), self._now)
            self._sample_usage(key)

    def _charge(self, workload: WorkloadInfo, usage: Usage) -> None:
        """Charge a job that got quota to its LocalQueue, before the next decision of the cycle."""
        assert self._accounts is not None, "what is charged has an account"
        key = workload.local_queue
        if self._accounts.get(key) is None:
            self._accounts.restore(key, {}, self._now)
            self._plan_sample(key)
        self._accounts.charge(key, workload.key, usagestatus.by_resource(usage), self._now)
        self._charged.setdefault(key, []).append(workload.key)
        self._weigh(key)

    def _measure_reserved(self, key: str) -> dict[str, float]:
        """Return the amount of each resource that a LocalQueue reserves now; empty if the LocalQueue is unknown."""
        local = self._locals.get(key)
        node = self._tree.queues.get(local.spec.cluster_queue) if local is not None else None
        return usagestatus.by_resource(node.tallies.of(key).reserved) if node is not None else {}

    def _sample_usage(self, key: str) -> None:
        assert self._accounts is not None, "what is sampled has an account"
        self._accounts.sample(key, self._measure_reserved(key), self._now)
        self._weigh(key)

    def _weigh(self, key: str) -> None:
        assert self._accounts is not None, "queues are weighed by their accounts"
        self._queues.set_usage(key, self._accounts.score(key, usagestatus.weight_of(self._locals.get(key))))

    def _plan_sample(self, key: str) -> None:
        """Plan the next sample of a LocalQueue's past use. Samples continue until the past use has faded.

        All LocalQueues are sampled at the same times, because each sampling time is costly.
        """
        assert self._decay is not None, "only accounts are sampled"
        elapsed = ((self._now - self._start) // self._decay.sampling + 1) * self._decay.sampling
        at = elapsed / timedelta(seconds=1)
        self._agenda.plan(at, Rank.CHANGE, partial(self._take_sample, key, self._start + elapsed))

    def _take_sample(self, key: str, now: datetime) -> None:
        assert self._accounts is not None, "what is sampled has an account"
        self._now = now
        self._sample_usage(key)
        account = self._accounts.get(key)
        if account is not None and account.has_faded and not self._measure_reserved(key):
            self._accounts.forget(key)
            self._weigh(key)
        else:
            self._plan_sample(key)
