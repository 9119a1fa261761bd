"""How much of each quota is used: kept from the changes in the store, so that asking costs what has changed since.

Only namespaces that were asked about are kept. What was written but is not on disk yet counts as well: two writes
that come at once cannot both take what is left.
"""

from collections import Counter
from collections.abc import Iterable

from muster.cluster.apiserver.admission.plugins.quotausage import Measure, Scope, measure_body
from muster.cluster.store import Compacted, Entry, Key, Store

# Distinct scopes whose sums are kept for a namespace; more than any has of quotas.
_SCOPES = 100


class _Objects:
    """What the objects of one resource in one namespace use."""

    def __init__(self, resource: str, entries: Iterable[Entry]) -> None:
        self._measures = {entry.key.name: measure_body(resource, entry.body) for entry in entries}
        self._sums: dict[Scope, Counter[str]] = {}

    def put(self, name: str, measure: Measure | None) -> None:
        """An object has changed, or has gone."""
        old = self._measures.pop(name, None)
        if measure is not None:
            self._measures[name] = measure
        for scope, total in self._sums.items():
            _exchange(total, scope, old, measure)

    def used(self, scope: Scope) -> Counter[str]:
        """What all objects use that fall under a scope."""
        found = self._sums.get(scope)
        if found is None:
            found = Counter[str]()
            for measure in self._measures.values():
                _exchange(found, scope, None, measure)
            if len(self._sums) >= _SCOPES:
                self._sums.clear()
            self._sums[scope] = found
        return found


def _exchange(total: Counter[str], scope: Scope, old: Measure | None, new: Measure | None) -> None:
    """Count one measure instead of another, in place."""
    if old is not None and scope.covers(old):
        total.subtract(old.usage)
    if new is not None and scope.covers(new):
        total.update(new.usage)


class _Account:
    """What is kept of one resource. Before it says anything it reads what has been written since.

    Invariant: of each namespace that is kept, every object counts as of the newest write; `_ahead` holds the newest
    states that were not committed when they were counted, because they may be taken back.
    """

    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._resource = resource
        self._watch = store.watch(resource, store.revision)
        self._namespaces: dict[str, _Objects] = {}
        self._ahead: dict[Key, Entry | None] = {}

    def used(self, namespace: str, scope: Scope) -> Counter[str]:
        self._catch_up()
        objects = self._namespaces.get(namespace)
        if objects is None:
            entries = self._store.latest_list(self._resource, namespace).entries
            objects = self._namespaces[namespace] = _Objects(self._resource, entries)
        return objects.used(scope)

    def forget(self, namespace: str) -> None:
        self._namespaces.pop(namespace, None)

    def _catch_up(self) -> None:
        try:
            committed = self._watch.take()
        except Compacted:  # it was not asked for long
            self._watch = self._store.watch(self._resource, self._store.revision)
            self._namespaces.clear()
            committed = []
        pending = [change.entry.key for change in self._store.pending(self._resource)]
        for key in {change.entry.key for change in committed} | self._ahead.keys() | set(pending):
            objects = self._namespaces.get(key.namespace)
            if objects is None:
                continue
            newest = self._store.latest(key)
            if key not in self._ahead or self._ahead[key] is not newest:
                objects.put(key.name, measure_body(self._resource, newest.body) if newest is not None else None)
        self._ahead = {key: self._store.latest(key) for key in pending}


class QuotaLedger:
    """The accounts of all resources that quotas limit. Made beside the store, used on its loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._accounts: dict[str, _Account] = {}

    def used(self, resource: str, namespace: str, scope: Scope) -> Counter[str]:
        """What the objects of a resource use in a namespace, of those that fall under a scope. Not to be changed."""
        account = self._accounts.get(resource)
        if account is None:
            account = self._accounts[resource] = _Account(self._store, resource)
        return account.used(namespace, scope)

    def forget(self, namespace: str) -> None:
        """There are no quotas in a namespace any more."""
        for account in self._accounts.values():
            account.forget(namespace)
