"""Decide whether a flavor has a suitable node for a podset, by the labels of the cluster's nodes.

Quota knows only a flavor's own labels. If a podset selects another label, two flavors may seem equally suitable
although one of them has no node with that label. Free capacity, readiness and taints of nodes do not count here.

The index is mutable and has one owner. A change of a node costs one comparison for each cached question.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster.api.core import NodeSelectorTerm
from muster.api.values.nodeaffinity import matches_any
from muster.queueing.model import FlavorSpec, PodSet

_MOST_QUESTIONS = 4096

_Labels = tuple[tuple[str, str], ...]


class _Question(NamedTuple):
    """A cached question about nodes: which of them are suitable for a podset that gets a flavor.

    A node is suitable if it has the flavor's labels, and meets the podset's node selector and one of its affinity
    terms.
    """

    flavor: _Labels
    selector: _Labels
    terms: tuple[NodeSelectorTerm, ...]

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of that name and with these labels meets the requirements."""
        return all(labels.get(key) == value for key, value in (*self.flavor, *self.selector)) and (
            not self.terms or matches_any(self.terms, name, labels)
        )


class NodeLabels:
    """The labels of all nodes, and for each cached question the number of nodes that meet it."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._with: dict[tuple[str, str], set[str]] = {}  # the names of nodes, by label and value
        self._counts: dict[_Question, int] = {}
        # Whether cached results were dropped. If so, the next change of a node counts as a change of a result.
        self._forgot = False

    def set_node(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Set the labels of a node; return whether an earlier result of `could_take` may have changed.

        labels: the labels; None for a deleted node.
        """
        before = self._labels.get(name)
        if before == labels:
            return False
        for pair in (before or {}).items():
            self._with[pair].discard(name)
            if not self._with[pair]:
                del self._with[pair]
        if labels is None:
            del self._labels[name]
        else:
            self._labels[name] = labels
            for pair in labels.items():
                self._with.setdefault(pair, set()).add(name)
        changed, self._forgot = self._forgot, False
        for question, count in self._counts.items():
            gained = labels is not None and question.allows(name, labels)
            lost = before is not None and question.allows(name, before)
            if gained != lost:
                self._counts[question] = count + gained - lost
                changed = changed or not count or not self._counts[question]
        return changed

    def could_take(self, flavor: FlavorSpec, podset: PodSet) -> bool | None:
        """Return whether some node of the flavor is suitable for the pods; None if the flavor has no node at all.

        A flavor whose own labels meet all requirements is also suitable: nodes created on demand have these labels.
        """
        labels = _sort_pairs(flavor.labels)
        question = _Question(labels, _sort_pairs(podset.selector), podset.terms)
        if question.allows("", flavor.labels) or self._count_nodes(question):
            return True
        return False if self._count_nodes(_Question(labels, (), ())) else None

    def _count_nodes(self, question: _Question) -> int:
        count = self._counts.get(question)
        if count is None:
            if len(self._counts) >= _MOST_QUESTIONS:
                self._counts.clear()
                self._forgot = True
            sets = sorted((self._with.get(pair, set()) for pair in (*question.flavor, *question.selector)), key=len)
            names = set.intersection(*sets) if sets else self._labels.keys()
            count = sum(question.allows(name, self._labels[name]) for name in names) if question.terms else len(names)
            self._counts[question] = count
        return count


def _sort_pairs(labels: Mapping[str, str]) -> _Labels:
    return tuple(sorted(labels.items()))
