"""Write the status of PodGroups, in the fields and phases of each dialect."""

from collections.abc import Collection, Iterable
from typing import Any

from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.podgroups import volcano
from muster.api.podgroups.names import UNSCHEDULABLE
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.podgroup.census import count
from muster.jobs.podgroup.groupstate import GroupState, Stage, find_state
from muster.jobs.podgroup.record import read
from muster.jobs.podgroup.status import status_of
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, make_reference, merge_patch, split_key
from muster.runtime.refusals import ignoring

WORKERS = 8

# The minimum time between two writes about a group. One write covers all changes in between. The time grows with the
# number of changing groups, so that the statuses of a thousand groups do not slow the binding of their pods.
GATHER_SECONDS = 0.5
GATHER_SECONDS_PER_GROUP = 0.01

_BY_GROUP = "pod-group"


class PodGroupStatusController(Reconciler):
    """The reconciler of the status of PodGroups. Its keys are the keys of gangs and pods in the scheduler.

    It ignores a group whose pods all name another scheduler.
    """

    name = "podgroup"

    def __init__(self, manager: Manager, recorder: Recorder, groups: PodGroups, names: Collection[str]) -> None:
        """Watch groups and pods.

        names: the scheduler names for which Muster places pods.
        """
        super().__init__(manager, workers=WORKERS)
        self._recorder = recorder
        self._groups = groups
        self._names = names
        self._told: dict[str, str] = {}  # by key of a broken group, the message of its last event
        self._pods = manager.informer(POD, indexes={_BY_GROUP: self._index_by_group})
        self._informers = [(kind, manager.informer(kind, optional=True)) for kind in groups.kinds]
        self._pods.on_change(self._on_pod_changed)
        for _, informer in self._informers:
            informer.on_change(self._on_group_changed)

    @ignores_status
    def _index_by_group(self, pod: Pod) -> Iterable[str]:
        key = self._groups.key(pod)
        return (key,) if key else ()

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for key in {key for pod in (old, new) if pod is not None for key in self._index_by_group(pod)}:
            self._queue_soon(key)

    def _on_group_changed(self, _old: Any | None, new: Any | None) -> None:
        if new is not None:
            self._queue_soon(self._groups.key_of(new))

    def _queue_soon(self, key: str) -> None:
        queue = self._controller.queue
        queue.add_after(key, GATHER_SECONDS + queue.delayed * GATHER_SECONDS_PER_GROUP)

    async def _reconcile(self, key: str) -> Result:
        kind_and_group = self._find(key)
        if kind_and_group is None:
            self._told.pop(key, None)
            return None
        kind, group = kind_and_group
        pods = self._pods.by(_BY_GROUP, key)
        if pods and all(pod.spec.scheduler_name not in self._names for pod in pods):
            return None
        now = find_state(read(group), count(pods))
        new = status_of(group, now, self._clock.now().replace(microsecond=0))
        if new != group.status:
            subresource = "" if kind == volcano.POD_GROUP else "status"
            patch = {"status": merge_patch(new, group.status)}
            with ignoring("NotFound"):
                await self._client.patch_object(kind, group, patch, subresource=subresource)
        self._report_shortage(key, kind, group, now)
        return None

    def _find(self, key: str) -> tuple[Kind[Any], Any] | None:
        """Return the group with that key, and its kind; None if there is none.

        If groups of several kinds have that key, the group whose kind is listed first counts.
        """
        name, _ = split_key(key)
        for kind, informer in self._informers:
            group = informer.get(name)
            if group is not None and self._groups.key_of(group) == key:
                return kind, group
        return None

    def _report_shortage(self, key: str, kind: Kind[Any], group: Any, now: GroupState) -> None:
        """Record an event when a group has too few pods, so that the creator of its pods can see the shortage.

        The same message is recorded once.
        """
        if now.stage is not Stage.BROKEN:
            self._told.pop(key, None)
        elif self._told.get(key) != now.message:
            self._told[key] = now.message
            self._recorder.event(make_reference(kind, group), "Warning", UNSCHEDULABLE, now.message)
