"""Places Jobs exclusively: the pods of a Job share a place (a rack, a node pool) with no pods of another Job.

Upstream draws the first pod of a Job to its place by affinity. It refuses the other pods until the first has a node,
and then sends them after it by a node selector, because its scheduler computes affinity slowly. Muster places all pods
of a Job at once, so each pod has the same terms: to be with the others of its Job, and away from every other Job.
No pod is refused, the chosen place has room for all pods, and a recreated pod runs where the others run.
"""

from msgspec.structs import replace

from muster.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity
from muster.api.jobset import names
from muster.api.meta import LabelSelector, LabelSelectorRequirement


def is_placed_by_us(pod: Pod) -> bool:
    """Return whether a pod belongs to a JobSet that has not set its nodes apart beforehand."""
    annotations = pod.metadata.annotations
    return names.JOBSET_NAME in annotations and names.NODE_SELECTOR_STRATEGY not in annotations


def priority_label(pod: Pod) -> dict[str, str]:
    """Return the label of a pod's priority.

    Only Jobs of equal priority repel each other, so that others can preempt them.
    """
    priority = pod.spec.priority
    return {} if priority is None else {names.PRIORITY_LABEL: str(priority)}


def exclusive_affinity(pod: Pod) -> Affinity | None:
    """Return the affinity that the pod needs; None if it is not placed exclusively."""
    place = pod.metadata.annotations.get(names.EXCLUSIVE_TOPOLOGY)
    key = pod.metadata.labels.get(names.JOB_KEY)
    if place is None or key is None:
        return None
    own = _make_term(place, LabelSelectorRequirement(key=names.JOB_KEY, operator="In", values=(key,)))
    others = _make_term(
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
            required_during_scheduling_ignored_during_execution=_add_term(
                near.required_during_scheduling_ignored_during_execution, own
            ),
        ),
        pod_anti_affinity=replace(
            away,
            required_during_scheduling_ignored_during_execution=_add_term(
                away.required_during_scheduling_ignored_during_execution, others
            ),
        ),
    )


def _make_term(place: str, *wanted: LabelSelectorRequirement) -> PodAffinityTerm:
    """Return a term that selects pods of any namespace."""
    return PodAffinityTerm(
        label_selector=LabelSelector(match_expressions=wanted), topology_key=place, namespace_selector=LabelSelector()
    )


def _add_term(terms: tuple[PodAffinityTerm, ...], term: PodAffinityTerm) -> tuple[PodAffinityTerm, ...]:
    return terms if term in terms else (*terms, term)
