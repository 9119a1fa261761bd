"""Reconcile workloads that run in another cluster.

`dispatch.decide` decides; this module reads the state, writes to the manager's cluster, and starts errands in workers.
It may be interrupted between any two writes; the next reconcile continues.

The *home* of a workload is the one worker cluster in which its job may be created.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.config.types import MultiKueue
from muster.api.core import POD
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    MULTI_KUEUE_CONFIG,
    WORKLOAD,
    AdmissionCheck,
    MultiKueueConfig,
    Workload,
    WorkloadStatus,
)
from muster.api.kueue.names import ADMITTED, FINISHED, MULTI_KUEUE_CONTROLLER, PODS_READY, RESOURCE_IN_USE_FINALIZER
from muster.api.managed.dispatch import HOME_ANNOTATION, REFUSED_ANNOTATION, home_of
from muster.api.notes import Note
from muster.api.ours.decisions import Decision, Subject
from muster.multicluster.dispatch.decide import EVENT, decide, has_ended_for_good, is_clear, of_workload
from muster.multicluster.dispatch.decisions import describe_dispatch
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView, Remote, dispatch_settings
from muster.multicluster.dispatched import Dispatched, is_group, owners_of
from muster.multicluster.errands import Errand, Errands, await_all_steps
from muster.multicluster.links.clusters import Fleet
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.links.sanitizing import one_line
from muster.multicluster.metrics import DispatchMetrics
from muster.multicluster.mirrors.framework import Mirror
from muster.multicluster.prospects import Prospects
from muster.multicluster.removal import remove
from muster.multicluster.steps import GOING_SECONDS, Steps
from muster.multicluster.worker import Worker
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import MutationCache
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, key_of, make_reference, merge_patch, meta_of
from muster.runtime.refusals import ignoring

WORKERS: Final = 16
# Events of workers about a workload within this time are handled by one reconcile (upstream waits 1 s).
GATHER_SECONDS = 0.1
# A write of this controller has executed the decision, which is checked again after this time.
CHECK_SECONDS = 1.0

# Conditions of a workload in the manager's cluster that no decision reads.
_UNREAD_CONDITIONS = (ADMITTED, PODS_READY)

_BY_OWNER, _BY_CHECK = "dispatch-owner", "dispatch-check"

Decided: TypeAlias = Callable[[Decision], None]
Step: TypeAlias = Callable[[Worker, Dispatched], Awaitable[Result]]


def keep_nothing(decision: Decision) -> None:
    """Ignore a decision record; the default of `DispatchController`."""


class DispatchController(Reconciler):
    """The controller of workloads with a MultiKueue check. A `Manager` runs it.

    fleet: the worker clusters.
    mirrors: the kinds of jobs that can be dispatched.
    decided: called with each record of a decision.
    """

    name = "multikueue-workload"

    def __init__(
        self,
        manager: Manager,
        fleet: Fleet,
        mirrors: Iterable[Mirror[Any]],
        recorder: Recorder,
        configuration: MultiKueue,
        decided: Decided = keep_nothing,
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._decided = decided
        self._fleet, self._recorder = fleet, recorder
        self._mirrors = {(mirror.kind.api_version, mirror.kind.kind): mirror for mirror in mirrors}
        self._settings = dispatch_settings(configuration, manager.clock.now())
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_OWNER: _index_by_owner, _BY_CHECK: _list_checks_of})
        self._prospects = Prospects(fleet, self._workloads, manager.clock, configuration.dispatcher_name)
        self._checks = manager.informer(ADMISSION_CHECK)
        self._configs = manager.informer(MULTI_KUEUE_CONFIG, optional=True)
        self._jobs = {key: manager.informer(mirror.kind, optional=True) for key, mirror in self._mirrors.items()}
        self._latest_jobs = {key: MutationCache(jobs.get) for key, jobs in self._jobs.items()}
        self._unknown: dict[str, datetime] = {}  # clusters that are named but do not exist, and since when
        self._gone: set[str] = set()  # deleted workloads whose objects in workers have not been removed yet
        self._known = MutationCache(self._workloads.get)
        self._metrics = DispatchMetrics(manager.registry)
        self._steps = Steps(manager.client, manager.clock, configuration.origin, self._metrics, self._note_written_job)
        decide_again = self._controller.queue.add_after
        self._errands = Errands(manager.clock, manager.random, decide_again, self._log_failure)
        self._workloads.on_change(self._on_workload)
        self._controller.watch(self._checks, self._find_keys_of_check, when=_has_spec_changed)
        self._controller.watch(self._configs, self._find_keys_of_config, when=_has_spec_changed)
        for key, jobs in self._jobs.items():
            jobs.on_change(partial(self._forget_shown_job, self._latest_jobs[key]))
            self._controller.watch(jobs, self._find_keys_of_job)
        fleet.on_change(partial(self._controller.queue.add_after, seconds=GATHER_SECONDS))
        fleet.on_standing(self._on_cluster_standing)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Queue a workload whose change may affect a decision. Drop a remembered write that the informer now shows."""
        seen = new if new is not None else old
        assert seen is not None
        key = key_of(seen)
        is_news = self._known.is_news(key, new)
        (self._gone.add if new is None else self._gone.discard)(key)
        if self._may_be_dispatched(old, new) and has_decision_changed(old, new):
            self._controller.queue.add_after(key, 0.0 if is_news else CHECK_SECONDS)

    def _note_written_job(self, kind: Kind[Any], job: Any) -> None:
        self._latest_jobs[kind.api_version, kind.kind].wrote(job)

    def _forget_shown_job(self, latest: MutationCache[Any], old: Any | None, new: Any | None) -> None:
        """Drop a remembered write to a job that the informer now shows."""
        latest.is_news(key_of(old if new is None else new), new)

    def _may_be_dispatched(self, old: Workload | None, new: Workload | None) -> bool:
        """Return whether a changed workload may need a decision about its dispatch.

        If the manager has no worker clusters, only a workload with admission checks or with a home needs one.
        """
        return (
            new is None
            or self._fleet.has_clusters
            or bool(new.status.admission_checks or home_of(new.metadata))
            or (old is not None and bool(old.status.admission_checks or home_of(old.metadata)))
        )

    def _find_keys_of_job(self, job: Any) -> Iterable[str]:
        return map(key_of, self._workloads.by(_BY_OWNER, meta_of(job).uid))

    def _find_keys_of_check(self, check: AdmissionCheck) -> Iterable[str]:
        return map(key_of, self._workloads.by(_BY_CHECK, check.metadata.name))

    def _find_keys_of_config(self, config: MultiKueueConfig) -> Iterable[str]:
        for check in self._select_multikueue_checks().values():
            if check.spec.parameters is not None and check.spec.parameters.name == config.metadata.name:
                yield from self._find_keys_of_check(check)

    def _on_cluster_standing(self, _cluster: str) -> None:
        """Queue the workloads without a home, because a cluster was connected or lost, or serves other kinds."""
        for name in self._select_multikueue_checks():
            for workload in self._workloads.by(_BY_CHECK, name):
                if not home_of(workload.metadata):
                    self._controller.queue.add(key_of(workload))

    async def run(self) -> None:
        """Reconcile until `stop`, then cancel the running errands."""
        try:
            await super().run()
        finally:
            await self._errands.close()

    # One reconcile of one workload.

    async def _reconcile(self, key: str) -> Result:
        workload = self._known.get(key)
        if workload is None:
            self._steps.forget(key)
            self._prospects.forget(key)
            self._clear_deleted(key)
            return None
        one = self._make_dispatched(workload)
        view = self._make_view(one)
        if not view.check and not view.home and all(remote.is_empty for remote in view.remotes):
            return None
        plan = decide(view, self._settings, self._clock.now())
        self._prospects.follow_plan(view, plan)
        with ignoring("NotFound", "Conflict"):
            records = tuple(describe_dispatch(view, plan, _find_subject(one), self._clock.now()))
            if plan.home == view.home:
                result = await self._carry_out(one, plan)
                self._record(records)
                return result
            return await self._move_home(one, view, plan.home, records)
        return GATHER_SECONDS  # the workload has changed, and the cache will show that

    def _clear_deleted(self, key: str) -> None:
        """Queue the removal of a deleted workload's objects from reachable clusters.

        Garbage collection removes the rest.
        """
        deleted = (
            there for name in self._fleet.list_names() if (there := self._fleet.get(name)) and there.lost_since is None
        )
        remaining = [there for there in deleted if there.workload(key) is not None or there.jobs_of(key)]
        if key not in self._gone or not remaining:
            self._gone.discard(key)
            self._errands.forget(key)
            return
        clear = {there.name: Errand("clear", partial(self._clear_in, there, key)) for there in remaining}
        self._errands.want(key, clear)

    async def _clear_in(self, there: RemoteCluster, key: str) -> Result:
        return None if await remove(there.client, there.jobs_of(key), there.workload(key)) else GOING_SECONDS

    def _make_dispatched(self, workload: Workload) -> Dispatched:
        owners = owners_of(workload.metadata)
        kind = (owners[0].api_version, owners[0].kind) if owners else ("", "")
        if not owners and is_group(workload.metadata):
            kind = (POD.api_version, POD.kind)
        owners = tuple(owner for owner in owners if (owner.api_version, owner.kind) == kind)
        mirror, jobs = self._mirrors.get(kind), self._latest_jobs.get(kind)
        if jobs is None:
            return Dispatched(workload, owners, mirror, ())
        owner_jobs = ((owner, jobs.get(f"{workload.metadata.namespace}/{owner.name}")) for owner in owners)
        here = tuple(job for owner, job in owner_jobs if job is not None and meta_of(job).uid == owner.uid)
        return Dispatched(workload, owners, mirror, here)

    def _make_view(self, dispatched: Dispatched) -> DispatchView:
        """Collect the input of the decision about a workload.

        If the workload waits for a home, the clusters in `remotes` get estimated start times where they are needed.
        """
        home = home_of(dispatched.workload.metadata)
        checks = self._select_multikueue_checks()
        name = of_workload(dispatched.workload.status, checks)
        parameters = checks[name].spec.parameters if name else None
        config = self._configs.get(parameters.name) if parameters is not None else None
        chosen = config.spec.clusters if config is not None else ()
        clusters = dict.fromkeys((*chosen, *filter(None, (home,)), *self._fleet.list_names()))
        remotes = tuple(self._make_remote(cluster, dispatched, chosen_for=cluster in chosen) for cluster in clusters)
        if name and not home and dispatched.cluster_queue:
            remotes = self._prospects.find_remotes(dispatched.workload, remotes)
        return DispatchView(
            dispatched.workload,
            name,
            home,
            dispatched.objection,
            mirrored=self._is_mirrored(dispatched, home),
            ended_since=self._steps.note_end(dispatched) if home else None,
            remotes=remotes,
            lead=self._prospects.lead(dispatched.key),
        )

    def _select_multikueue_checks(self) -> dict[str, AdmissionCheck]:
        checks = (check for check in self._checks.all() if check.spec.controller_name == MULTI_KUEUE_CONTROLLER)
        return {check.metadata.name: check for check in checks}

    def _make_remote(self, cluster: str, dispatched: Dispatched, *, chosen_for: bool) -> Remote:
        there = self._fleet.get(cluster)
        if there is None:
            return Remote(cluster, chosen_for, lost_since=self._unknown.setdefault(cluster, self._clock.now()))
        self._unknown.pop(cluster, None)
        chosen_for = chosen_for and (dispatched.mirror is None or there.serves(dispatched.mirror.kind))
        copies = self._steps.worker(there).list_copies(dispatched)
        barred = len(copies.own) < len(dispatched.job_names) and cluster in self._steps.list_barred(dispatched.key)
        clone, job, is_tried = there.workload(dispatched.key), dispatched.summarize(copies), there.activity is not None
        return Remote(cluster, chosen_for, there.lost_since, clone, job, is_barred=barred, is_tried=is_tried)

    def _is_mirrored(self, dispatched: Dispatched, home: str) -> bool:
        """Return whether the clone at home has finished and the manager's jobs show that their copies have."""
        there = self._fleet.get(home)
        clone = there.workload(dispatched.key) if there is not None else None
        if there is None or clone is None or not is_true(clone.status.conditions, FINISHED):
            return False
        copies = self._steps.worker(there).list_copies(dispatched).own
        return all(self._is_shown(dispatched, job, copies.get(meta_of(job).name)) for job in dispatched.jobs)

    def _is_shown(self, dispatched: Dispatched, job: Any, copy: Any | None) -> bool:
        """Return whether a job in the manager shows that its copy at home has finished.

        Return True, too, if nothing more can be shown: the kind has no mirror, or the manager's server refused the
        copy's status. Without a copy in its final state, that also holds if the job is being deleted or has finished,
        or if the final state was read from the worker.

        copy: the cached copy. None, or a running copy, proves nothing, because the watch may be behind.
        """
        mirror, meta = dispatched.mirror, meta_of(job)
        if mirror is None:
            return True
        if copy is not None and self._steps.is_last(dispatched, copy):
            return self._steps.is_unshown(dispatched, copy) or mirror.status(job, copy) == {}
        is_going = meta.deletion_timestamp is not None
        return is_going or mirror.has_ended(job) or self._steps.was_read(dispatched, meta.name)

    # Steps.

    def _record(self, records: Iterable[Decision]) -> None:
        for decision in records:
            self._decided(decision)

    async def _move_home(
        self, dispatched: Dispatched, view: DispatchView, home: str, records: tuple[Decision, ...]
    ) -> Result:
        """Store the home; return when to decide again.

        The home is given up only if the cluster is lost, if the workload has finished there permanently, or if a read
        of the cluster shows none of the workload's objects.
        """
        before, there = view.home, self._fleet.get(view.home)
        if there is None or there.lost_since is not None or self._has_ended_for_good(dispatched, view, there):
            await self._store_home(dispatched, home)
            self._record(records)
            return 0.0
        leave = partial(self._run_steps, before, dispatched, (partial(self._leave_home, home=home, records=records),))
        self._errands.want(dispatched.key, {before: Errand(("leave", home), leave)})
        return None

    def _has_ended_for_good(self, dispatched: Dispatched, view: DispatchView, home: RemoteCluster) -> bool:
        """Return whether the cache proves that the workload has finished at home, and no creation request is pending.

        The cache must show the finished job: a missing job, or a missing pod of a group, proves nothing.
        """
        if (
            not home.is_certain
            or is_group(dispatched.workload.metadata)
            or self._steps.unsettled_seconds(dispatched) > 0
        ):
            return False
        remote = next((remote for remote in view.remotes if remote.cluster == home.name), None)
        if remote is None or remote.job is None or not remote.job.ended:
            return False
        return has_ended_for_good(dispatched.workload, remote)

    async def _leave_home(
        self, worker: Worker, dispatched: Dispatched, *, home: str, records: tuple[Decision, ...]
    ) -> Result:
        if (wait := self._steps.unsettled_seconds(dispatched)) > 0:
            return wait
        clear = is_clear(dispatched.workload, await worker.read_remote(dispatched))
        if not (clear and await worker.there.is_same_cluster()):  # otherwise another cluster may have answered
            return GOING_SECONDS
        await self._store_home(dispatched, home)
        self._record(records)
        return 0.0

    async def _store_home(self, dispatched: Dispatched, home: str) -> None:
        meta = dispatched.workload.metadata
        patch: dict[str, Any] = {"annotations": {HOME_ANNOTATION: home or None, REFUSED_ANNOTATION: None}}
        if not home and is_true(dispatched.workload.status.conditions, FINISHED) and not is_group(meta):
            # Nothing else holds the finalizer of a job's ended workload (`Workloads.remove_finalizer`).
            left = [finalizer for finalizer in meta.finalizers if finalizer != RESOURCE_IN_USE_FINALIZER]
            patch["finalizers"] = left or None
        self._known.wrote(await self._client.patch_object(WORKLOAD, dispatched.workload, {"metadata": patch}))

    async def _carry_out(self, dispatched: Dispatched, plan: DispatchPlan) -> Result:
        if plan.status != dispatched.workload.status:
            dispatched = await self._store_status(dispatched, plan.status)
        for note in plan.notes:
            self._record_event(dispatched.workload, note)
        self._errands.want(dispatched.key, self._list_errands(dispatched, plan))
        if (
            plan.stopped and dispatched.mirror is not None
        ):  # last, because the manager's server may refuse it permanently
            for job in dispatched.jobs:
                await self._steps.write_status(
                    dispatched, job, dispatched.mirror.make_stop_patch(job, self._clock.now())
                )
        return None if plan.wake_at is None else max(0.0, (plan.wake_at - self._clock.now()).total_seconds())

    async def _store_status(self, dispatched: Dispatched, status: WorkloadStatus) -> Dispatched:
        """Store the status of the workload; return the stored workload, from which clones can be made."""
        before = dispatched.workload.status
        document = await self._client.patch_object(
            WORKLOAD.seen_as(dict), dispatched.workload, {"status": merge_patch(status, before)}, subresource="status"
        )
        workload = WORKLOAD.typed(document)
        self._known.wrote(workload)
        if status.cluster_name and before.cluster_name is None:
            self._metrics.count_admission(dispatched.cluster_queue, status.cluster_name)
        return replace(dispatched, workload=workload, document=document)

    def _list_errands(self, dispatched: Dispatched, plan: DispatchPlan) -> dict[str, Errand]:
        """Return the errands of a plan, by cluster; a lost cluster gets none."""
        asked: list[tuple[str, Step]] = [
            *((cluster, self._steps.create) for cluster in plan.create),
            *((cluster, self._steps.align) for cluster in plan.align),
            *((cluster, self._steps.remove) for cluster in plan.remove),
            (plan.evict, self._steps.evict),
            (plan.mirror, self._steps.mirror),
        ]
        if not plan.home:
            asked += ((cluster, self._steps.recheck_barred) for cluster in self._steps.list_barred(dispatched.key))
        steps: dict[str, tuple[Step, ...]] = {}
        for cluster, step in asked:
            there = self._fleet.get(cluster)
            if there is not None and there.lost_since is None:
                steps[cluster] = (*steps.get(cluster, ()), step)
        return {
            cluster: Errand(cluster_steps, partial(self._run_steps, cluster, dispatched, cluster_steps))
            for cluster, cluster_steps in steps.items()
        }

    async def _run_steps(self, cluster: str, dispatched: Dispatched, steps: Iterable[Step]) -> Result:
        """Run these steps in a worker concurrently; return the least seconds until the next decision."""
        there = self._fleet.get(cluster)
        if there is None:
            return None
        worker = self._steps.worker(there)
        return await await_all_steps(step(worker, dispatched) for step in steps)

    def _log_failure(self, key: str, cluster: str, error: Exception) -> None:
        if self._prospects.end_head_start(key, cluster):
            self._controller.queue.add(key)
        workload = self._known.get(key)
        if workload is not None:
            self._record_event(workload, Note("Warning", EVENT, f'Worker cluster "{cluster}": {one_line(str(error))}'))

    def _record_event(self, workload: Workload, note: Note) -> None:
        self._recorder.event(make_reference(WORKLOAD, workload), note.type, note.reason, note.message)


