"""Forecast what would happen to objects that a user would create now: their quota, then their pods' nodes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from msgspec.structs import replace as changed

from muster.api.core import Pod
from muster.api.kueue import PodSet, ResourceFlavor, Workload, WorkloadSpec
from muster.api.kueue.names import ADMISSION_GATE, ELASTIC_JOB, POD_SET_LABEL, TOPOLOGY_GATE
from muster.api.managed.pods import role_of
from muster.api.meta import ObjectMeta, OwnerReference
from muster.controllers.gangs import GangSource
from muster.controllers.integrations.injection import merge_tolerations
from muster.insight.forecasts.quotaplan import QuotaPlan
from muster.insight.forecasts.rehearsal import ClusterReadings, GangPlan, Verdict, merge_plans, rehearse
from muster.insight.jobs.state import OPEN
from muster.insight.jobs.state import NeverVerdict as Prospect
from muster.queueing.model import Places
from muster.runtime.objects import key_of

# The gates that admission removes from pods.
_OPENED_BY_ADMISSION = (ADMISSION_GATE, ELASTIC_JOB, TOPOLOGY_GATE)

DEVICES: Final = "Its pods claim devices: the plan ignores the quota of devices, and which nodes have them."


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """The forecast for one object of a file.

    kind: the kind in kubectl's notation: `job.batch`.
    quota: the forecast of admission; None if the object needs no quota.
    gang: the forecast of placement; None if placement was not considered.
    problem: why there is no forecast; "" if there is one.
    note: another possible outcome, such as an elastic start with fewer pods; "" for none.
    never: why the object can never get quota or nodes; "" if it can.
    awaits: the nodes that must recover before the object starts; "" if it may start on the current nodes.
    caveat: demands of the object that the forecast ignores; "" for none.
    """

    kind: str
    namespace: str
    name: str
    quota: QuotaPlan | None = None
    gang: GangPlan | None = None
    problem: str = ""
    note: str = ""
    never: str = ""
    awaits: str = ""
    caveat: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worse of the verdicts on quota and placement: "starts", "preempts", "waits" or "never".

        An object without a forecast waits. So does an object whose pods never fit, if `note` tells of another outcome.
        """
        if self.never:
            return "never"
        if self.problem or (self.quota is not None and self.quota.verdict == "waits"):
            return "waits"
        displacing = self.quota is not None and self.quota.verdict == "preempts"
        gang_verdict = self.gang.verdict if self.gang is not None else "starts"
        if gang_verdict == "never" and self.note:
            return "waits"
        return "preempts" if displacing and gang_verdict == "starts" else gang_verdict


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that a user would create, with the pods that its controllers would create.

    queue: the LocalQueue whose quota it needs.
    podsets: the podsets of its Workload.
    least: the least number of pods with which an elastic object starts; 0 if it needs all.
    together: the names of the podsets whose pods all need nodes at the same time.
    grouped: whether its pods form several gangs.
    """

    kind: str
    meta: ObjectMeta
    pods: tuple[Pod, ...] = ()
    queue: str = ""
    podsets: tuple[PodSet, ...] = ()
    priority: int = 0
    problem: str = ""
    least: int = 0
    together: frozenset[str] = frozenset()
    grouped: bool = False

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""
        return self.meta

    @property
    def workload(self) -> Workload:
        """The Workload that would be created for the object."""
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


def plan_subjects(
    subjects: Sequence[Subject],
    quotas: Mapping[str, QuotaPlan],
    readings: ClusterReadings,
    sources: Sequence[GangSource[Any]],
    flavors: Iterable[ResourceFlavor],
    prospects: Mapping[str, Prospect],
) -> list[ObjectPlan]:
    """Return the forecast of each object, in order. Objects that preempt are placed as if their victims were deleted.

    quotas: the forecasts of admission, by the object's UID; objects without a queue have none.
    prospects: whether an object can ever start (`never`), by the object's UID.
    """
    by_name = {one.metadata.name: one for one in flavors}
    going = frozenset(uid for quota in quotas.values() for uid in quota.displaced)
    ready = {
        one.meta.uid: _inject_flavors(one, quotas.get(one.meta.uid), by_name)
        for one in subjects
        if not one.problem and (one.meta.uid not in quotas or quotas[one.meta.uid].verdict != "waits")
    }
    staying = [pod for pod in readings.pods if not going & {pod.metadata.uid, *_list_owners(pod)}]
    gangs = rehearse(replace(readings, pods=staying), sources, [pod for pods in ready.values() for pod in pods])
    return [
        ObjectPlan(
            one.kind,
            one.meta.namespace,
            one.meta.name,
            _plan_quota(quotas.get(one.meta.uid), prospects.get(one.meta.uid, OPEN)),
            _join_plans(one, [gangs[pod.metadata.uid] for pod in pods]) if (pods := ready.get(one.meta.uid)) else None,
            one.problem,
            f"It is elastic: it starts with fewer pods, {one.least} or more, if so many fit." if one.least else "",
            _explain_never(one, quotas.get(one.meta.uid), prospects.get(one.meta.uid, OPEN)),
            prospects.get(one.meta.uid, OPEN).awaits,
            DEVICES if any(pod.spec.resource_claims for pod in one.pods) else "",
        )
        for one in subjects
    ]


def _plan_quota(quota: QuotaPlan | None, prospect: Prospect) -> QuotaPlan | None:
    """Return the quota plan, without an estimate of the start if the object waits for nodes to recover.

    It is unknown when nodes recover. If `quota` is None, return None.
    """
    return replace(quota, estimate=None) if quota is not None and prospect.awaits else quota


def _explain_never(subject: Subject, quota: QuotaPlan | None, prospect: Prospect) -> str:
    """Return why an object can never start, if it waits for quota or has several gangs; else "".

    For any other object, the plan of its gang has the reason.
    """
    doubtful = subject.grouped or (quota is not None and quota.verdict == "waits")
    return prospect.text if doubtful and prospect.certain else ""


def _join_plans(subject: Subject, gangs: Sequence[GangPlan]) -> GangPlan:
    """Merge the plans of an object's gangs into one."""
    several = list({one.name: one for one in gangs}.values())
    merged = reduce(merge_plans, several)
    return merged if len(several) == 1 else replace(merged, name=key_of(subject))


