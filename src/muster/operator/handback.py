"""Gives Workloads back to Kueue's manager.

Kueue says a Workload's status by server-side apply, as `kueue-admission`, and takes something back by no longer saying
it. That works for what it alone has said: so what Muster has said becomes what Kueue has said. Values stay as they are.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from muster.api.config import Configuration
from muster.api.kueue import VERSION, WORKLOAD
from muster.api.kueue.fields import GROUP
from muster.operator.holders import LOOK_SECONDS, working
from muster.operator.precedence import place
from muster.operator.replica import FIELD_MANAGER
from muster.runtime.client import Client
from muster.runtime.givens import Givens
from muster.runtime.leases import Election
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import cancel

KUEUE: Final = "kueue-admission"
# Of the status, what Kueue takes back by leaving it out.
FIELDS: Final = (
    "f:admission", "f:admissionChecks", "f:clusterName", "f:nominatedClusterNames", "f:requeueState",
    "f:resourceRequests", "f:unhealthyNodes",
)  # fmt: skip

Entry = Mapping[str, Any]


class StillWorksError(Exception):
    """An engine, which it names, works still."""


async def hand_back_alone(
    client: Client, givens: Givens, settings: Configuration, identity: str, said: Callable[[str], None]
) -> int:
    """As `hand_back`, holding the Lease of engines meanwhile, so that none begins.

    One whose Lease is not given back is waited for, for as long as that lasts: only whether it is renewed says whether
    that engine works. said: told so. Raises `StillWorksError`, `LeadershipLostError`, and as `hand_back`.
    """
    where, name = place(settings)
    election = Election(client, givens.clock, givens.random, namespace=where, name=name, identity=identity)
    count = 0

    async def work() -> None:
        nonlocal count
        count = await hand_back(client)

    async def another() -> str:
        """Who holds the Lease instead: one that stands by may get it first."""
        while not (found := await working(client, givens.clock, settings, said, but=identity)):
            await givens.clock.sleep(LOOK_SECONDS)
        return found

    leading, watching = asyncio.create_task(election.run(work)), asyncio.create_task(another())
    try:
        await asyncio.wait([leading, watching], return_when=asyncio.FIRST_COMPLETED)
        if not leading.done():
            raise StillWorksError(f"{watching.result()} still works: stop it first, and all that stand by")
        await leading
    finally:
        await cancel([leading, watching])
    return count


async def hand_back(client: Client) -> int:
    """Do it for all Workloads; of how many. Raises `ApiError` (Conflict: another client writes them)."""
    count = 0
    for workload in (await client.list(WORKLOAD)).items:
        entries = handed_back(workload.metadata.managed_fields)
        if entries is not None:
            with ignoring("NotFound"):
                await client.patch_object(WORKLOAD, workload, {"metadata": {"managedFields": entries}})
                count += 1
    return count


def handed_back(entries: Sequence[Entry]) -> list[Entry] | None:
    """Who has said what, once it is Kueue's; None if nothing of it is ours."""
    given: dict[str, Any] = {}
    kept, theirs = list[Entry](), dict[str, Any]()
    for entry in entries:
        status = entry.get("fieldsV1", {}).get("f:status", {})
        if entry.get("subresource") != "status":
            kept.append(entry)
        elif entry.get("manager") == KUEUE and entry.get("operation") == "Apply":
            theirs = dict(entry)
        elif entry.get("manager") == FIELD_MANAGER:
            given = _joined(given, {field: below for field, below in status.items() if field in FIELDS})
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
    return [{**first, "fieldsV1": _joined(first["fieldsV1"], {"f:status": given})}, *kept]


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, **{key: _joined(one.get(key, {}), below) for key, below in other.items()}}
