"""Evict pods from nodes with NoExecute taints, and write off pods of lost nodes (upstream: tainteviction).

All pods that leave together are marked (condition DisruptionTarget) before the first of them is deleted. So a Job that
loses several pods sees at once that the platform ended all of them, and restarts once.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

from muster.api.core import NODE, POD, Node, Pod, Taint
from muster.api.nodes import OUT_OF_SERVICE, has_taint
from muster.api.pods import is_deleting
from muster.cluster.controllers.nodes.eviction import (
    Departure,
    make_last_status,
    next_round,
    plan_departure,
    stay_least,
)
from muster.cluster.controllers.nodes.nodehealth import no_execute, read_readiness
from muster.cluster.controllers.nodes.nodelifecycle import STALL_SECONDS
from muster.cluster.indexes import BY_NODE, by_node
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH
from muster.runtime.writes import Refusal, Writes

_ALL = "tainted nodes"  # the one key: pods of several nodes leave together
_AT_ONCE = 32

_Leaving: TypeAlias = tuple[Pod, Departure]


class TaintEviction(Reconciler):
    """The taint eviction controller: it deletes the pods that do not tolerate a node's NoExecute taints.

    It also fails and deletes the pods of lost nodes that terminate their pods themselves. A `Manager` runs it.

    is_heard: returns whether the node of this name renews its Lease.
    """

    name = "taint-eviction-controller"

    def __init__(self, manager: Manager, recorder: Recorder, is_heard: Callable[[str], bool]) -> None:
        super().__init__(manager)
        self._is_heard = is_heard
        self._recorder = recorder
        self._writes = Writes(_AT_ONCE)
        self._since: dict[str, dict[Taint, float]] = {}  # when taints began, of nodes whose pods may have to leave
        self._stale: set[str] = set()  # nodes whose leaving pods must be computed again
        self._leaving: dict[str, list[_Leaving]] = {}  # the pods that have to leave, by node
        self._due: float | None = None
        self._nodes = manager.informer(NODE)
        self._pods = manager.informer(POD, indexes={BY_NODE: by_node})
        self._controller.watch(self._nodes, lambda _: (_ALL,), when=self._on_node_changed)
        self._controller.watch(self._pods, lambda _: (_ALL,), when=self._is_on_tainted_node)

    def _on_node_changed(self, old: Node | None, new: Node | None) -> bool:
        """Record when the node got its taints; return whether the change may make pods leave or stay."""
        node = new or old
        assert node is not None, "one of them is there"
        name = node.metadata.name
        before = self._since.get(name, {})
        if new is None or not (no_execute(new.spec.taints) or has_taint(new, OUT_OF_SERVICE)):
            self._leaving.pop(name, None)
            return self._since.pop(name, None) is not None
        now = self._clock.monotonic()
        self._since[name] = {taint: before.get(taint, now) for taint in no_execute(new.spec.taints)}
        matters = old is None or old.spec.taints != new.spec.taints or read_readiness(old) != read_readiness(new)
        if matters:
            self._stale.add(name)
        return matters

    def _is_on_tainted_node(self, old: Pod | None, new: Pod | None) -> bool:
        if new is None or new.spec.node_name not in self._since:
            return False
        matters = (
            old is None
            or old.spec.node_name != new.spec.node_name
            or old.spec.tolerations != new.spec.tolerations
            or is_deleting(old) != is_deleting(new)
        )
        if matters:
            self._stale.add(new.spec.node_name)
        return matters

    async def _reconcile(self, _: str) -> Result:
        self._forgive_stall()
        names, self._stale = self._stale | self._leaving.keys(), set()
        self._leaving = {name: pods for name in sorted(names) if (pods := self._find_leaving(name))}
        leaving = list(chain.from_iterable(self._leaving.values()))
        at, now = next_round(end for _, end in leaving), self._clock.monotonic()
        if at is not None and at <= now:
            await self._evict([one for one in leaving if one[1].due <= now])
            at = next_round(end for _, end in leaving if end.due > now)
        self._due = at
        return max(at - now, 0.0) if at is not None else None

    def _find_leaving(self, name: str) -> list[_Leaving]:
        """Return the pods that must leave a node, and when."""
        node, since = self._nodes.get(name), self._since.get(name)
        if node is None or since is None:
            return []
        is_heard = self._is_heard(name)
        ends = ((pod, plan_departure(pod, node, since, is_heard=is_heard)) for pod in self._pods.by(BY_NODE, name))
        now, clock = self._clock.now(), self._clock.monotonic()
        return [(pod, stay_least(end, pod, now, clock)) for pod, end in ends if end is not None]

    def _forgive_stall(self) -> None:
        """Restart the time of all taints if this process did not run for a while: it missed renewals meanwhile."""
        now, due, self._due = self._clock.monotonic(), self._due, None
        if due is not None and now - due > STALL_SECONDS:
            self._since = {name: dict.fromkeys(since, now) for name, since in self._since.items()}

    async def _evict(self, leaving: Sequence[_Leaving]) -> None:
        """Mark all pods that must leave with the condition DisruptionTarget, then delete the marked pods.

        A pod whose mark was refused is not deleted.

        If some writes are refused, raise the first error after all other writes.
        """
        marks = await self._writes.each(self._mark_pod, leaving)
        marked = [one for one, refusal in zip(leaving, marks, strict=True) if refusal is None]
        deletions = await self._writes.each(self._delete_pod, marked)
        refusals: list[Refusal] = [one for one in chain(marks, deletions) if one is not None]
        if refusals:
            raise refusals[0]

    async def _mark_pod(self, leaving: _Leaving) -> None:
        pod, end = leaving
        status: dict[str, Any] = make_last_status(pod, end, self._clock.now())
        if status:
            with ignoring("NotFound", "Conflict"):  # the pod is gone
                await self._client.patch_object(
                    POD, pod, {"status": status}, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )

    async def _delete_pod(self, leaving: _Leaving) -> None:
        pod, end = leaving
        message = f"Marking for deletion Pod {key_of(pod)}"
        self._recorder.event(make_reference(POD, pod), "Normal", "TaintManagerEviction", message)
        with ignoring("NotFound", "Conflict"):
            await self._client.delete_object(POD, pod, grace_period_seconds=0 if end.final else None)
