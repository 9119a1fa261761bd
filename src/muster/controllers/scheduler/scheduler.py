"""Binds the pods of a gang to nodes together, or none of them.

`GangSource`s say which pods are a gang: those of a Job (all that the Job wants to run now), unless it says
`muster.dev/gang: "false"`, and those that say that they are a group; any other pod stands alone. `muster.gang` decides;
here the cluster is followed, decisions are written, and what could not be placed waits, unlooked at, until something
happens that could help. Where there are elastic Jobs (`sizes`), what waits and what is free are also looked at
together, to see who should shrink or grow.

A gang of several pods is bound by several writes. Before the first, the intent is recorded on the object that carries
the gang, such as the Job (`muster.dev/binding-since`). A scheduler that starts finds half-bound gangs by it, and binds
the rest before it places anything new. Where the rest no longer fits, the bound ones are deleted, and the gang waits
whole again. The pods of a group would not be made anew: of those the rest goes first, and if it does not fit, waits for
room.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from muster.api.batch import TRACKING_FINALIZER
from muster.api.core import NODE, POD, Node, Pod
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta
from muster.api.pods import is_finished
from muster.controllers.elastic.placement import Sizes
from muster.controllers.gangs import (
    BINDING_ANNOTATION,
    LOWEST_PRIORITY,
    Due,
    Gang,
    GangSource,
    Members,
    Turn,
    binding_since,
    created,
    gang_of,
    is_marked,
    made_by,
    one_by_one,
)
from muster.gang.capacity import Capacity
from muster.gang.elastic import Waiting
from muster.gang.explain import explain
from muster.gang.placement import Refusal, place
from muster.gang.quorum import place_enough
from muster.gang.shapes import count_shapes, guest_of, shapes_of
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, meta_of, reference, split_key
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Gangs bound side by side, and bindings under way for each: enough to fill the server's group commits.
WORKERS = 16
BINDINGS_AT_ONCE = 64

# Room that opens up is looked at in gusts: one sweep over the waiting gangs for all that came in this time.
SWEEP_SECONDS = 0.02
_SWEEP = "sweep"  # a key that no gang has: theirs have a slash

_BY_GANG = "gang"  # pods of which it has to be known how many have succeeded

# Who should shrink is seen soon, after everything else that is to be done. Room to grow is gathered for longer: a
# gang that ends leaves pod by pod, and each change of size costs a running program something.
SHRINK_SECONDS = 0.1
GROW_SECONDS = 5.0
_SHRINK, _GROW = "shrink", "grow"

# What a predecessor left half done goes before every priority that a pod can have.
_REPAIR_PRIORITY = 2**31


@dataclass(frozen=True, slots=True)
class Carrier:
    """The object on which the intent to bind a gang is recorded, and that is told why it waits."""

    kind: Kind[Any]
    object: Any

    @property
    def meta(self) -> ObjectMeta:
        """Its metadata."""
        return meta_of(self.object)


class Scheduler(Reconciler):
    """Runs under a `Manager`; schedules the pods whose `schedulerName` is one of `names`.

    sources: where gangs come from; the first that has a pod's gang has it.
    """

    name = "scheduler"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        sources: Sequence[GangSource[Any]],
        *,
        names: frozenset[str] = frozenset({"default-scheduler", "muster"}),
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._recorder = recorder
        self._sources = sources
        self._counting = [source for source in sources if source.counts_succeeded]
        self._names = names
        self._capacity = Capacity()
        self._gangs: dict[str, Gang] = {}
        self._sent: dict[str, str] = {}  # nodes of pods that we have bound and not yet seen bound, by UID
        self._leaving: set[str] = set()  # pods that are being deleted and still hold room
        self._waiting: dict[str, str] = {}  # gangs that did not fit, and what was said about them
        self._pods = manager.informer(POD, indexes={_BY_GANG: self._counted_in})
        self._sizes = Sizes(manager, recorder, names)
        self._carriers = [(one, kind, manager.informer(kind)) for one in sources for kind in one.kinds]
        manager.informer(NODE).on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._sizes.on_change(self._sizes_soon)
        for source, _, carriers in self._carriers:
            carriers.on_change(partial(self._carrier_changed, source))

    async def run(self) -> None:
        """Finish what a predecessor left half done, then schedule."""
        for key, gang in self._gangs.items():
            without_carrier = gang.source is not None and not gang.source.kinds
            if self._half_bound(key, gang) or (gang.bound and without_carrier):
                self._controller.queue.add(key, _REPAIR_PRIORITY)
        await super().run()

    # What happens in the cluster.

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._capacity.remove_node(old.metadata.name)
        elif self._capacity.set_node(new):
            self._sweep_soon()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        uid, (key, source) = pod.metadata.uid, gang_of(pod, self._sources)
        if old is not None and (before := gang_of(old, self._sources)[0]) != key:
            self._leave(before, uid)
        gang = self._gangs.setdefault(key, Gang(source))
        was_unbound = gang.unbound.pop(uid, None) is not None
        gang.bound.pop(uid, None)
        self._leaving.discard(uid)
        holds = new is not None and not is_finished(new)
        # What we see may be older than what we have written: a pod that we have bound is bound.
        node = pod.spec.node_name or self._sent.get(uid, "")
        if pod.spec.node_name or not holds:
            self._sent.pop(uid, None)
        if holds and node:
            self._capacity.assign(uid, node, guest_of(pod))
            if pod.metadata.deletion_timestamp is None:
                gang.bound[uid] = pod
            else:
                self._leaving.add(uid)
        elif holds and self._is_ours(pod):
            gang.unbound[uid] = pod
        if uid in gang.unbound or uid in gang.bound:
            gang.priority = max(gang.priority, pod.spec.priority or 0)
        if not holds and self._capacity.release(uid) and (self._waiting or self._sizes.active):
            self._sweep_soon()
        if not gang.unbound and self._waiting.pop(key, None) is not None:
            self._sizes_soon()
        if not gang.unbound and not gang.bound:
            del self._gangs[key]
        elif gang.unbound and was_unbound != (uid in gang.unbound):
            self._controller.queue.add(key, gang.priority)

    def _leave(self, key: str, uid: str) -> None:
        """A pod that lives on is of another gang now."""
        if (gang := self._gangs.get(key)) is None:
            return
        gang.unbound.pop(uid, None)
        gang.bound.pop(uid, None)
        if not gang.unbound:
            self._waiting.pop(key, None)
            if not gang.bound:
                del self._gangs[key]

    def _carrier_changed(self, source: GangSource[Any], old: Any | None, new: Any | None) -> None:
        key = source.key_of(new if new is not None else old)
        if (gang := self._gangs.get(key)) and gang.unbound:
            self._controller.queue.add(key, gang.priority)

    def _counted_in(self, pod: Pod) -> Iterable[str]:
        for source in self._counting:  # most pods are of none of them, and that is soon said
            if source.key(pod):
                key, first = gang_of(pod, self._sources)
                return [key] if first is source else []
        return []

    def _is_ours(self, pod: Pod) -> bool:
        return (
            pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
            and pod.spec.scheduler_name in self._names
        )

    def _sweep_soon(self) -> None:
        self._controller.queue.add_after(_SWEEP, SWEEP_SECONDS)

    def _sizes_soon(self) -> None:
        if self._sizes.active:
            self._controller.queue.add_after(_SHRINK, SHRINK_SECONDS, LOWEST_PRIORITY)
            self._controller.queue.add_after(_GROW, GROW_SECONDS, LOWEST_PRIORITY)

    # What to do about it.

    async def _reconcile(self, key: str) -> Result:
        if key == _SWEEP:
            for waiting in self._in_order(self._waiting):
                self._controller.queue.add(waiting, self._gangs[waiting].priority)
            self._sizes_soon()
        elif key in (_SHRINK, _GROW):
            return await self._look_at_sizes(grow=key == _GROW)
        else:
            carrier, due = self._due(key)
            for turn in due.turns:
                if not await self._place(key, turn, carrier):
                    break
        return None

    def _due(self, key: str) -> tuple[Carrier | None, Due]:
        """What of a gang is to be placed now, and the object that carries it."""
        gang = self._gangs.get(key)
        if gang is None or not gang.unbound:
            return None, Due()
        if gang.source is None:
            return None, one_by_one(gang.unbound.values())
        carrier = self._carrier(key, gang.source)
        succeeded = sum(pod.status.phase == "Succeeded" for pod in self._pods.by(_BY_GANG, key))
        members = Members(tuple(gang.unbound.values()), tuple(gang.bound.values()), succeeded)
        return carrier, gang.source.due(carrier.object if carrier is not None else None, members)

    def _carrier(self, key: str, source: GangSource[Any]) -> Carrier | None:
        """That of a gang, as last seen. An older one than there is costs no more than a conflict."""
        for one, kind, carriers in self._carriers:
            if one is source and (found := carriers.get(split_key(key)[0])) and source.key_of(found) == key:
                return Carrier(kind, found)
        return None

    async def _look_at_sizes(self, *, grow: bool) -> Result:
        waiting = []
        for key in self._in_order(self._waiting):
            carrier, due = self._due(key)
            if due.turns:
                first = due.turns[0].pods
                name = key_of(carrier.object if carrier is not None else first[0])
                waiting.append(
                    Waiting(
                        key,
                        name,
                        self._gangs[key].priority,
                        count_shapes(first, self._capacity.watched),
                        len(due.turns),
                    )
                )
        again = await self._sizes.look(self._capacity, self._gangs, self._leaving, waiting, grow=grow)
        return SHRINK_SECONDS if again else None

    async def _place(self, key: str, turn: Turn, carrier: Carrier | None) -> bool:
        """Bind these pods together if they fit. From the decision to the assignment no other task gets a turn."""
        for pod in turn.pods:  # what an attempt that failed midway had assumed
            self._capacity.release(pod.metadata.uid)
        shapes = shapes_of(turn.pods, self._capacity.watched)
        outcome = place_enough(partial(place, self._capacity), shapes, turn.quorums)
        if isinstance(outcome, Refusal):
            if carrier is not None and (half := self._half_bound(key, self._gangs[key])):
                await self._take_back(half, carrier)
            self._sizes_soon()
            await self._refused(key, turn.pods, carrier, explain(self._capacity, outcome, len(turn.pods)))
            return False
        self._waiting.pop(key, None)
        nodes = {shape: outcome.placement.expand(shape) for shape in outcome.placement.nodes}
        chosen = frozenset(outcome.pods)
        bindings = [(pod, next(nodes[shapes[pod.metadata.uid]])) for pod in turn.pods if pod.metadata.uid in chosen]
        for pod, node in bindings:
            self._capacity.assign(pod.metadata.uid, node, guest_of(pod))
        if carrier is not None and len(bindings) > 1 and not self._gangs[key].bound:
            await self._record_intent(carrier)
        await self._bind(bindings)
        self._sizes_soon()
        self._report(bindings, carrier)
        if len(bindings) < len(turn.pods):  # those above the minimum wait each for itself
            self._controller.queue.add(key, self._gangs[key].priority if key in self._gangs else 0)
        return True

    async def _bind(self, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Write the bindings. If a pod is gone or bound already, its own event tells; other errors are tried again."""
        limit = asyncio.Semaphore(BINDINGS_AT_ONCE)

        async def bind(pod: Pod, node: str) -> None:
            meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
            async with limit:
                with ignoring("NotFound", "Conflict"):
                    await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "binding", body)
                    self._is_bound(pod, node)

        outcomes = await asyncio.gather(*(bind(pod, node) for pod, node in bindings), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _is_bound(self, pod: Pod, node: str) -> None:
        """Count a pod as bound from now on, not only once we see it."""
        gang, uid = self._gangs.get(gang_of(pod, self._sources)[0]), pod.metadata.uid
        if gang is not None and gang.unbound.pop(uid, None) is not None:
            gang.bound[uid] = pod
            self._sent[uid] = node

    async def _record_intent(self, carrier: Carrier) -> None:
        # Pods that join a gang that runs, as replacements or because it grew, are no matter of all or nothing any more.
        since = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {"metadata": {"annotations": {BINDING_ANNOTATION: since}}}
        await self._client.patch(carrier.kind, carrier.meta.name, patch, carrier.meta.namespace)

    async def _refused(self, key: str, pods: Sequence[Pod], carrier: Carrier | None, sentence: str) -> None:
        """Say why the gang waits: in an event when the reason changes, on each pod when it begins to wait."""
        if self._waiting.get(key) == sentence:
            return
        self._waiting[key] = sentence
        if carrier is not None:
            self._recorder.event(reference(carrier.kind, carrier.object), "Warning", "FailedScheduling", sentence)
        self._recorder.event(reference(POD, pods[0]), "Warning", "FailedScheduling", sentence)
        since = self._clock.now()
        await asyncio.gather(*(self._mark(pod, sentence, since) for pod in pods if not is_marked(pod)))

    async def _mark(self, pod: Pod, sentence: str, since: datetime) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": sentence,
            "lastTransitionTime": since.replace(microsecond=0),
        }
        patch = {"status": {"conditions": [condition]}}
        with ignoring("NotFound", "Conflict"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )

    def _report(self, bindings: Sequence[tuple[Pod, str]], carrier: Carrier | None) -> None:
        if carrier is not None and len(bindings) > 1:
            nodes = sorted({node for _, node in bindings})
            shown = ", ".join(nodes[:5]) + (", ..." if len(nodes) > 5 else "")
            message = f"Bound {len(bindings)} pods together to {len(nodes)} nodes: {shown}"
            self._recorder.event(reference(carrier.kind, carrier.object), "Normal", "Scheduled", message)
            return
        for pod, node in bindings:
            message = f"Successfully assigned {key_of(pod)} to {node}"
            self._recorder.event(reference(POD, pod), "Normal", "Scheduled", message)

    # What is half done.

    def _half_bound(self, key: str, gang: Gang) -> list[Pod]:
        """The bound pods of a gang of which others, meant to be bound with them, are not."""
        carrier = self._carrier(key, gang.source) if gang.source is not None and gang.bound and gang.unbound else None
        since = binding_since(carrier.meta) if carrier is not None else None
        if since is None or not any(made_by(pod, since) for pod in gang.unbound.values()):
            return []
        return [pod for pod in gang.bound.values() if made_by(pod, since)]

    async def _take_back(self, pods: Sequence[Pod], carrier: Carrier) -> None:
        """Delete the bound part of a gang whose rest no longer fits; the carrier makes the pods anew."""
        message = f"{len(pods)} pods of the gang were bound, and the rest no longer fits: starting over"
        self._recorder.event(reference(carrier.kind, carrier.object), "Warning", "GangTakenBack", message)
        for pod in pods:
            # Without its finalizer a pod goes uncounted: this is no failure of the Job's.
            kept = [finalizer for finalizer in pod.metadata.finalizers if finalizer != TRACKING_FINALIZER]
            # A pod that has ended meanwhile counts: then this is a conflict, and all is looked at again.
            with ignoring("NotFound"):
                await self._client.patch_object(POD, pod, {"metadata": {"finalizers": kept}})
                await self._client.delete_object(POD, pod)

    def _in_order(self, keys: Iterable[str]) -> list[str]:
        """Higher priority first, then the older."""

        def rank(key: str) -> tuple[int, datetime, str]:
            gang = self._gangs[key]
            return -gang.priority, min(created(pod.metadata) for pod in gang.unbound.values()), key

        return sorted((key for key in keys if key in self._gangs and self._gangs[key].unbound), key=rank)
