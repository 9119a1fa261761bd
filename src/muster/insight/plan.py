"""What would become of objects if they were made now, level by level: quota first, then placement. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from msgspec.structs import replace as changed

from muster.api.core import Pod
from muster.api.kueue import PodSet, ResourceFlavor, Workload, WorkloadSpec
from muster.api.kueue.names import ADMISSION_GATE, POD_SET_LABEL
from muster.api.managed.pods import role_of
from muster.api.meta import ObjectMeta, OwnerReference
from muster.controllers.gangs import GangSource
from muster.controllers.integrations.injection import tolerations
from muster.insight.quotaplan import QuotaPlan
from muster.insight.rehearsal import ClusterReadings, GangPlan, Verdict, rehearse, together
from muster.runtime.objects import key_of


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """What would become of one object of a file.

    kind: as kubectl names it: `job.batch`. quota: None if it needs none. gang: None if that was not looked at.
    problem: why there is nothing to be said of it. note: what may yet become of it beyond that.
    never: why it waits for quota for ever, or for nodes once it had that; "" if that is not so.
    """

    kind: str
    namespace: str
    name: str
    quota: QuotaPlan | None = None
    gang: GangPlan | None = None
    problem: str = ""
    note: str = ""
    never: str = ""

    @property
    def verdict(self) -> Verdict:
        """What holds it, if anything does."""
        if self.never:
            return "never"
        if self.problem or (self.quota is not None and self.quota.verdict == "waits"):
            return "waits"
        displacing = self.quota is not None and self.quota.verdict == "preempts"
        found = self.gang.verdict if self.gang is not None else "starts"
        if found == "never" and self.note:
            return "waits"
        return "preempts" if displacing and found == "starts" else found


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that would run: its pods, as the server would make them.

    queue: the LocalQueue that it needs quota of. podsets: what it asks of that.
    least: with how few pods it may start, if that is fewer than it has.
    together: whether all pods get nodes at once, unless its metadata say otherwise.
    """

    kind: str
    meta: ObjectMeta
    pods: tuple[Pod, ...] = ()
    queue: str = ""
    podsets: tuple[PodSet, ...] = ()
    priority: int = 0
    problem: str = ""
    least: int = 0
    together: bool = True

    @property
    def metadata(self) -> ObjectMeta:
        """As objects call it."""
        return self.meta

    @property
    def workload(self) -> Workload:
        """As it would be made for it."""
        meta = self.meta
        owner = OwnerReference(api_version="", kind="", name=meta.name, uid=meta.uid)
        return Workload(
            metadata=ObjectMeta(
                name=f"planned-{meta.name}",
                namespace=meta.namespace,
                uid=f"planned-{meta.uid}",
                creation_timestamp=meta.creation_timestamp,
                owner_references=(owner,),
            ),
            spec=WorkloadSpec(pod_sets=self.podsets, queue_name=self.queue, priority=self.priority),
        )


def plans(
    subjects: Sequence[Subject],
    quotas: Mapping[str, QuotaPlan],
    readings: ClusterReadings,
    sources: Sequence[GangSource[Any]],
    flavors: Iterable[ResourceFlavor],
    never: Mapping[str, str],
) -> list[ObjectPlan]:
    """Those that get quota are placed, as if those that lose theirs for it had gone. never: see `ObjectPlan`."""
    by_name = {one.metadata.name: one for one in flavors}
    going = frozenset(uid for quota in quotas.values() for uid in quota.displaced)
    ready = {
        one.meta.uid: _injected(one, quotas.get(one.meta.uid), by_name)
        for one in subjects
        if not one.problem and (one.meta.uid not in quotas or quotas[one.meta.uid].verdict != "waits")
    }
    staying = [pod for pod in readings.pods if not going & {pod.metadata.uid, *_owners(pod)}]
    gangs = rehearse(replace(readings, pods=staying), sources, [pod for pods in ready.values() for pod in pods])
    return [
        ObjectPlan(
            one.kind,
            one.meta.namespace,
            one.meta.name,
            quotas.get(one.meta.uid),
            _together(one, [gangs[pod.metadata.uid] for pod in pods]) if (pods := ready.get(one.meta.uid)) else None,
            one.problem,
            f"It is elastic: it starts with fewer pods, {one.least} or more, if so many fit." if one.least else "",
            never.get(one.meta.uid, ""),
        )
        for one in subjects
    ]


def _together(subject: Subject, gangs: Sequence[GangPlan]) -> GangPlan:
    """What becomes of all that an object makes, which may be several gangs."""
    several = list({one.name: one for one in gangs}.values())
    found = reduce(together, several)
    return found if len(several) == 1 else replace(found, name=key_of(subject))


def _owners(pod: Pod) -> Iterable[str]:
    return (owner.uid for owner in pod.metadata.owner_references)


def _injected(subject: Subject, quota: QuotaPlan | None, flavors: Mapping[str, ResourceFlavor]) -> tuple[Pod, ...]:
    """The pods as they would be once they may start: as many as get quota, on the nodes of their flavors."""
    if quota is None:
        return subject.pods
    count = min(sum(quota.counts.values()), len(subject.pods))
    alone = next(iter(quota.flavors)) if len(quota.flavors) == 1 else ""
    return tuple(
        _on(pod, [flavors[name] for name in sorted(set(given.values())) if name in flavors])
        for pod, given in ((pod, quota.flavors.get(alone or _podset(pod), {})) for pod in subject.pods[:count])
    )


def _podset(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_SET_LABEL) or role_of(pod)


def _on(pod: Pod, flavors: Iterable[ResourceFlavor]) -> Pod:
    spec = pod.spec
    selector, borne = dict(spec.node_selector), spec.tolerations
    for flavor in flavors:
        selector |= flavor.spec.node_labels
        borne = tolerations(borne, flavor.spec.tolerations)
    gates = tuple(gate for gate in spec.scheduling_gates if gate.name != ADMISSION_GATE)
    return changed(pod, spec=changed(spec, node_selector=selector, tolerations=borne, scheduling_gates=gates))