def _list_owners(pod: Pod) -> Iterable[str]:
    return (owner.uid for owner in pod.metadata.owner_references)


def _inject_flavors(
    subject: Subject, quota: QuotaPlan | None, flavors: Mapping[str, ResourceFlavor]
) -> tuple[Pod, ...]:
    """Return the pods that would start: as many as get quota, with the node selectors of their flavors and domains."""
    if quota is None:
        return subject.pods
    count = min(sum(quota.counts.values()), len(subject.pods))
    alone = next(iter(quota.flavors)) if len(quota.flavors) == 1 else ""
    domains = {podset: iter(_yield_domains(places)) for podset, places in quota.places.items()}
    ready = []
    for pod in subject.pods[:count]:
        podset = alone or _get_podset(pod)
        given = sorted(set(quota.flavors.get(podset, {}).values()))
        domain = next(domains.get(podset, iter(())), {})
        ready.append(_place_pod(pod, [flavors[name] for name in given if name in flavors], domain))
    return tuple(ready)


def _yield_domains(places: Places) -> Iterable[dict[str, str]]:
    """Yield the node labels of the topology domain of each pod, domain by domain."""
    for values, count in places.domains:
        for _ in range(count):
            yield dict(zip(places.levels, values, strict=True))


def _get_podset(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_SET_LABEL) or role_of(pod)


def _place_pod(pod: Pod, flavors: Iterable[ResourceFlavor], domain: Mapping[str, str]) -> Pod:
    spec = pod.spec
    selector, borne = {**spec.node_selector, **domain}, spec.tolerations
    for flavor in flavors:
        selector |= flavor.spec.node_labels
        borne = merge_tolerations(borne, flavor.spec.tolerations)
    gates = tuple(gate for gate in spec.scheduling_gates if gate.name not in _OPENED_BY_ADMISSION)
    return changed(pod, spec=changed(spec, node_selector=selector, tolerations=borne, scheduling_gates=gates))
