"""Read the pods of one job, and keep no more of each pod than the caller's view needs."""

from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.insight.reader.listing.access import list_all
from muster.insight.reader.listing.views import POD_LINES
from muster.insight.record import JobRecord
from muster.runtime.client import Client


async def read_own_pods(client: Client, job: JobRecord, kind: Kind[Pod] = POD_LINES) -> list[Pod]:
    """Return the existing pods of a job.

    kind: the view of pods to read.

    Raises:
        ApiError: the user may not list pods.
    """
    pods = await list_all(client, kind, job.metadata.namespace, labels=job.pod_selector)
    return list(filter(job.owns, pods))
