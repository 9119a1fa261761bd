"""Read the Workloads of a namespace, and select those of one job."""

from collections.abc import Callable

from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import JOB_UID_LABEL
from muster.api.managed.variants import is_variant
from muster.insight.reader.listing.access import list_or_say
from muster.runtime.client import Client


async def workloads_of(
    client: Client, namespace: str, say: Callable[[str], None], kind: Kind[Workload] = WORKLOAD
) -> list[Workload]:
    """Return the Workloads of a namespace ("" for all), without variants of other Workloads.

    say: receives a sentence if the user may not list Workloads.
    kind: the view of the Workloads to read.
    """
    workloads = await list_or_say(client, kind, namespace, say, "queues") or []
    return [one for one in workloads if not is_variant(one)]


def labels_of(job_uid: str) -> str:
    """Return the label selector for the Workloads of the job with this UID."""
    return f"{JOB_UID_LABEL}={job_uid}"
