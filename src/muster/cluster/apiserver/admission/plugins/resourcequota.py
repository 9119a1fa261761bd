"""Refuse writes that would exceed a ResourceQuota of their namespace.

The plugin runs in the last stage of admission, so that no other write comes between its decision and the write.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from muster.api.core import POD, SERVICE
from muster.api.core.quota import RESOURCE_QUOTA
from muster.api.podgroups.kep import POD_GROUP
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.plugins.quotaledger import QuotaLedger
from muster.cluster.apiserver.admission.plugins.quotausage import (
    CLAIMS,
    Amounts,
    Scope,
    counts_for,
    hard_amounts,
    list_unstated,
    measure_document,
    render_amounts,
    resource_of,
)
from muster.cluster.apiserver.decode import Document
from muster.cluster.store import Entry, Key, Store

# Resources whose updates can use more quota. For other resources only new objects do.
_GROW = frozenset({POD_GROUP.resource, SERVICE.resource, CLAIMS})


class _Quota(Struct, frozen=True):
    """One ResourceQuota, decoded."""

    name: str
    scope: Scope
    hard: Amounts


class QuotaAdmission:
    """The plugin that enforces ResourceQuotas, in the last stage of admission."""

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._understood: dict[str, tuple[Entry, _Quota]] = {}  # by UID

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:
        """Raise `ApiError` (403) if the write would exceed a quota.

        A new pod is refused, too, if it does not state an amount that a quota limits.
        """
        if not attempt.namespace or not _may_take(attempt):
            return
        resource, namespace = attempt.resource.key, attempt.namespace
        entries = store.list(RESOURCE_QUOTA.resource, namespace).entries
        if not entries:
            self._ledger.forget(namespace)
            return
        measure = measure_document(resource, attempt.document)
        quotas = [quota for quota in map(self._decode_quota, entries) if quota.scope.covers(measure)]
        if resource == POD.resource and attempt.operation == "CREATE":
            _require_stated_amounts(attempt, quotas)
        key = Key(resource, namespace, attempt.document["metadata"]["name"])
        for quota in quotas:
            for account in counts_for(resource):  # a PodGroup contributes to the usage of pods, too
                used, more = self._ledger.with_object(account, quota.scope, key, measure)
                limited = [name for name in more.keys() & quota.hard.keys() if resource_of(name) == account]
                _require_room(attempt, quota, used, _keep_only(limited, more))

    def _decode_quota(self, entry: Entry) -> _Quota:
        known = self._understood.get(entry.header.uid)
        if known is not None and known[0] is entry:
            return known[1]
        if len(self._understood) > _REMEMBERED:
            self._understood.clear()
        spec = RESOURCE_QUOTA.decode(entry.body).spec
        quota = _Quota(entry.key.name, Scope.of(spec), hard_amounts(spec))
        self._understood[entry.header.uid] = (entry, quota)
        return quota


_REMEMBERED = 10_000


def _require_room(attempt: WriteAttempt, quota: _Quota, used: Counter[str], requested: Amounts) -> None:
    exceeded = [name for name, number in requested.items() if used[name] + number > quota.hard[name]]
    if exceeded:
        lists = (_keep_only(exceeded, requested), _keep_only(exceeded, used), _keep_only(exceeded, quota.hard))
        asked, taken, hard = map(render_amounts, lists)
        why = f"exceeded quota: {quota.name}, requested: {asked}, used: {taken}, limited: {hard}"
        raise attempt.make_refusal(why)


def _may_take(attempt: WriteAttempt) -> bool:
    """Return whether the write could make the object use more of a quota than before."""
    resource = attempt.resource.key
    if (resource, attempt.operation) == (POD.resource, "UPDATE"):  # updates of the status included
        return _read_group_metadata(attempt.old) != _read_group_metadata(attempt.document)
    if attempt.subresource:
        return (resource, attempt.subresource) == (POD_GROUP.resource, "status")  # a complete group may resume
    if attempt.operation == "UPDATE":
        return resource in _GROW
    return attempt.operation == "CREATE"


def _read_group_metadata(pod: Document | None) -> object:
    """Return the metadata that names the PodGroup of a pod."""
    meta = pod["metadata"] if pod is not None else {}
    return meta.get("annotations"), meta.get("labels")


def _keep_only(names: list[str], amounts: Mapping[str, int]) -> Amounts:
    return {name: amounts[name] for name in names}


def _require_stated_amounts(attempt: WriteAttempt, quotas: list[_Quota]) -> None:
    for quota in quotas:
        limited = [name for name in quota.hard if resource_of(name) == POD.resource]
        if missing := list_unstated(attempt.document, limited):
            raise attempt.make_refusal(f"failed quota: {quota.name}: must specify {missing}")
