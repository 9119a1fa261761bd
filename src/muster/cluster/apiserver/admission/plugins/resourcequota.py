"""No write takes more than the quotas of its namespace leave.

Asked last, when nothing is left to wait for: between the answer and the write there is no other write.
"""

from collections.abc import Mapping

from msgspec import Struct

from muster.api.core import POD, SERVICE
from muster.api.core.quota import RESOURCE_QUOTA
from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.apiserver.admission.plugins.quotaledger import QuotaLedger
from muster.cluster.apiserver.admission.plugins.quotausage import (
    CLAIMS,
    Amounts,
    Measure,
    Scope,
    hard_amounts,
    measure_document,
    resource_of,
    shown,
    unsaid,
)
from muster.cluster.store import Entry, Store

# Changes of these can take more; of others only new ones do.
_GROW = frozenset({SERVICE.resource, CLAIMS})


class _Quota(Struct, frozen=True):
    """One quota, understood."""

    name: str
    scope: Scope
    hard: Amounts


class QuotaAdmission:
    """A plugin for the last stage of admission."""

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._understood: dict[str, tuple[Entry, _Quota]] = {}  # by UID

    def __call__(self, attempt: Attempt, store: Store) -> None:
        """Raise `ApiError` (403) if a quota would be exceeded."""
        if not attempt.namespace or attempt.subresource or attempt.operation not in ("CREATE", "UPDATE"):
            return
        resource = attempt.resource.key
        if attempt.operation == "UPDATE" and resource not in _GROW:
            return
        entries = store.list(RESOURCE_QUOTA.resource, attempt.namespace).entries
        if not entries:
            self._ledger.forget(attempt.namespace)
            return
        measure = measure_document(resource, attempt.document)
        quotas = [quota for quota in map(self._quota, entries) if quota.scope.covers(measure)]
        if resource == POD.resource:
            _require_said(attempt, quotas)
        taken = _taken(measure, attempt)
        for quota in quotas:
            self._require_room(attempt, quota, {name: taken[name] for name in taken.keys() & quota.hard.keys()})

    def _quota(self, entry: Entry) -> _Quota:
        known = self._understood.get(entry.header.uid)
        if known is not None and known[0] is entry:
            return known[1]
        if len(self._understood) > _REMEMBERED:
            self._understood.clear()
        spec = RESOURCE_QUOTA.decode(entry.body).spec
        quota = _Quota(entry.key.name, Scope.of(spec), hard_amounts(spec))
        self._understood[entry.header.uid] = (entry, quota)
        return quota

    def _require_room(self, attempt: Attempt, quota: _Quota, requested: Amounts) -> None:
        if not requested:
            return
        total = self._ledger.used(attempt.resource.key, attempt.namespace, quota.scope)
        exceeded = [name for name, number in requested.items() if total[name] + number > quota.hard[name]]
        if exceeded:
            lists = (_only(exceeded, requested), _only(exceeded, total), _only(exceeded, quota.hard))
            asked, used, hard = map(shown, lists)
            why = f"exceeded quota: {quota.name}, requested: {asked}, used: {used}, limited: {hard}"
            raise attempt.refused(why)


_REMEMBERED = 10_000


def _taken(measure: Measure, attempt: Attempt) -> Amounts:
    """What the write takes more than before."""
    before = measure_document(attempt.resource.key, attempt.old).usage if attempt.old is not None else {}
    more = {name: number - before.get(name, 0) for name, number in measure.usage.items()}
    return {name: number for name, number in more.items() if number > 0}


def _only(names: list[str], amounts: Mapping[str, int]) -> Amounts:
    return {name: amounts[name] for name in names}


def _require_said(attempt: Attempt, quotas: list[_Quota]) -> None:
    for quota in quotas:
        limited = [name for name in quota.hard if resource_of(name) == POD.resource]
        if missing := unsaid(attempt.document, limited):
            raise attempt.refused(f"failed quota: {quota.name}: must specify {missing}")
