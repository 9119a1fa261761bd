"""Find the disruption budgets that select a pod, in their newest state."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget
from muster.api.values.selectors import LabelMatcher, label_matcher
from muster.cluster.store import Entry, Store

_REMEMBERED = 10_000  # budgets in the cache, above which the cache is cleared


class _Decoded(Struct, frozen=True):
    entry: Entry
    budget: PodDisruptionBudget
    matcher: LabelMatcher


class Budgets:
    """The disruption budgets of a store, with a cache that decodes each stored state once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Decoded] = {}  # by UID

    def list_selecting(self, meta: Mapping[str, Any]) -> list[PodDisruptionBudget]:
        """Return the budgets of a pod's namespace that select the pod. meta: the metadata of the pod."""
        labels = meta.get("labels") or {}
        entries = self._store.latest_list(POD_DISRUPTION_BUDGET.resource, meta["namespace"]).entries
        return [one.budget for one in map(self._decode, entries) if one.matcher.matches(labels)]

    def _decode(self, entry: Entry) -> _Decoded:
        known = self._known.get(entry.header.uid)
        if known is not None and known.entry is entry:
            return known
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        budget = POD_DISRUPTION_BUDGET.decode(entry.body)
        decoded = _Decoded(entry, budget, label_matcher(budget.spec.selector))
        self._known[entry.header.uid] = decoded
        return decoded
