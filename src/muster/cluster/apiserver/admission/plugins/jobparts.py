"""Refuse pods and jobs that a user creates in the name of a job's controller.

A part of a job needs no quota of its own, because the job has quota. A pod that only claims to be such a part would run
without quota.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from muster.api.batch import JOB, JOB_CONTROLLER_NAME
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import CONTROLLER_NAME
from muster.api.kinds import Kind
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.status import ApiError
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.apiserver.admission.plugins.userwrites import access_to_quota
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS, Authorizer
from muster.cluster.store import Key, Store

# The kinds that the server's own controllers run, and the value of `managedBy` that means these controllers.
_OWN: Final[tuple[tuple[Kind[Any], str], ...]] = (
    (JOB, JOB_CONTROLLER_NAME),
    (JOB_SET, CONTROLLER_NAME),
    (VOLCANO_JOB, ""),
)


def refuse_forged_parts(kinds: Iterable[str], authorizer: Authorizer) -> Plugin:
    """Return the judging plugin that refuses forged parts: pods and jobs that name a job of the server as controller.

    Only the server's controllers may create such parts, which use the quota of that job. Members of `system:masters`,
    such as these controllers, pass. If that job's `managedBy` names another controller, users with the right to write
    the status of Workloads pass, too. The name alone is not enough, because anybody can write it into their own job.

    kinds: the kinds of jobs to check.
    """
    concerned = frozenset({*kinds, POD.resource})

    def judge(attempt: WriteAttempt, store: Store) -> None:
        if attempt.resource.key not in concerned or attempt.subresource or attempt.operation == "DELETE":
            return
        if MASTERS in attempt.user.groups or (owner := _find_controller(attempt.document)) is None:
            return
        if attempt.old is not None and _find_controller(attempt.old) == owner:
            return
        for kind, manager in _OWN:
            if owner.get("kind") != kind.kind:
                continue
            runs = _find_runner(store, kind, manager, attempt.namespace, owner)
            if runs is not None and (runs or not _may_decide_on_quota(attempt)):
                raise attempt.make_refusal(
                    f"{kind.kind} {owner['name']} cannot be its controller: the server alone makes the parts of that "
                    f"{kind.kind}, on its quota"
                )

    def _may_decide_on_quota(attempt: WriteAttempt) -> bool:
        try:
            authorizer(access_to_quota(attempt))
        except ApiError:
            return False
        return True

    return judge


def _find_runner(store: Store, kind: Kind[Any], manager: str, namespace: str, owner: Mapping[str, Any]) -> bool | None:
    """Return whether one of the server's own controllers runs the owner; None if the owner does not exist.

    manager: the value of `managedBy` that means the server's controllers.
    """
    entry = store.latest(Key(kind.resource, namespace, str(owner.get("name", ""))))
    if entry is None or entry.header.uid != owner.get("uid"):
        return None
    spec = msgspec.json.decode(entry.body).get("spec") or {}
    return (spec.get("managedBy") or manager) in (manager, MULTI_KUEUE_CONTROLLER)


def _find_controller(document: Document) -> Mapping[str, Any] | None:
    owners = (document.get("metadata") or {}).get("ownerReferences") or []
    return next((one for one in owners if isinstance(one, dict) and one.get("controller")), None)
