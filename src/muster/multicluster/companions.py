"""PodGroups go with the pods that name them: where there is none, the scheduler of a worker never places these.

The copy belongs to the clone of the workload, and to each that shares it: the worker's own collector of garbage removes
it after them. What is changed of a PodGroup here after that does not change it there.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL
from muster.api.meta import OwnerReference
from muster.api.podgroups import coscheduling
from muster.api.podgroups.names import TAKEN_BACK_ANNOTATION
from muster.api.status import ApiError, Status
from muster.jobs.podgroup.record import KINDS, NATIVE
from muster.jobs.podgroup.reference import By, Reference, reference_of
from muster.multicluster.dispatch.clone import is_ours
from muster.runtime.client import Client
from muster.runtime.objects import meta_of
from muster.runtime.refusals import is_refusal

_KINDS: Final[dict[By, tuple[Kind[Any], ...]]] = {
    By.FIELD: (NATIVE,),
    By.LABEL: (coscheduling.POD_GROUP,),
    By.ANNOTATION: tuple(kind for kind in KINDS if kind not in (NATIVE, coscheduling.POD_GROUP)),
}
_BOOKKEEPING = frozenset(("kubectl.kubernetes.io/last-applied-configuration", TAKEN_BACK_ANNOTATION))

Json = dict[str, Any]


class StrangerError(Exception):
    """A PodGroup that this manager did not make has the name in the worker."""


def named(pods: Iterable[Pod]) -> list[Reference]:
    """The PodGroups that they name, each once."""
    found = (reference_of(pod) for pod in pods)
    return list(dict.fromkeys(one for one in found if one is not None and one.name and not one.problem))


def copy(kind: Kind[Any], document: Json, origin: str, owner: OwnerReference) -> Json:
    """What is created in the worker."""
    meta = document["metadata"]
    annotations = meta.get("annotations") or {}
    metadata = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": {**(meta.get("labels") or {}), MULTI_KUEUE_ORIGIN_LABEL: origin},
        "annotations": {key: text for key, text in annotations.items() if key not in _BOOKKEEPING},
        "ownerReferences": [msgspec.to_builtins(owner)],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": document.get("spec") or {}}


async def bring(
    here: Client, there: Client, group: Reference, namespace: str, origin: str, owner: OwnerReference
) -> None:
    """It is there, and belongs to the owner. Raises `StrangerError`; `ApiError` (NotFound) while there is none here.

    Where either cluster serves no such kind, what pods say of it means nothing there.
    """
    served = False
    for kind in _KINDS[group.by]:
        found, is_served = await _look(here, kind, group.name, namespace)
        if found is not None:
            await _make(there, kind.seen_as(dict), copy(kind, found, origin, owner))
            return
        served |= is_served
    if served:
        problem = f'the manager has no PodGroup "{group.name}", which the pods name'
        raise ApiError(Status(status="Failure", code=404, reason="NotFound", message=problem))


async def is_barred(there: Client, group: Reference, namespace: str, origin: str) -> bool:
    """Whether the worker has one that this manager did not make."""
    looks = await asyncio.gather(*(_look(there, kind, group.name, namespace) for kind in _KINDS[group.by]))
    return any(found is not None and not is_ours(meta_of(found), origin) for found, _ in looks)


async def _look(client: Client, kind: Kind[Any], name: str, namespace: str) -> tuple[Json | None, bool]:
    """The PodGroup of that kind, and whether there is such a kind."""
    try:
        return await client.get(kind.seen_as(dict), name, namespace), True
    except ApiError as error:
        if error.code != 404:
            raise
        return None, not _is_not_served(error)


async def _make(there: Client, kind: Kind[Json], wanted: Json) -> None:
    meta = wanted["metadata"]
    try:
        await there.create(kind, wanted, meta["namespace"])
    except ApiError as error:
        if _is_not_served(error):
            return
        if not is_refusal(error, "AlreadyExists"):
            raise
        found = await there.get(kind, meta["name"], meta["namespace"])
        if not is_ours(meta_of(found), meta["labels"][MULTI_KUEUE_ORIGIN_LABEL]):
            raise StrangerError from None
        owners, (owner,) = found["metadata"].get("ownerReferences") or [], meta["ownerReferences"]
        if owner["uid"] not in [one.get("uid") for one in owners]:
            await there.patch_object(kind, found, {"metadata": {"ownerReferences": [*owners, owner]}})


def _is_not_served(error: ApiError) -> bool:
    """Whether there is no such kind: else the object that is missing has a name."""
    details = error.status.details
    return error.code == 404 and (details is None or not details.name)