def _find_subject(dispatched: Dispatched) -> Subject:
    """Return the job of a workload, as a subject of records; the workload itself for a group of pods."""
    meta = dispatched.workload.metadata
    if len(dispatched.owners) == 1 and not is_group(meta):
        return Subject(f"{dispatched.namespace}/{dispatched.owners[0].name}", dispatched.owners[0].uid)
    return Subject(dispatched.key, meta.uid)


def has_decision_changed(old: Workload | None, new: Workload | None) -> bool:
    """Return whether a workload was added or deleted, or a field changed that `decide` reads."""
    return old is None or new is None or _list_read_parts(old) != _list_read_parts(new)


def _list_read_parts(workload: Workload) -> tuple[object, ...]:
    meta, status = replace(workload.metadata, resource_version=""), workload.status
    conditions = tuple(one for one in status.conditions if one.type not in _UNREAD_CONDITIONS)
    return meta, workload.spec, replace(status, conditions=conditions)


@ignores_status
def _index_by_owner(workload: Workload) -> Iterable[str]:
    return [owner.uid for owner in owners_of(workload.metadata)]


def _list_checks_of(workload: Workload) -> Iterable[str]:
    """Return the names of the workload's checks; none if it has finished."""
    over = is_true(workload.status.conditions, FINISHED)
    return () if over else [check.name for check in workload.status.admission_checks]


def _has_spec_changed(
    old: AdmissionCheck | MultiKueueConfig | None, new: AdmissionCheck | MultiKueueConfig | None
) -> bool:
    return old is None or new is None or old.spec != new.spec
