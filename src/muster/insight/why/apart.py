"""Find the jobs with which a waiting pod must not share a node, because of anti-affinity of either pod. Pure.

`muster run --exclusive` sets such a rule.
"""

from collections.abc import Iterable

from muster.api.core import Pod
from muster.api.pods import is_finished, job_of
from muster.api.values.selectors import SelectorError
from muster.gang.terms import NO_TERMS, PodTerms, terms_of


def find_jobs_apart(waiting: Pod, others: Iterable[Pod]) -> tuple[str, ...]:
    """Return the names of other jobs from whose nodes anti-affinity excludes the waiting pod, sorted.

    A job of another namespace is named `NAMESPACE/NAME`. Labels of namespaces are unknown here, so a rule that selects
    namespaces by labels counts only if it selects all.
    """
    own, rules = job_of(waiting), _read_rules(waiting)
    jobs = set()
    for other in others:
        if not other.spec.node_name or is_finished(other) or job_of(other) == own:
            continue
        if _repels(rules, other) or _repels(_read_rules(other), waiting):
            same = other.metadata.namespace == waiting.metadata.namespace
            name = job_of(other)[1]
            jobs.add(name if same else f"{other.metadata.namespace}/{name}")
    return tuple(sorted(jobs))


def _read_rules(pod: Pod) -> PodTerms:
    try:
        return terms_of(pod.spec, pod.metadata.namespace, pod.metadata.labels)
    except SelectorError:  # the scheduler ignores such a rule as well
        return NO_TERMS


def _repels(rules: PodTerms, pod: Pod) -> bool:
    meta = pod.metadata
    return any(term.matches(meta.namespace, meta.labels, {}) for term in rules.anti_affinity)
