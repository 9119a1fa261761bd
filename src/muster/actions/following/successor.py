"""Wait for a new job that has the name of a deleted job."""

import asyncio

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.runtime.client import Client
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.realclock import Clock
from muster.runtime.tasks import run_together


async def wait_for_successor(client: Client, clock: Clock, random: Random, namespace: str, name: str, uid: str) -> None:
    """Return once a Job or JobSet with another UID has the name of a deleted job.

    uid: the UID of the deleted job, whose object may still exist.

    If the server refuses to list jobs, the refusal is logged and the wait continues.
    """
    appeared = asyncio.Event()

    def see(_: Object | None, new: Object | None) -> None:
        if new is not None and new.metadata.uid != uid:
            appeared.set()

    kinds: tuple[Kind[Object], ...] = (JOB.seen_as(Object), JOB_SET.seen_as(Object))
    by_name = f"metadata.name={name}"
    informers = [
        Informer(client, kind, clock, random, namespace=namespace, fields=by_name, optional=True) for kind in kinds
    ]
    for informer in informers:
        informer.on_change(see)
    await run_together(appeared.wait(), *(informer.run() for informer in informers))
