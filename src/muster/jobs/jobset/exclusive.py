"""Exclusive placement: the pods of a Job share a place (a rack, a node pool) with no pods of another Job.

Upstream draws the first pod of a Job to its place by affinity, and refuses the others until it has a node, so that they
can be sent after it by a node selector: for a scheduler to which affinity is dear. Ours places all pods of a Job at
once, so each of them asks for the same: to be where the others of its Job are, and where no other Job is. No pod is
refused, a place is chosen that has room for all, and a pod that comes back goes where the others are.
"""

from msgspec.structs import replace

from muster.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity
from muster.api.jobset import names
from muster.api.meta import LabelSelector, LabelSelectorRequirement


def is_placed_by_us(pod: Pod) -> bool:
    """Whether it is of a JobSet that has not set its nodes apart beforehand."""
    said = pod.metadata.annotations
    return names.JOBSET_NAME in said and names.NODE_SELECTOR_STRATEGY not in said


def priority_label(pod: Pod) -> dict[str, str]:
    """Its priority: only Jobs of the same keep each other away, so that others can take their place."""
    priority = pod.spec.priority
    return {} if priority is None else {names.PRIORITY_LABEL: str(priority)}


def exclusive_affinity(pod: Pod) -> Affinity | None:
    """The affinity that the pod has to have; None if it is not placed exclusively."""
    place = pod.metadata.annotations.get(names.EXCLUSIVE_TOPOLOGY)
    key = pod.metadata.labels.get(names.JOB_KEY)
    if place is None or key is None:
        return None
    own = _term(place, LabelSelectorRequirement(key=names.JOB_KEY, operator="In", values=(key,)))
    others = _term(
        place,
        LabelSelectorRequirement(key=names.JOB_KEY, operator="Exists"),
        LabelSelectorRequirement(key=names.JOB_KEY, operator="NotIn", values=(key,)),
        LabelSelectorRequirement(
            key=names.PRIORITY_LABEL, operator="In", values=(pod.metadata.labels.get(names.PRIORITY_LABEL, ""),)
        ),
    )
    affinity = pod.spec.affinity or Affinity()
    near, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    return replace(
        affinity,
        pod_affinity=replace(
            near,
            required_during_scheduling_ignored_during_execution=_with(
                near.required_during_scheduling_ignored_during_execution, own
            ),
        ),
        pod_anti_affinity=replace(
            away,
            required_during_scheduling_ignored_during_execution=_with(
                away.required_during_scheduling_ignored_during_execution, others
            ),
        ),
    )


def _term(place: str, *wanted: LabelSelectorRequirement) -> PodAffinityTerm:
    """Pods of any namespace."""
    return PodAffinityTerm(
        label_selector=LabelSelector(match_expressions=wanted), topology_key=place, namespace_selector=LabelSelector()
    )


def _with(terms: tuple[PodAffinityTerm, ...], term: PodAffinityTerm) -> tuple[PodAffinityTerm, ...]:
    return terms if term in terms else (*terms, term)
