"""How much of each quota is used: kept from the changes in the store, so that asking costs what has changed since.

Only namespaces that were asked about are kept. What was written but is not on disk yet counts as well: two writes
that come at once cannot both take what is left.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from muster.cluster.apiserver.admission.plugins.quotausage import Measure, Scope, counted_with, measure_body
from muster.cluster.apiserver.admission.plugins.reservations import Reservations
from muster.cluster.store import Change, Compacted, Entry, Key, Store

# Distinct scopes whose sums are kept for a namespace; more than any has of quotas.
_SCOPES = 100


class _Objects:
    """What the objects of one namespace use that are counted together."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._measures: dict[Key, Measure] = {}
        self._sums: dict[Scope, Counter[str]] = {}
        self._reservations = Reservations()
        for entry in entries:
            self.put(entry.key, measure_body(entry.key.resource, entry.body))

    def put(self, key: Key, measure: Measure | None) -> Measure | None:
        """An object has changed, or has gone; as what it counted before."""
        old = self._measures.pop(key, None)
        if measure is not None:
            self._measures[key] = measure
        self._reservations.exchange(old, measure)
        for scope, total in self._sums.items():
            _exchange(total, scope, old, measure)
        return old

    def used(self, scope: Scope) -> Counter[str]:
        """What all objects use that fall under a scope; with what is set aside where there is none."""
        found = self._sums.get(scope)
        if found is None:
            found = Counter[str]()
            for measure in self._measures.values():
                _exchange(found, scope, None, measure)
            if len(self._sums) >= _SCOPES:
                self._sums.clear()
            self._sums[scope] = found
        untaken = self._reservations.untaken
        return found + untaken if untaken and scope == Scope() else found


def _exchange(total: Counter[str], scope: Scope, old: Measure | None, new: Measure | None) -> None:
    """Count one measure instead of another, in place."""
    if old is not None and scope.covers(old):
        total.subtract(old.usage)
    if new is not None and scope.covers(new):
        total.update(new.usage)


class _Account:
    """What is kept of one resource, and of those that are counted with it. Before it says anything it reads what has
    been written since.

    Invariant: of each namespace that is kept, every object counts as of the newest write; `_ahead` holds the newest
    states that were not committed when they were counted, because they may be taken back.
    """

    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._watches = {one: store.watch(one, store.revision) for one in counted_with(resource)}
        self._namespaces: dict[str, _Objects] = {}
        self._ahead: dict[Key, Entry | None] = {}

    def objects(self, namespace: str) -> _Objects:
        self._catch_up()
        objects = self._namespaces.get(namespace)
        if objects is None:
            lists = [self._store.latest_list(resource, namespace).entries for resource in self._watches]
            objects = self._namespaces[namespace] = _Objects(entry for entries in lists for entry in entries)
        return objects

    def forget(self, namespace: str) -> None:
        self._namespaces.pop(namespace, None)

    def _catch_up(self) -> None:
        committed = [change.entry.key for resource in self._watches for change in self._take(resource)]
        pending = [change.entry.key for resource in self._watches for change in self._store.pending(resource)]
        for key in {*committed, *self._ahead, *pending}:
            objects = self._namespaces.get(key.namespace)
            if objects is None:
                continue
            newest = self._store.latest(key)
            if key not in self._ahead or self._ahead[key] is not newest:
                objects.put(key, measure_body(key.resource, newest.body) if newest is not None else None)
        self._ahead = {key: self._store.latest(key) for key in pending}

    def _take(self, resource: str) -> Sequence[Change]:
        try:
            return self._watches[resource].take()
        except Compacted:  # it was not asked for long
            self._watches[resource] = self._store.watch(resource, self._store.revision)
            self._namespaces.clear()
            return ()


class QuotaLedger:
    """The accounts of all resources that quotas limit. Made beside the store, used on its loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._accounts: dict[str, _Account] = {}

    def used(self, resource: str, namespace: str, scope: Scope) -> Counter[str]:
        """What the objects of a resource use in a namespace, of those that fall under a scope. Not to be changed."""
        return self._account(resource).objects(namespace).used(scope)

    def with_object(self, resource: str, scope: Scope, key: Key, measure: Measure) -> tuple[Counter[str], Counter[str]]:
        """What that is, and how much more it would be once an object is measured so."""
        objects = self._account(resource).objects(key.namespace)
        before = Counter(objects.used(scope))
        old = objects.put(key, measure)
        more = objects.used(scope) - before
        objects.put(key, old)
        return before, more

    def _account(self, resource: str) -> _Account:
        account = self._accounts.get(resource)
        if account is None:
            account = self._accounts[resource] = _Account(self._store, resource)
        return account

    def forget(self, namespace: str) -> None:
        """There are no quotas in a namespace any more."""
        for account in self._accounts.values():
            account.forget(namespace)
