"""Decide which flavors a podset may use, by taints and by the podset's node requirements.

A flavor stands for nodes, and only the flavor's own labels are known. So only the parts of the node selector and the
required node affinity that name those labels count. The scheduler checks all other parts (Kueue, flavorassigner.go).
"""

from collections.abc import Mapping

from muster.api.core import NodeSelectorTerm, Taint
from muster.api.values.nodeaffinity import make_requirement
from muster.api.values.taints import find_untolerated_taint
from muster.queueing.model import FlavorSpec, PodSet


def explain_mismatch(podset: PodSet, flavor: FlavorSpec) -> str:
    """Return why pods of the podset may not run on nodes of the flavor; "" if they may.

    Raises `SelectorError` for a malformed affinity.
    """
    if (
        flavor.taints
        and (taint := find_untolerated_taint(flavor.taints, (*podset.tolerations, *flavor.tolerations))) is not None
    ):
        return f"untolerated taint {_format_taint(taint)} in flavor {flavor.name}"
    if flavor.labels and not (
        _matches_selector(podset.selector, flavor.labels) and _matches_terms(podset.terms, flavor.labels)
    ):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _matches_selector(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels[key] == value for key, value in selector.items() if key in labels)


def _matches_terms(terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """Return whether nodes of a flavor can match one of the node selector terms; true if there are no terms.

    labels: the labels of the flavor. A term that names none of these labels may match.
    """
    relevant = [[r for r in term.match_expressions if r.key in labels] for term in terms]
    if not all(relevant):
        return True
    return not terms or any(all(make_requirement(r).matches(labels) for r in term) for term in relevant)


def _format_taint(taint: Taint) -> str:
    """Return the taint in the format in which Go prints the struct, because upstream's messages contain it."""
    added = "<nil>" if taint.time_added is None else taint.time_added.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    return f"{{{taint.key} {taint.value} {taint.effect} {added}}}"
