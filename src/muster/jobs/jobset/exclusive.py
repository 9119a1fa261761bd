"""Place Jobs exclusively: no two Jobs have pods in the same topology domain (a rack, a node pool).

Upstream places the first pod of a Job by affinity. Its webhook refuses the other pods until the first pod has a node,
and then gives them a node selector for that domain, because kube-scheduler computes affinity slowly. Muster places all
pods of a Job at once, so each pod has the same terms: affinity to the pods of its Job, and anti-affinity to every other
Job. No pod is refused, the chosen domain has room for all pods, and a recreated pod runs in the domain of the other
pods.
"""

from msgspec.structs import replace

from muster.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity
from muster.api.jobset import names
from muster.api.meta import LabelSelector, LabelSelectorRequirement


def is_placed_by_us(pod: Pod) -> bool:
    """Return whether Muster may place a pod by affinity: it is of a JobSet, and labels reserve no nodes for its Job."""
    annotations = pod.metadata.annotations
    return names.JOBSET_NAME in annotations and names.NODE_SELECTOR_STRATEGY not in annotations


def priority_label(pod: Pod) -> dict[str, str]:
    """Return the label with a pod's priority; empty if the pod has no priority.

    Anti-affinity applies only between Jobs of equal priority, so that a Job of higher priority can preempt.
    """
    priority = pod.spec.priority
    return {} if priority is None else {names.PRIORITY_LABEL: str(priority)}


def exclusive_affinity(pod: Pod) -> Affinity | None:
    """Return the affinity for exclusive placement; None if the pod is not placed exclusively."""
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
    """Return an affinity term for the topology `place` that selects pods of any namespace."""
    return PodAffinityTerm(
        label_selector=LabelSelector(match_expressions=wanted), topology_key=place, namespace_selector=LabelSelector()
    )


def _add_term(terms: tuple[PodAffinityTerm, ...], term: PodAffinityTerm) -> tuple[PodAffinityTerm, ...]:
    return terms if term in terms else (*terms, term)
