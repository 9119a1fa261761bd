"""Keep the forecast of a quota tree, so that forecasts for later jobs can continue it.

An earlier forecast is the same as a new one under these conditions:

- All starts and ends that it expected until now have happened, and no others.
- A new forecast would expect the same ends.
- The jobs that arrived in the meantime change nothing before the time that it has reached.

`KeptForecast.catch_up` checks these conditions, and returns False in cases of doubt, so that a continued forecast has
the same starts as a new one.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import chain

from msgspec.structs import astuple, replace

from muster.queueing.model import CohortSpec, FlavorSpec, WorkloadInfo
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.cycle import AdmissionSettings
from muster.queueing.scheduling.estimate import RunTime, StartEstimate, StartForecast


class KeptForecast:
    """The forecast of one quota tree, and the expected state of the cluster at the time of the last call.

    root: a root Cohort, or a ClusterQueue without a Cohort.
    runs: the currently expected run times of workloads, by key.
    learnt: the number of runs that `runs` is based on; with the same number, `runs` is the same.
    """

    def __init__(
        self,
        tree: Tree,
        root: Node,
        queues: Queues,
        flavors: Mapping[str, FlavorSpec],
        runs: Mapping[str, RunTime],
        settings: AdmissionSettings,
        now: datetime,
        learnt: int,
    ) -> None:
        self._root = root
        self._names = [node.name for node in root.queues()]
        self._rules = self._list_rules(queues)
        self._learnt = learnt
        self._play = StartForecast(
            _copy_quota(tree, root), queues.copy(self._names), flavors, runs, now, settings, names={}
        )
        self._holders = _list_holders(root)
        waiting = (queues.workload(key) for name in self._names for key in queues.list_waiting(name))
        self._waiting = {one.key: one for one in waiting if one is not None}
        self._may_continue = not tree.ledger.in_use and settings.blocking is None and queues.next_wake is None

    def estimate(self, keys: Iterable[str]) -> dict[str, StartEstimate]:
        """Return when each of these waiting workloads is expected to get quota, by key."""
        return self._play.estimate(keys)

    def catch_up(self, queues: Queues, settings: AdmissionSettings, now: datetime, learnt: int) -> bool:
        """Move the start of the forecast to now, and add the workloads that arrived in the meantime.

        Returns False if a new forecast could differ; this forecast must not be used any more then.
        """
        return (
            self._may_continue
            and not self._play.preempts
            and self._play.settings is settings
            and self._is_defined_alike(queues)
            and self._play.has_reached(now)
            and self._has_same_holders(now)
            and self._has_same_ends(now, learnt)
            and self._add_new(queues, now)
        )

    def _is_defined_alike(self, queues: Queues) -> bool:
        """Return whether the definitions of quotas and queues are unchanged, and no workload backs off."""
        return queues.next_wake is None and self._list_rules(queues) == self._rules

    def _list_rules(self, queues: Queues) -> list[object]:
        return _list_specs(self._root) + queues.list_rules(self._names)

    def _has_same_holders(self, now: datetime) -> bool:
        """Advance past the starts and ends until now; return whether exactly the expected workloads hold quota.

        The flavors and amounts must be as expected, too.
        """
        steps = self._play.steps
        while steps and steps[0].at <= now:
            step = steps.popleft()
            if step.holder is None:
                del self._holders[step.key]
                self._play.forget_end(step.key)
            else:
                self._holders[step.key] = step.holder
                del self._waiting[step.key]
        holders = _list_holders(self._root)
        return holders.keys() == self._holders.keys() and all(
            _is_same_holder(holder, self._holders[key]) for key, holder in holders.items()
        )

    def _has_same_ends(self, now: datetime, learnt: int) -> bool:
        """Return whether all workloads that the forecast has started are still expected to end as forecast."""
        ends, find_end = self._play.ends, self._play.find_end
        if any(find_end(holder, now) != ends[key] for key, holder in self._holders.items()):
            return False
        if learnt == self._learnt:
            return True
        self._learnt = learnt
        starts = (step for step in self._play.steps if step.holder is not None)
        return all(step.holder is None or find_end(step.holder, step.at) == ends[step.key] for step in starts)

    def _add_new(self, queues: Queues, now: datetime) -> bool:
        """Add new workloads; return whether they leave the forecast so far unchanged."""
        waiting = {key for name in self._names for key in queues.list_waiting(name)}
        if any(queues.workload(key) is not workload for key, workload in self._waiting.items()):
            return False
        came = [one for key in waiting - self._waiting.keys() if (one := queues.workload(key)) is not None]
        is_ahead = self._play.now > now
        self._play.now = max(self._play.now, now)
        for workload in sorted(came, key=lambda one: (one.queued, one.key)):
            if is_ahead and not self._is_last(workload):
                return False
            self._play.add(workload)
            self._waiting[workload.key] = workload
        return _preempts_none(self._root, chain(self._holders.values(), self._waiting.values()))

    def _is_last(self, workload: WorkloadInfo) -> bool:
        """Return whether a workload is tried after all workloads that the forecast has decided about so far."""
        queues, latest = self._play.queues, self._play.latest
        if queues.is_behind(workload):
            return True
        # the last start left too little quota for all workloads before this one, and no quota is reserved for them
        return latest is not None and not queues.parked and queues.is_after(workload, latest)


def _copy_quota(tree: Tree, root: Node) -> Tree:
    """Return a copy of the quotas below a root, with the workloads that hold quota there.

    root: a root Cohort, or a ClusterQueue without a Cohort.

    The topology domains that jobs of other roots occupy count as occupied in the copy.
    """
    copy = Tree()
    if tree.ledger.in_use:
        copy.ledger = tree.ledger.make_empty()
        copy.ledger.in_use = True
        for node in tree.queues.values():
            if node.root is not root:
                for workload in node.workloads.values():
                    copy.ledger.take(workload.places)
    cohorts = [] if root.is_queue else [root]
    while cohorts:
        node = cohorts.pop()
        if isinstance(node.spec, CohortSpec):
            copy.set_cohort(node.spec)
        cohorts.extend(node.cohorts())
    for node in root.queues():
        copy.set_queue(node.policy)
        for workload in node.workloads.values():
            copy.hold(workload)
    return copy


def _list_specs(root: Node) -> list[object]:
    """Return the specs of a root and all nodes below it, in order."""
    return [root.spec] + [spec for child in root.children.values() for spec in _list_specs(child)]


def _preempts_none(root: Node, workloads: Iterable[WorkloadInfo]) -> bool:
    """Return whether none of these workloads of a quota tree may preempt others, by the rules of their queues."""
    rules = [node.policy.preemption for node in root.queues()]
    if len(rules) > 1 and any(rule.within_cohort != "Never" for rule in rules):
        return False
    inside = {rule.within_queue for rule in rules}
    return inside <= {"Never"} or (
        inside <= {"Never", "LowerPriority"} and len({one.priority for one in workloads}) == 1
    )


def _list_holders(root: Node) -> dict[str, WorkloadInfo]:
    return {key: holder for node in root.queues() for key, holder in node.workloads.items()}


def _is_same_holder(one: WorkloadInfo, other: WorkloadInfo) -> bool:
    """Return whether two states of a workload hold the same quota. Its readiness and admission are ignored."""
    return one is other or astuple(replace(one, ready=False, admitted=False)) == astuple(
        replace(other, ready=False, admitted=False)
    )
