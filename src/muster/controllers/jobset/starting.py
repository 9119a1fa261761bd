"""The shell of the start of groups: counts the pods that have started, and does what a `StartPlan` says.

Pods are counted as their events come, each in the same time however many there are, and their JobSet is looked at when
the first has started and when all have; in between once in a while, for people. So a group of thousands costs a few
looks and a few writes.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, POD, ConfigMap, Pod
from muster.api.jobset import JobSet, names
from muster.api.notes import Note
from muster.api.status import ApiError
from muster.controllers.jobset.owned import jobset_reference
from muster.controllers.jobset.release import Release
from muster.jobs.jobset.start.decide import Failure, GroupStanding, StartPlan
from muster.jobs.jobset.start.group import Member, standing_of, started
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, merge_patch, revision_of
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError
from muster.runtime.writes import Refusal

# How long people wait for the number of pods that have started.
PROGRESS_SECONDS = 1.0
# The ConfigMap is written so long after those who wait here have heard: nodes then bring the volumes of all pods up to
# date, which must not hold up the main containers.
AFTER_RELEASE_SECONDS = 0.5
# What has the name of a ConfigMap of ours is looked at again after this.
FOREIGN_SECONDS = 10.0


class _Group(Struct):
    """The pods of one epoch that have started: by Job, how many pods there are of each index."""

    jobs: dict[str, dict[str, int]] = field(default_factory=dict)
    count: int = 0  # of indexes
    expected: int = -1  # as of the last look; -1: there was none


class Starting:
    """Part of the JobSet controller. wake: look at a JobSet in so many seconds."""

    def __init__(self, manager: Manager, release: Release, wake: Callable[[str, float], None]) -> None:
        self._client = manager.client
        self._release = release
        self._wake = wake
        self._groups: dict[tuple[str, int], _Group] = {}
        self._foreign: set[str] = set()  # keys of JobSets whose ConfigMap is of somebody else
        self._written: dict[str, ConfigMap] = {}  # by key, until the cache is as new
        self._config_maps = manager.informer(CONFIG_MAP, labels=names.JOBSET_NAME)
        self._config_maps.on_change(self._config_map_changed)
        manager.informer(POD).on_change(self._pod_changed)

    def standing(self, jobset: JobSet) -> GroupStanding:
        """What is known of the present epoch."""
        group = self._groups.get((jobset.metadata.uid, standing_of(jobset).epoch))
        counts = {job: len(indexes) for job, indexes in group.jobs.items()} if group is not None else {}
        return GroupStanding(
            counts, self._release.endpoint(jobset.metadata.uid), blocked=key_of(jobset) in self._foreign
        )

    async def perform(self, jobset: JobSet, plan: StartPlan | None, tell: Callable[[Note], None]) -> list[Refusal]:
        """Do what the plan says; what was refused."""
        if plan is None:
            return []
        if plan.released and self._release.open(jobset.metadata.uid, plan.released):
            self._wake(key_of(jobset), AFTER_RELEASE_SECONDS)
            return []
        if plan.status is not None and (group := self._groups.get((jobset.metadata.uid, plan.status.epoch))):
            group.expected = plan.status.expected
        try:
            if plan.config_map is not None:
                await self._keep(jobset, plan.config_map, tell)
            if plan.failure is not None:
                await self._fail(plan.failure)
        except (ApiError, TransportError) as error:
            return [error]
        return []

    # Counting.

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before = started(old) if old is not None else None
        after = started(new) if new is not None else None
        if before == after:
            return
        pod = new if new is not None else old
        assert pod is not None
        key = f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.JOBSET_NAME, '')}"
        if before is not None:
            self._left(before)
            self._wake(key, PROGRESS_SECONDS)
        if after is not None:
            group = self._came(after)
            decisive = group.count == 1 or group.expected < 0 or group.count >= group.expected
            self._wake(key, 0.0 if decisive else PROGRESS_SECONDS)

    def _came(self, member: Member) -> _Group:
        group = self._groups.setdefault((member.jobset_uid, member.epoch), _Group())
        indexes = group.jobs.setdefault(member.job, {})
        indexes[member.index] = indexes.get(member.index, 0) + 1
        group.count += indexes[member.index] == 1
        return group

    def _left(self, member: Member) -> None:
        key = member.jobset_uid, member.epoch
        group = self._groups[key]
        indexes = group.jobs[member.job]
        indexes[member.index] -= 1
        if not indexes[member.index]:
            del indexes[member.index]
            group.count -= 1
        if not indexes:
            del group.jobs[member.job]
        if not group.jobs:
            del self._groups[key]

    # Writing.

    def _config_map_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        """What a user does to it is undone: the JobSet is looked at, unless we know this state as ours."""
        found = new if new is not None else old
        assert found is not None
        key = key_of(found)
        written = self._written.get(key)
        if new is not None and written is not None and revision_of(new) < revision_of(written):
            return
        self._written.pop(key, None)
        if new is not None and written is not None and revision_of(new) == revision_of(written):
            return
        if (owner := jobset_reference(found)) is not None:
            self._wake(f"{found.metadata.namespace}/{owner.name}", 0.0)

    async def _keep(self, jobset: JobSet, wanted: ConfigMap, tell: Callable[[Note], None]) -> None:
        """The ConfigMap is there, and as it should be. One of somebody else is left alone, and holds the group up."""
        key, owner = key_of(wanted), key_of(jobset)
        known = self._written.get(key) or self._config_maps.get(key)
        if known is None:
            with ignoring("AlreadyExists"):
                self._written[key] = await self._client.create(CONFIG_MAP, wanted)
                self._is_ours(owner)
                return
            known = await self._client.find(CONFIG_MAP, wanted.metadata.name, wanted.metadata.namespace)
            if known is None:
                self._wake(owner, 0.0)
                return
        reference = jobset_reference(known)
        if reference is None or reference.uid != jobset.metadata.uid:
            if owner not in self._foreign:
                self._foreign.add(owner)
                message = f'ConfigMap "{wanted.metadata.name}" is not of this JobSet: its main containers do not start'
                tell(Note("Warning", "GroupSchedulingBlocked", message))
            self._wake(owner, FOREIGN_SECONDS)
            return
        self._is_ours(owner)
        labels = known.metadata.labels | wanted.metadata.labels
        mended = replace(known, data=wanted.data, binary_data={}, metadata=replace(known.metadata, labels=labels))
        if patch := merge_patch(mended, known):
            self._written[key] = await self._client.patch_object(CONFIG_MAP, known, patch)

    def _is_ours(self, jobset: str) -> None:
        """The ConfigMap is the JobSet's; what was held up because it was not is looked at again."""
        if jobset in self._foreign:
            self._foreign.remove(jobset)
            self._wake(jobset, 0.0)

    async def _fail(self, failure: Failure) -> None:
        """The Job fails as the Job controller would have it: it ends the pods, and then says so."""
        patch = {"status": {"conditions": [msgspec.to_builtins(failure.condition)]}}
        with ignoring("NotFound"):
            await self._client.patch_object(
                JOB, failure.job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
