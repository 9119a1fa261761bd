"""Find out whether a viewer may make a change, so that a page can omit buttons that the server would refuse.

The server still decides about every change. Buttons are shown until the server's response is known. The page that asks
for confirmation of a change waits for the response.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from muster.actions.rights import Right, has_right
from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.dashboard.refusals import ask_for_right
from muster.dashboard.visits import PageError, Visit

_SECONDS = 60.0


def list_job_rights(choice: str, kind: Kind[Any] | None) -> tuple[Right, ...]:
    """Return the rights of which a change of a job needs at least one, the usual right first.

    choice: the name of the change.
    kind: the kind of the job; None for a job that only its Workload describes.

    The state of the job determines which of the rights is needed.
    """
    if choice == "retry":
        return (Right("create", JOB),)
    of_workload = Right("patch", WORKLOAD)
    if kind is None:
        return of_workload, Right("patch", POD), Right("delete", POD)
    return Right("patch", kind), of_workload, Right("patch", kind, "status"), Right("delete", kind)


async def find_refusal(visit: Visit, rights: Sequence[Right], name: str, namespace: str = "") -> str:
    """Return which right the viewer lacks for changing an object; "" if the viewer has one of the rights.

    name: the name of the object.
    namespace: the namespace of the object; "" for a cluster-scoped kind.

    Until the server has responded, the result is "", too. A response is cached for a minute.
    """
    review = partial(_review, visit, rights, name, namespace)
    is_allowed: bool | None = await visit.copy.answers.ask(("rights", *rights, name, namespace), _SECONDS, review)
    if is_allowed is None or is_allowed:
        return ""
    where = f"in namespace {namespace}" if namespace else "of the cluster"
    return f"that takes the right to {rights[0].verb} {rights[0].resource} {where}, which an administrator gives"


async def require_right(visit: Visit, rights: Sequence[Right], name: str, namespace: str = "") -> None:
    """Query the server now whether the viewer has one of the rights for changing an object.

    Raises `PageError` (403) if the viewer has none of them, and `ApiError`, `TransportError`.
    """
    if not await _review(visit, rights, name, namespace):
        advice = ask_for_right(rights[0].verb, rights[0].resource, namespace)
        raise PageError("You may not do this", f"You do not have the right to change {name}. {advice}", 403)


async def _review(visit: Visit, rights: Sequence[Right], name: str, namespace: str) -> bool:
    for right in rights:
        if await has_right(visit.viewer.client, right, name, namespace):
            return True
    return False
