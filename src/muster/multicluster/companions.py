"""Copy the PodGroups that pods name into the worker that runs the pods.

Without its PodGroup, the worker's scheduler never places the pods. The workload's clone owns the copy, so that the
worker's garbage collector deletes both. A later change of the manager's PodGroup does not change the copy.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL
from muster.api.meta import OwnerReference
from muster.api.ours.elastic import BINDING_ANNOTATION, HELD_ANNOTATION
from muster.api.podgroups import coscheduling
from muster.api.podgroups.names import TAKEN_BACK_ANNOTATION
from muster.api.status import ApiError, Status
from muster.jobs.podgroup.record import KINDS, NATIVE
from muster.jobs.podgroup.reference import By, GroupReference, reference_of
from muster.multicluster.dispatch.clone import is_ours
from muster.runtime.client import Client
from muster.runtime.objects import meta_of
from muster.runtime.refusals import is_refusal

_KINDS: Final[dict[By, tuple[Kind[Any], ...]]] = {
    By.FIELD: (NATIVE,),
    By.LABEL: (coscheduling.POD_GROUP,),
    By.ANNOTATION: tuple(kind for kind in KINDS if kind not in (NATIVE, coscheduling.POD_GROUP)),
}
_BOOKKEEPING = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        BINDING_ANNOTATION,
        HELD_ANNOTATION,
        TAKEN_BACK_ANNOTATION,
    )
)

Json = dict[str, Any]


class StrangerError(Exception):
    """A PodGroup in the worker with the needed name that this manager did not create."""


def list_pod_groups(pods: Iterable[Pod]) -> list[GroupReference]:
    """Return the PodGroups that pods name, each once."""
    references = (reference_of(pod) for pod in pods)
    return list(dict.fromkeys(one for one in references if one is not None and one.name and not one.problem))


def copy(kind: Kind[Any], document: Json, origin: str, owner: OwnerReference) -> Json:
    """Return a PodGroup of the manager as the document to create in the worker. owner: the workload's clone."""
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


async def bring_pod_group(
    here: Client, there: Client, group: GroupReference, namespace: str, origin: str, owner: OwnerReference
) -> None:
    """Create the PodGroup in the worker, owned by `owner`, unless it exists.

    here, there: clients of the manager's cluster and of the worker. If either cluster does not serve the kind, the
    pods' reference has no meaning there, and nothing is created.

    Raises:
        StrangerError: the worker has a PodGroup of that name that this manager did not create.
        ApiError: NotFound while the PodGroup does not exist in the manager's cluster.
    """
    served = False
    for kind in _KINDS[group.by]:
        group_object, is_served = await _read_group(here, kind, group.name, namespace)
        if group_object is not None:
            await _create_group(there, kind.seen_as(dict), copy(kind, group_object, origin, owner))
            return
        served |= is_served
    if served:
        problem = f'the manager has no PodGroup "{group.name}", which the pods name'
        raise ApiError(Status(status="Failure", code=404, reason="NotFound", message=problem))


async def is_barred(there: Client, group: GroupReference, namespace: str, origin: str) -> bool:
    """Return whether the worker has a PodGroup of that name that this manager did not create."""
    looks = await asyncio.gather(*(_read_group(there, kind, group.name, namespace) for kind in _KINDS[group.by]))
    return any(existing is not None and not is_ours(meta_of(existing), origin) for existing, _ in looks)


async def _read_group(client: Client, kind: Kind[Any], name: str, namespace: str) -> tuple[Json | None, bool]:
    """Return the PodGroup of that kind (None if it does not exist), and whether the server serves the kind.

    Raises `ApiError`.
    """
    try:
        return await client.get(kind.seen_as(dict), name, namespace), True
    except ApiError as error:
        if error.code != 404:
            raise
        return None, not _is_not_served(error)


async def _create_group(there: Client, kind: Kind[Json], group: Json) -> None:
    meta = group["metadata"]
    try:
        await there.create(kind, group, meta["namespace"])
    except ApiError as error:
        if _is_not_served(error):
            return
        if not is_refusal(error, "AlreadyExists"):
            raise
        existing = await there.get(kind, meta["name"], meta["namespace"])
        if not is_ours(meta_of(existing), meta["labels"][MULTI_KUEUE_ORIGIN_LABEL]):
            raise StrangerError from None
        owners, (owner,) = existing["metadata"].get("ownerReferences") or [], meta["ownerReferences"]
        if owner["uid"] not in [one.get("uid") for one in owners]:
            await there.patch_object(kind, existing, {"metadata": {"ownerReferences": [*owners, owner]}})


def _is_not_served(error: ApiError) -> bool:
    """Return whether a NotFound error means that the server does not serve the kind. Otherwise an object is missing."""
    details = error.status.details
    return error.code == 404 and (details is None or not details.name)
