"""Limit what users of a system server (`muster up --system`) may write into Workloads and the status of jobs.

Of a Workload they may change only `spec.active`, which holds or releases its job; of a job's status, only that the job
was cancelled. The queues and the controllers trust Workloads and the status of jobs. A user who wrote anything else
could make a running job look finished, which releases its quota, or raise its priority over the jobs of others.
"""

from collections.abc import Mapping
from typing import Any

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.status import ApiError
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS, Access, Authorizer
from muster.cluster.store import Store
from muster.jobs.ending import STATUS_WITHOUT_PODS
from muster.jobs.job.conditions import FAILED, FAILURE_TARGET

_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")


def limit_user_writes(authorizer: Authorizer) -> Plugin:
    """Return the plugin that refuses users' writes to fields that decide on quota.

    Users with the right to write the status of Workloads, such as the engine, pass.
    """

    def judge(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (the signature of a plugin)
        if attempt.operation != "UPDATE" or attempt.old is None or MASTERS in attempt.user.groups:
            return
        if why := _find_objection(attempt, attempt.old):
            try:
                authorizer(access_to_quota(attempt))
            except ApiError:
                raise attempt.make_refusal(why) from None

    return judge


def _find_objection(attempt: WriteAttempt, old: Document) -> str:
    """Return why a user may not make this write; "" if the user may."""
    kind, new = attempt.resource.key, attempt.document
    if kind == WORKLOAD.resource and not attempt.subresource and not is_hold(old, new):
        return "users change only spec.active of a Workload, which holds and releases its job"
    if kind in (JOB.resource, JOB_SET.resource) and attempt.subresource == "status":
        types = _list_cancelling_types(old) if kind == JOB.resource else (FAILED,)
        if not is_cancellation(old.get("status") or {}, new.get("status") or {}, types):
            return "users write into the status of a job only that it was cancelled"
    return ""


def is_hold(old: Document, new: Document) -> bool:
    """Return whether a write changes only `spec.active` of a Workload."""
    if (old.get("spec") or {}) | {"active": None} != (new.get("spec") or {}) | {"active": None}:
        return False
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    return all((before.get(name) or None) == (after.get(name) or None) for name in _METADATA)


def is_cancellation(old: Mapping[str, Any], new: Mapping[str, Any], types: tuple[str, ...]) -> bool:
    """Return whether a write of a job's status only adds true conditions of these types, and their consequences.

    `muster.jobs.ending` makes such writes.
    """
    conditions = old.get("conditions") or []
    added = [one for one in new.get("conditions") or [] if one not in conditions]
    if any(one.get("type") not in types or one.get("status") != "True" for one in added):
        return False
    replaced = {one.get("type") for one in added}
    kept = [one for one in conditions if one.get("type") not in replaced or one.get("status") == "True"]
    if [one for one in new.get("conditions") or [] if one in conditions] != kept:
        return False
    following = {"conditions", "terminalState", *(STATUS_WITHOUT_PODS if FAILED in replaced else ())}
    return _remove_names(old, following) == _remove_names(new, following) and (
        old.get("terminalState") == new.get("terminalState") or (bool(added) and new.get("terminalState") == FAILED)
    )


def _list_cancelling_types(job: Document) -> tuple[str, ...]:
    manager = (job.get("spec") or {}).get("managedBy")
    return (FAILURE_TARGET, FAILED) if manager == MULTI_KUEUE_CONTROLLER else (FAILURE_TARGET,)


def _remove_names(status: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name not in names}


def access_to_quota(attempt: WriteAttempt) -> Access:
    """Return the access right to write the status of Workloads, which a program that decides about quota must have."""
    return Access(attempt.user, "update", WORKLOAD.group, f"{WORKLOAD.plural}/status", attempt.namespace, attempt.name)
