"""Count the quota that waiting workloads lack now, from the statuses of ClusterQueues. Pure.

A forecast adds up all workloads. These counts read only the ClusterQueues and Cohorts, and the nodes if quotas follow
them. So they are fast enough for a list of thousands of jobs.
"""

from collections.abc import Iterable, Sequence

from muster.api.core import Node
from muster.api.kueue import ClusterQueue, Cohort, ResourceFlavor, Workload
from muster.api.pods import parse_amounts
from muster.api.values.quantity import QuantityError
from muster.insight.forecasts.forecast import Need, build_quota_tree, limit_tree, list_needs
from muster.insight.quota.lack import update_lack
from muster.insight.quota.queues import make_quota_rows
from muster.insight.quota.shares import add_usage
from muster.queueing.model import PODS


class QuotaRoom:
    """The quota that ClusterQueues can still use, for the sentences about workloads that wait for it.

    nodes: the nodes that ClusterQueues divide; None if the user may not see them.
    """

    def __init__(
        self,
        queues: Sequence[ClusterQueue],
        cohorts: Iterable[Cohort],
        flavors: Iterable[ResourceFlavor],
        nodes: Iterable[Node] | None,
    ) -> None:
        self._tree = build_quota_tree(queues, cohorts)
        known = [one for one in queues if one.metadata.name in self._tree.queues]
        add_usage(self._tree, {one.metadata.name: make_quota_rows(one) for one in known})
        if nodes is not None:
            limit_tree(self._tree, queues, flavors, nodes)

    def update(self, reason: str, workload: Workload, cluster_queue: str) -> str:
        """Return the reason of a waiting workload with the amounts that are missing now.

        Amounts that are not known stay unchanged.
        """
        return update_lack(reason, self.find_needs(workload, cluster_queue))

    def find_needs(self, workload: Workload, cluster_queue: str) -> list[Need]:
        """Return the needs of the only podset of a waiting workload, with the amounts that are missing now.

        Return [] for a workload with several podsets, or without a known quota.
        """
        node = self._tree.queues.get(cluster_queue)
        requests = workload.status.resource_requests
        if node is None or len(requests) != 1 or len(workload.spec.pod_sets) != 1:
            return []
        try:
            asked = parse_amounts(requests[0].resources)
        except QuantityError:
            return []
        return list_needs(node, {**asked, PODS: workload.spec.pod_sets[0].count})
