"""Track how much of each quota is used, from the changes in the store.

The cost of a query depends on the number of changes since the last query. Only namespaces that were queried have an
account. Uncommitted writes count as well, so that two concurrent writes cannot both use the same remainder.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from muster.cluster.apiserver.admission.plugins.quotausage import (
    Measure,
    Scope,
    list_resources_counted_with,
    measure_body,
)
from muster.cluster.apiserver.admission.plugins.reservations import Reservations
from muster.cluster.store import Change, Compacted, Entry, Key, Store

# The maximum number of scopes with cached sums for a namespace, which is more than any namespace has quotas.
_SCOPES = 100


class _Objects:
    """The quota usage of one namespace's objects in an account, summed for each requested scope."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._measures: dict[Key, Measure] = {}
        self._sums: dict[Scope, Counter[str]] = {}
        self._reservations = Reservations()
        for entry in entries:
            self.put(entry.key, measure_body(entry.key.resource, entry.body))

    def put(self, key: Key, measure: Measure | None) -> Measure | None:
        """Replace the measure of an object, or remove it (None); return the previous measure."""
        old = self._measures.pop(key, None)
        if measure is not None:
            self._measures[key] = measure
        self._reservations.exchange(old, measure)
        for scope, total in self._sums.items():
            _exchange(total, scope, old, measure)
        return old

    def sum_usage(self, scope: Scope) -> Counter[str]:
        """Return the usage of all objects that a scope covers.

        The empty scope includes the reservations of PodGroups.
        """
        total = self._sums.get(scope)
        if total is None:
            total = Counter[str]()
            for measure in self._measures.values():
                _exchange(total, scope, None, measure)
            if len(self._sums) >= _SCOPES:
                self._sums.clear()
            self._sums[scope] = total
        untaken = self._reservations.untaken
        return total + untaken if untaken and scope == Scope() else total


def _exchange(total: Counter[str], scope: Scope, old: Measure | None, new: Measure | None) -> None:
    """Replace one measure by another in a sum, in place."""
    if old is not None and scope.covers(old):
        total.subtract(old.usage)
    if new is not None and scope.covers(new):
        total.update(new.usage)


class _Account:
    """The account of one resource and of the resources counted with it.

    It catches up with the store before each answer. Invariant: in each namespace of the account, every object counts in
    its newest state. `_ahead` contains the states that were uncommitted when they were counted, because the store may
    roll them back.
    """

    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._watches = {one: store.watch(one, store.revision) for one in list_resources_counted_with(resource)}
        self._namespaces: dict[str, _Objects] = {}
        self._ahead: dict[Key, Entry | None] = {}

    def get_objects(self, namespace: str) -> _Objects:
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
        except Compacted:  # the last query is long ago, so the store has dropped the changes
            self._watches[resource] = self._store.watch(resource, self._store.revision)
            self._namespaces.clear()
            return ()


class QuotaLedger:
    """The usage of all resources that ResourceQuotas limit. Only the event loop of the store uses the ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._accounts: dict[str, _Account] = {}

    def sum_usage(self, resource: str, namespace: str, scope: Scope) -> Counter[str]:
        """Return how much the objects of a resource use in a namespace, under a scope.

        The caller must not change the result.
        """
        return self._get_account(resource).get_objects(namespace).sum_usage(scope)

    def with_object(self, resource: str, scope: Scope, key: Key, measure: Measure) -> tuple[Counter[str], Counter[str]]:
        """Return the usage under a scope without this write, and by how much it would grow with it.

        measure: what the object would use after the write.
        """
        objects = self._get_account(resource).get_objects(key.namespace)
        before = Counter(objects.sum_usage(scope))
        old = objects.put(key, measure)
        more = objects.sum_usage(scope) - before
        objects.put(key, old)
        return before, more

    def _get_account(self, resource: str) -> _Account:
        account = self._accounts.get(resource)
        if account is None:
            account = self._accounts[resource] = _Account(self._store, resource)
        return account

    def forget(self, namespace: str) -> None:
        """Drop the accounts of a namespace without quotas."""
        for account in self._accounts.values():
            account.forget(namespace)
