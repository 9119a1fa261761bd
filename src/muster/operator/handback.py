"""Prepare Workloads, and the Secret of the webhooks' certificates, for Kueue's manager when it replaces Muster.

Kueue writes a Workload's status by server-side apply, as `kueue-admission`, and removes a field by no longer applying
it. That works only for fields that Kueue alone owns, so Muster's fields become Kueue's. Values stay as they are, except
the pod counts of an elastic Workload: Kueue reads them as the granted size, Muster as the desired size.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from muster.api.config import Configuration
from muster.api.core import SECRET
from muster.api.kueue import VERSION, WORKLOAD, Workload
from muster.api.kueue.fields import GROUP
from muster.api.meta import ObjectMeta
from muster.operator.holders import LOOK_SECONDS, find_working_holder
from muster.operator.precedence import place
from muster.operator.replica import FIELD_MANAGER
from muster.queueing.elastic.growth import list_granted_podsets
from muster.runtime.client import Client
from muster.runtime.control.leases import Election
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import cancel
from muster.webhooks import certificates

KUEUE: Final = "kueue-admission"
# The fields of the status that Kueue removes by no longer applying them.
FIELDS: Final = (
    "f:admission", "f:admissionChecks", "f:clusterName", "f:nominatedClusterNames", "f:requeueState",
    "f:resourceRequests", "f:unhealthyNodes",
)  # fmt: skip

Entry = Mapping[str, Any]


class StillWorksError(Exception):
    """An engine that is still running. The message names it."""


async def hand_back_alone(
    client: Client, inputs: ExternalInputs, settings: Configuration, identity: str, report: Callable[[str], None]
) -> int:
    """Hand all Workloads over to Kueue while holding the Lease of engines, so that no engine starts.

    Return the number of changed Workloads. If Kueue could not start with the Secret of the webhooks' certificates,
    empty it. If the Lease is held, wait for its whole duration, because only a renewal shows whether its holder still
    runs.

    report: called with the reason of a wait.

    Raises `StillWorksError`, `LeadershipLostError`, and the errors of `hand_back`.
    """
    where, name = place(settings)
    election = Election(client, inputs.clock, inputs.random, namespace=where, name=name, identity=identity)
    count = 0

    async def work() -> None:
        nonlocal count
        count = await hand_back(client)
        if await empty_unreadable_certificates(client, settings):
            report(
                f"Secret {secret_of(settings)} is emptied: Kueue's manager cannot read what it held, and fills it again"
            )

    async def another() -> str:
        """Return the identity of the engine that has taken the Lease instead, such as a standby."""
        while not (engine := await find_working_holder(client, inputs.clock, settings, report, but=identity)):
            await inputs.clock.sleep(LOOK_SECONDS)
        return engine

    leading, watching = asyncio.create_task(election.run(work)), asyncio.create_task(another())
    try:
        await asyncio.wait([leading, watching], return_when=asyncio.FIRST_COMPLETED)
        if not leading.done():
            raise StillWorksError(f"{watching.result()} still works: stop it first, and all that stand by")
        await leading
    finally:
        await cancel([leading, watching])
    return count


def secret_of(settings: Configuration) -> str:
    """Return the namespace and name of the Secret with the webhooks' certificates."""
    return f"{settings.namespace}/{settings.internal_cert_management.webhook_secret_name}"


async def empty_unreadable_certificates(client: Client, settings: Configuration) -> bool:
    """Empty the Secret of the webhooks' certificates if Kueue's manager could not start with it.

    Return whether the Secret was emptied.
    """
    if not settings.internal_cert_management.enable:
        return False  # another program makes the certificates
    namespace, _, name = secret_of(settings).partition("/")
    secret = await client.find(SECRET, name, namespace)
    if secret is None or certificates.is_readable_by_kueue(secret.data):
        return False
    parts = (certificates.AUTHORITIES, certificates.AUTHORITY_KEY, certificates.CERTIFICATE, certificates.KEY)
    await client.patch_object(SECRET, secret, {"data": dict.fromkeys(parts)})
    return True


class _ManagedMeta(ObjectMeta):
    """Metadata with `managedFields`, which other readers in this project leave out."""

    managed_fields: tuple[dict[str, Any], ...] = ()  # type: ignore[assignment]


class _ManagedWorkload(Workload):
    metadata: _ManagedMeta = _ManagedMeta()


_WORKLOAD: Final = WORKLOAD.seen_as(_ManagedWorkload)


async def hand_back(client: Client) -> int:
    """Hand all Workloads over to Kueue; return the number of changed Workloads.

    Kueue becomes the owner of Muster's fields, and elastic Workloads shrink to the granted pods. Raises `ApiError`
    (Conflict if another client writes them).
    """
    count = 0
    for workload in (await client.list(_WORKLOAD)).items:
        entries, sizes = hand_back_fields(workload.metadata.managed_fields), granted_sizes(workload)
        with ignoring("NotFound"):
            if sizes:
                workload = await client.edit_object(_WORKLOAD, workload, sizes)
                entries = hand_back_fields(workload.metadata.managed_fields)
            if entries is not None:
                await client.patch_object(_WORKLOAD, workload, {"metadata": {"managedFields": entries}})
        count += entries is not None or bool(sizes)
    return count


def granted_sizes(workload: Workload) -> list[dict[str, Any]]:
    """Return the JSON patch that reduces an elastic Workload's pod counts to the granted counts.

    Kueue opens the gates of as many pods as the podsets list, and then requests more by a slice of the larger size.
    """
    return [
        {"op": "replace", "path": f"/spec/podSets/{position}/count", "value": granted.count}
        for position, (wanted, granted) in enumerate(
            zip(workload.spec.pod_sets, list_granted_podsets(workload), strict=True)
        )
        if granted.count < wanted.count
    ]


def hand_back_fields(entries: Sequence[Entry]) -> list[Entry] | None:
    """Return the managed fields in which Kueue owns all fields that Muster owned; None if Muster owned none.

    Managed fields are the server's record of who owns which field of an object.
    """
    given: dict[str, Any] = {}
    kept, theirs = list[Entry](), dict[str, Any]()
    for entry in entries:
        status = entry.get("fieldsV1", {}).get("f:status", {})
        if entry.get("subresource") != "status":
            kept.append(entry)
        elif entry.get("manager") == KUEUE and entry.get("operation") == "Apply":
            theirs = dict(entry)
        elif entry.get("manager") == FIELD_MANAGER:
            given = _merge_fields(given, {field: below for field, below in status.items() if field in FIELDS})
            if rest := {field: below for field, below in status.items() if field not in FIELDS}:
                kept.append({**entry, "fieldsV1": {**entry["fieldsV1"], "f:status": rest}})
        else:
            kept.append(entry)
    if not given:
        return None
    first = theirs or {
        "manager": KUEUE, "operation": "Apply", "apiVersion": f"{GROUP}/{VERSION}", "fieldsType": "FieldsV1",
        "subresource": "status", "fieldsV1": {},
    }  # fmt: skip
    return [{**first, "fieldsV1": _merge_fields(first["fieldsV1"], {"f:status": given})}, *kept]


def _merge_fields(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, **{key: _merge_fields(one.get(key, {}), below) for key, below in other.items()}}
