"""Read the jobs that a waiting pod must not share a node with, by anti-affinity of either."""

from muster.api.core import Pod
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.views import POD_DEMANDS
from muster.insight.why.apart import find_jobs_apart


async def read_jobs_apart(lists: Lists, waiting: Pod) -> tuple[str, ...]:
    """Return the jobs from whose nodes a waiting pod keeps away, of all namespaces that the user may see."""
    meta = waiting.metadata
    pods = await lists.of(POD_DEMANDS) or await lists.of(POD_DEMANDS, meta.namespace) or ()
    own = next((pod for pod in pods if pod.metadata.uid == meta.uid), None)  # with its rules, which a line lacks
    return find_jobs_apart(own, pods) if own is not None else ()
