"""Read the jobs with which a waiting pod must not share a node, because of anti-affinity of either pod."""

from muster.api.core import Pod
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.views import POD_DEMANDS
from muster.insight.why.apart import find_jobs_apart


async def read_jobs_apart(lists: Lists, waiting: Pod) -> tuple[str, ...]:
    """Return the names of the jobs with which a waiting pod may share no node, of all namespaces that the user may see.

    If the user may not see all namespaces, only jobs of the pod's namespace count.
    """
    meta = waiting.metadata
    pods = await lists.of(POD_DEMANDS) or await lists.of(POD_DEMANDS, meta.namespace) or ()
    own = next((pod for pod in pods if pod.metadata.uid == meta.uid), None)  # with its rules, which a line lacks
    return find_jobs_apart(own, pods) if own is not None else ()
