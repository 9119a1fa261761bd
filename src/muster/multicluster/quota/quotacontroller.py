"""Keep the quotas of ClusterQueues equal to the sum of their workers' quotas, if the MultiKueueConfig requests that."""

from typing import Any

import msgspec

from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    AdmissionCheck,
    ClusterQueue,
    LocalQueue,
    MultiKueueConfig,
)
from muster.api.kueue.checks import AUTOMATED
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER, MULTI_KUEUE_MANAGER_QUOTA_AUTOMATION
from muster.api.status import ApiError
from muster.multicluster.links.activity import find_reference_problem, has_changed_usability
from muster.multicluster.links.clusters import Fleet
from muster.multicluster.quota.quotas import WorkerQueues, make_unsupported_activity, plan_quota
from muster.queueing.conditions import drop, put, stamp_generation
from muster.queueing.pending.activity import Activity
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring, is_refusal

# Changes within this time are handled by one reconcile.
GATHER_SECONDS = 0.1

_BY_CLUSTER_QUEUE = "multikueue-cluster-queue"


class ManagerQuotaController(Reconciler):
    """The controller that sets the quotas of a manager's ClusterQueues to the sums of the quotas of their workers.

    It does so for each ClusterQueue whose MultiKueueConfig requests that. Only if there is one, it watches the queues
    of workers.
    """

    name = "multikueue_clusterqueue"

    def __init__(self, manager: Manager, fleet: Fleet) -> None:
        super().__init__(manager)
        self._fleet = fleet
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._local = manager.informer(LOCAL_QUEUE, indexes={_BY_CLUSTER_QUEUE: _get_cluster_queue_key})
        self._checks = manager.informer(ADMISSION_CHECK)
        self._configs = manager.informer(MULTI_KUEUE_CONFIG, optional=True)
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTER, optional=True)
        self._controller.watch(self._queues, when=_has_spec_changed)
        self._controller.watch(self._local, _get_cluster_queue_key, when=_has_spec_changed, gather=GATHER_SECONDS)
        self._controller.watch(self._checks, self._list_queues, when=_has_spec_changed, gather=GATHER_SECONDS)
        self._controller.watch(self._configs, self._list_queues, when=_has_spec_changed, gather=GATHER_SECONDS)
        self._controller.watch(self._clusters, self._list_queues, when=has_changed_usability, gather=GATHER_SECONDS)
        fleet.on_standing(lambda _cluster: self._enqueue_all())
        fleet.on_queues(self._enqueue_all)

    def _list_queues(self, _changed: object = None) -> list[str]:
        """Return the names of the ClusterQueues with AdmissionChecks. A change may affect all of them."""
        return [queue.metadata.name for queue in self._queues.all() if queue.spec.admission_checks_strategy is not None]

    def _enqueue_all(self) -> None:
        for name in self._list_queues():
            self._controller.queue.add_after(name, GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        queue = self._queues.get(key)
        if queue is None or queue.metadata.deletion_timestamp is not None:
            return None
        check = self._find_check(queue)
        if check is None:
            await self._write_condition(queue, None)
            return None
        config = self._find_config(check)
        plan = plan_quota(queue, config, self._read_workers(key, config))
        if plan is None:
            return None
        automation = plan.automation
        if plan.groups != queue.spec.resource_groups:
            try:
                queue = await self._client.patch_object(CLUSTER_QUEUE, queue, {"spec": {"resourceGroups": plan.groups}})
            except ApiError as error:
                if not is_refusal(error, "Forbidden", "Invalid"):  # refused by other limits or missing rights
                    raise
                automation = make_unsupported_activity(str(error))
        await self._write_condition(queue, automation)
        return None

    def _find_check(self, queue: ClusterQueue) -> AdmissionCheck | None:
        strategy = queue.spec.admission_checks_strategy
        rules = strategy.admission_checks if strategy is not None else ()
        checks = (self._checks.get(rule.name) for rule in rules)
        ours = (one for one in checks if one is not None and one.spec.controller_name == MULTI_KUEUE_CONTROLLER)
        return next(ours, None)

    def _find_config(self, check: AdmissionCheck) -> MultiKueueConfig | None:
        parameters = check.spec.parameters
        return (
            self._configs.get(parameters.name)
            if parameters is not None and not find_reference_problem(parameters)
            else None
        )

    def _read_workers(self, key: str, config: MultiKueueConfig | None) -> list[WorkerQueues]:
        if config is None or config.spec.quota_management != AUTOMATED:
            return []
        local = [key_of(one) for one in self._local.by(_BY_CLUSTER_QUEUE, key)]
        return [self._read_worker(name, local) for name in config.spec.clusters if self._clusters.get(name) is not None]

    def _read_worker(self, name: str, local: list[str]) -> WorkerQueues:
        there = self._fleet.get(name)
        if there is None or there.activity is None:  # no connection was attempted yet
            return WorkerQueues(name)
        if there.lost_since is not None:
            return WorkerQueues(name, lost=True)
        queues = there.follow_queues()
        if queues is None or not queues.known:
            return WorkerQueues(name)
        return WorkerQueues(name, queues=queues.behind(local), refusal=queues.refusal)

    async def _write_condition(self, queue: ClusterQueue, automation: Activity | None) -> None:
        """Write the condition about the automation of a ClusterQueue's quota, if it differs; None removes it."""
        before, type = queue.status.conditions, MULTI_KUEUE_MANAGER_QUOTA_AUTOMATION
        after = drop(before, type)
        if automation is not None:
            active, reason, message = automation.active, automation.reason, automation.message
            after = put(before, type, active, reason, message, self._clock.now())
        if after != before:
            conditions = msgspec.to_builtins(stamp_generation(before, after, queue.metadata.generation))
            with ignoring("NotFound"):
                patch = {"status": {"conditions": conditions}}
                await self._client.patch_object(CLUSTER_QUEUE, queue, patch, subresource="status")


def _get_cluster_queue_key(local: LocalQueue) -> tuple[str, ...]:
    return (local.spec.cluster_queue,)


def _has_spec_changed(old: Any, new: Any) -> bool:
    """Return whether the spec changed, and not only the status."""
    return old is None or new is None or old.spec != new.spec
