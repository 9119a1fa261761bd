"""Run the start of groups: count the pods that have started, and carry out a `StartPlan`.

Each pod event is counted in constant time, whatever the size of the group. The JobSet is reconciled when its first pod
has started and when all have. Between these, it is reconciled at an interval, to show the progress. So a group of
thousands of pods costs a few reconciles and a few writes.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, POD, ConfigMap, Pod
from muster.api.jobset import JobSet, names
from muster.api.notes import Note
from muster.api.status import ApiError
from muster.controllers.jobset.owned import is_of
from muster.controllers.jobset.release import Release
from muster.jobs.jobset.start.barrier import ENDPOINT, config_map_name
from muster.jobs.jobset.start.decide import Failure, StartedPods, StartPlan
from muster.jobs.jobset.start.group import GroupKey, Member, epoch_of, find_started_member
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import Expectations, MutationCache
from muster.runtime.objects import key_of, merge_patch
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError
from muster.runtime.writes import Refusal

# The interval at which the status shows how many pods have started.
PROGRESS_SECONDS = 1.0
# The delay of writing the ConfigMap after connected barriers were released. Nodes then update the volumes of all pods,
# which must not delay the main containers.
AFTER_RELEASE_SECONDS = 0.5
# A foreign ConfigMap is read again after as long as it has already blocked the group, within these bounds. It lacks
# Muster's label, so no event reports its deletion.
FOREIGN_SECONDS = 10.0
FOREIGN_SECONDS_MOST = 160.0


class _Group(Struct):
    """The started pods of a group in one epoch: by the UID of their Job, how many started pods each index has."""

    jobs: dict[str, dict[str, int]] = field(default_factory=dict)
    count: int = 0  # the number of indexes with started pods
    expected: int = -1  # the expected number at the last reconcile; -1 before the first


class Starting:
    """The part of the JobSet controller that counts started pods and carries out the plan for a group's start.

    wake: queues a JobSet after a number of seconds.
    """

    def __init__(self, manager: Manager, release: Release, wake: Callable[[str, float], None]) -> None:
        self._client, self._clock = manager.client, manager.clock
        self._release = release
        self._wake = wake
        self._groups: dict[GroupKey, _Group] = {}
        self._held_up: dict[str, float] = {}  # by the UID of a JobSet whose ConfigMap has another owner: since when
        config_maps = manager.informer(CONFIG_MAP, labels=names.JOBSET_NAME)
        self._config_maps = MutationCache(config_maps.get)
        config_maps.on_change(self._on_config_map_changed)
        manager.informer(POD).on_change(self._on_pod_changed)

    def find_started_pods(self, jobset: JobSet) -> StartedPods:
        """Return the observed state of the JobSet's group in its current epoch: which pods have started."""
        meta = jobset.metadata
        group = self._groups.get((meta.namespace, meta.uid, epoch_of(jobset)))
        started_indexes = {job: frozenset(indexes) for job, indexes in group.jobs.items()} if group is not None else {}
        config_map = self._config_maps.get(f"{meta.namespace}/{config_map_name(meta.name)}")
        is_own = config_map is not None and is_of(config_map, jobset)
        blocked = not is_own and meta.uid in self._held_up
        endpoint = ""
        if jobset.spec.group_scheduling_config is not None:
            written_endpoint = config_map.data.get(ENDPOINT, "") if config_map is not None and is_own else ""
            endpoint = self._release.make_endpoint_line(meta.uid, written_endpoint)
        return StartedPods(started_indexes, endpoint, kept=is_own, blocked=blocked)

    def forget(self, uid: str) -> None:
        """Drop the counts of a deleted JobSet."""
        self._held_up.pop(uid, None)
        self._release.forget(uid)

    async def perform(
        self, jobset: JobSet, plan: StartPlan | None, record_event: Callable[[Note], None], expected: Expectations
    ) -> list[Refusal]:
        """Carry out the plan; return the server's refusals."""
        if plan is None:
            return []
        meta = jobset.metadata
        if plan.status is not None:
            self._release.set_epoch(meta.uid, plan.status.epoch, plan.status.expected)
        if plan.released and self._release.release_group(meta.uid, plan.released):
            self._wake(key_of(jobset), AFTER_RELEASE_SECONDS)
            return []
        if plan.status is not None and (group := self._groups.get((meta.namespace, meta.uid, plan.status.epoch))):
            group.expected = plan.status.expected
        try:
            if plan.config_map is not None:
                await self._ensure_config_map(jobset, plan.config_map, record_event)
            if plan.failure is not None:
                await self._fail(plan.failure, expected)
        except (ApiError, TransportError) as error:
            return [error]
        return []

    # Counting.

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before = find_started_member(old) if old is not None else None
        after = find_started_member(new) if new is not None else None
        if before == after:
            return
        pod = new if new is not None else old
        assert pod is not None
        key = f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.JOBSET_NAME, '')}"
        if before is not None:
            self._remove_member(before)
            self._wake(key, PROGRESS_SECONDS)
        if after is not None:
            group = self._add_member(after)
            decisive = group.count == 1 or group.expected < 0 or group.count >= group.expected
            self._wake(key, 0.0 if decisive else PROGRESS_SECONDS)

    def _add_member(self, member: Member) -> _Group:
        group = self._groups.setdefault(member.group, _Group())
        indexes = group.jobs.setdefault(member.job, {})
        indexes[member.index] = indexes.get(member.index, 0) + 1
        group.count += indexes[member.index] == 1
        return group

    def _remove_member(self, member: Member) -> None:
        group = self._groups[member.group]
        indexes = group.jobs[member.job]
        indexes[member.index] -= 1
        if not indexes[member.index]:
            del indexes[member.index]
            group.count -= 1
        if not indexes:
            del group.jobs[member.job]
        if not group.jobs:
            del self._groups[member.group]

    # Writing.

    def _on_config_map_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        """Queue the JobSet after a user changed its ConfigMap; ignore this controller's own write."""
        config_map = new if new is not None else old
        assert config_map is not None
        if self._config_maps.is_news(key_of(config_map), new):
            jobset = config_map.metadata.name.removesuffix(names.GROUP_SCHEDULING_SUFFIX)
            self._wake(f"{config_map.metadata.namespace}/{jobset}", 0.0)

    async def _ensure_config_map(
        self, jobset: JobSet, desired: ConfigMap, record_event: Callable[[Note], None]
    ) -> None:
        """Create the ConfigMap, or correct its content. A ConfigMap of another owner stays, and blocks the group."""
        meta = jobset.metadata
        existing = self._config_maps.get(key_of(desired))
        if existing is None:
            existing = await self._find_or_create(desired, held_up=meta.uid in self._held_up)
        if existing is None:
            self._wake(key_of(jobset), 0.0)
        elif not is_of(existing, jobset):
            if meta.uid not in self._held_up:
                text = f'ConfigMap "{desired.metadata.name}" does not belong to this JobSet'
                message = f"{text}: its main containers do not start"
                record_event(Note("Warning", "GroupSchedulingBlocked", message))
                self._held_up[meta.uid] = self._clock.monotonic()
                self._wake(key_of(jobset), 0.0)  # the next reconcile reports it in the status
            seconds = self._clock.monotonic() - self._held_up[meta.uid]
            self._wake(key_of(jobset), min(max(seconds, FOREIGN_SECONDS), FOREIGN_SECONDS_MOST))
        else:
            if self._held_up.pop(meta.uid, None) is not None:
                self._wake(key_of(jobset), 0.0)
            labels = existing.metadata.labels | desired.metadata.labels
            mended = replace(
                existing, data=desired.data, binary_data={}, metadata=replace(existing.metadata, labels=labels)
            )
            if patch := merge_patch(mended, existing):
                self._config_maps.wrote(await self._client.patch_object(CONFIG_MAP, existing, patch))

    async def _find_or_create(self, desired: ConfigMap, *, held_up: bool) -> ConfigMap | None:
        """Create the ConfigMap, or return the existing one of that name, which may belong to another owner.

        Return None if it was deleted in between.

        held_up: whether a ConfigMap of another owner blocked the group before. If so, look for it before creating one.
        """
        find = partial(self._client.find, CONFIG_MAP, desired.metadata.name, desired.metadata.namespace)
        if held_up and (existing := await find()) is not None:
            return existing
        with ignoring("AlreadyExists"):
            return await self._client.create(CONFIG_MAP, desired)
        return await find()

    async def _fail(self, failure: Failure, expected: Expectations) -> None:
        """Write the condition that announces a Job's failure.

        The Job controller then ends the pods, and the Job fails.
        """
        patch = {"status": {"conditions": [msgspec.to_builtins(failure.condition)]}}
        with ignoring("NotFound"):
            job = await self._client.patch_object(
                JOB, failure.job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
            expected.wrote(job)
