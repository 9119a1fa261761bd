"""Which flavors suit a podset: taints, and what it says about nodes.

A flavor stands for nodes of which only its own labels are known. So of the node selector and the required node
affinity only what is about those labels is looked at; the rest is left to the scheduler (Kueue, flavorassigner.go).
"""

from collections.abc import Mapping

from muster.api.core import NodeSelectorTerm, Taint
from muster.api.values.nodeaffinity import requirement
from muster.api.values.taints import untolerated
from muster.queueing.model import FlavorSpec, PodSet


def mismatch(podset: PodSet, flavor: FlavorSpec) -> str:
    """Why the flavor does not suit the podset; "" if it does. Raises `SelectorError` for an affinity without sense."""
    if flavor.taints and (taint := untolerated(flavor.taints, (*podset.tolerations, *flavor.tolerations))) is not None:
        return f"untolerated taint {_shown(taint)} in flavor {flavor.name}"
    if flavor.labels and not (_selected(podset.selector, flavor.labels) and _wanted(podset.terms, flavor.labels)):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _selected(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels[key] == value for key, value in selector.items() if key in labels)


def _wanted(terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """Whether one of the alternatives is met; one that is about other labels only may be met by any node."""
    relevant = [[r for r in term.match_expressions if r.key in labels] for term in terms]
    if not all(relevant):
        return True
    return not terms or any(all(requirement(r).matches(labels) for r in term) for term in relevant)


def _shown(taint: Taint) -> str:
    """As Go prints the struct, which is what upstream's messages have."""
    added = "<nil>" if taint.time_added is None else taint.time_added.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    return f"{{{taint.key} {taint.value} {taint.effect} {added}}}"
