"""Keep the definitions of level 1: ClusterQueues, Cohorts, flavors, topologies and admission checks.

The definitions become the quota tree, the specifications that decisions read, and the activity of each ClusterQueue.
The cache keeps the workloads themselves, and places some of them again when a definition changes.
"""

from collections.abc import Callable

from muster.api.config import Configuration
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
)
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.controllers.queueing.divisions import Divisions
from muster.controllers.queueing.notifier import Notifier
from muster.controllers.queueing.topology import TopologyNodes
from muster.queueing import model
from muster.queueing.convert import cohort_spec, flavor_in
from muster.queueing.pending.activity import Activity, judge_activity
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.redefinition import redefine_cohort, redefine_queue
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.workload.readiness import read_blocking
from muster.runtime.control.manager import Manager

PlaceAgain = Callable[[str], None]  # called with the name of a ClusterQueue


class Definitions:
    """The ClusterQueues, flavors, checks and other objects of administrators, updated by the informers of a manager.

    flavors, checks: the objects that decisions read, by name.
    divisions: the quotas that depend on the nodes.
    """

    def __init__(
        self,
        manager: Manager,
        configuration: Configuration,
        tree: Tree,
        queues: Queues,
        notifier: Notifier,
        *,
        place_holders: PlaceAgain,
        place_waiting: PlaceAgain,
    ) -> None:
        """Watch the objects.

        place_holders: places the workloads that hold quota of a ClusterQueue again.
        place_waiting: places the workloads that wait in a ClusterQueue again.
        """
        self.flavors: dict[str, model.FlavorSpec] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self._tree = tree
        self._queues = queues
        self._notifier = notifier
        self._place_holders = place_holders
        self._place_waiting = place_waiting
        self._base = configuration.wait_for_pods_ready
        self._has_topology = configuration.features.is_enabled("TopologyAwareScheduling")
        self._has_variants = configuration.features.is_enabled("ConcurrentAdmission")
        self._by_queue: dict[str, bool] = {}  # ClusterQueues with a blocking setting of their own
        self._by_flavor: dict[str, bool] = {}
        self._active: dict[str, Activity] = {}
        self._weighted: set[tuple[str, str]] = set()  # kinds and names of objects with a weight for fair sharing
        self._users: dict[str, set[str]] = {}  # ClusterQueues by flavor, and by `check/` and the name of a check
        self.divisions = Divisions(manager, tree, put=self._put, wake=notifier.wake)
        self.cluster_queues = manager.informer(CLUSTER_QUEUE)
        self.cohorts = manager.informer(COHORT)
        self.cluster_queues.on_change(self._on_cluster_queue_changed)
        self.cohorts.on_change(self._on_cohort_changed)
        self._resource_flavors = manager.informer(RESOURCE_FLAVOR)
        self._resource_flavors.on_change(self._on_flavor_changed)
        self._topologies = manager.informer(TOPOLOGY)
        self._topologies.on_change(self._on_topology_changed)
        self._topology_nodes = TopologyNodes(manager, tree.ledger, notifier.flush_places)
        manager.informer(ADMISSION_CHECK).on_change(self._check_changed)

    def activity(self, cluster_queue: str) -> Activity | None:
        """Return whether a ClusterQueue admits, and why not; None if there is no such queue."""
        return self._active.get(cluster_queue)

    def find_blocking(self, *, by_workload: bool) -> Blocking | None:
        """Return the settings for blocking; None if no object blocks.

        by_workload: whether any workload has a blocking setting of its own.
        """
        everything = self._base is not None and self._base.block_admission
        if everything or self._by_queue or self._by_flavor or by_workload:
            return Blocking(everything=everything, queues=self._by_queue, flavors=self._by_flavor)
        return None

    @property
    def has_weights(self) -> bool:
        """Whether any ClusterQueue or Cohort has a weight for fair sharing."""
        return bool(self._weighted)

    def _note_weight(self, kind: str, name: str, *, weighted: bool) -> None:
        (self._weighted.add if weighted else self._weighted.discard)((kind, name))

    def parse_blocking(self, text: str) -> bool | None:
        """Return the blocking setting in the text of an annotation; None if the text is malformed."""
        return read_blocking(text, self._base)

    def _on_cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        """Apply an added, changed or deleted ClusterQueue to the quota tree, and wake workloads that it may help."""
        queue = new if new is not None else old
        assert queue is not None
        if is_only_status(old, new):
            return
        name = queue.metadata.name
        self.divisions.note_queue(old, new)
        self._note_weight(CLUSTER_QUEUE.kind, name, weighted=new is not None and new.spec.fair_sharing is not None)
        for users in self._users.values():
            users.discard(name)
        blocked_before, checked = self._by_queue.pop(name, None), False
        before = self._tree.queues.get(name)
        roots: tuple[Node, ...] = (before.root,) if before is not None else ()
        if new is None:
            self._tree.remove_queue(name)
            self._queues.remove_queue(name)
            self._active.pop(name, None)
            self._notifier.notify_waits(name)
        else:
            spec = self.divisions.limit(new)
            for flavor in dict.fromkeys(flavor for group in spec.groups for flavor in group.flavors):
                self._users.setdefault(flavor, set()).add(name)
            for check in spec.checks:
                self._users.setdefault(f"check/{check}", set()).add(name)
            if (text := new.metadata.annotations.get(READY_ANNOTATION)) is not None:
                self._by_queue[name] = bool(self.parse_blocking(text))
            checked = before is not None and bool(before.policy.checks) != bool(spec.checks)
            roots = redefine_queue(self._tree, spec)
            if old is None or checked:
                self._place_holders(name)
            if old is None and self._has_variants and spec.migration is not None:
                self._place_waiting(name)  # if jobs have variants, only the variants wait from now on
            self._review(name)
        for root in roots:
            self._notifier.flush(root)
        if self._by_queue.get(name) != blocked_before:
            self._notifier.unblock()

    def _put(self, spec: model.QueueSpec) -> None:
        """Replace only the quota of a ClusterQueue in the tree."""
        roots = redefine_queue(self._tree, spec)
        self._review(spec.name)
        for root in roots:
            self._notifier.flush(root)

    def _review(self, name: str) -> None:
        """Decide again whether the ClusterQueue is active; pass the result to the queues, and notify the listeners."""
        node, queue = self._tree.queues.get(name), self.cluster_queues.get(name)
        if node is None:
            return
        before = self._active.get(name)
        now = self._active[name] = judge_activity(
            node.policy,
            self.flavors,
            self.checks,
            terminating=queue is not None and queue.metadata.deletion_timestamp is not None,
            in_circle=self._tree.is_in_circle(node),
        )
        self._queues.set_queue(node.policy, active=now.active)
        if before is None or before.active != now.active:
            self._notifier.notify_waits(name)
        self._notifier.wake()
        self._notifier.notify_change(name, "")

    def _on_cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        cohort = new if new is not None else old
        assert cohort is not None
        if is_only_status(old, new):
            return
        name = cohort.metadata.name
        self.divisions.mark_stale()
        self._note_weight(COHORT.kind, name, weighted=new is not None and new.spec.fair_sharing is not None)
        if new is not None:
            roots = redefine_cohort(self._tree, cohort_spec(new))
        else:
            before = self._tree.cohorts.get(name)
            old_roots = (before.root,) if before is not None else ()
            self._tree.remove_cohort(name)
            after = self._tree.cohorts.get(name)
            roots = tuple(dict.fromkeys((*old_roots, after.root))) if after is not None else old_roots
        for root in roots:
            for queue in list(root.queues()):
                self._review(queue.name)
            self._notifier.flush(root)

    def _on_flavor_changed(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        flavor = new if new is not None else old
        assert flavor is not None
        name = flavor.metadata.name
        blocked_before = self._by_flavor.pop(name, None)
        if new is None:
            self.flavors.pop(name, None)
        else:
            self._set_flavor(new)
            if (text := new.metadata.annotations.get(READY_ANNOTATION)) is not None:
                self._by_flavor[name] = bool(self.parse_blocking(text))
        self._review_users(name)
        if self._by_flavor.get(name) != blocked_before:
            self._notifier.unblock()

    def _set_flavor(self, flavor: ResourceFlavor) -> None:
        topology = self._topologies.get(flavor.spec.topology_name) if flavor.spec.topology_name else None
        spec = flavor_in(flavor, topology, enabled=self._has_topology)
        self.flavors[flavor.metadata.name] = spec
        if spec.levels:
            self._topology_nodes.follow()

    def _on_topology_changed(self, old: Topology | None, new: Topology | None) -> None:
        topology = new if new is not None else old
        assert topology is not None
        for flavor in self._resource_flavors.all():
            if flavor.spec.topology_name == topology.metadata.name:
                self._set_flavor(flavor)
                self._review_users(flavor.metadata.name)

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new if new is not None else old
        assert check is not None
        if new is None:
            self.checks.pop(check.metadata.name, None)
        else:
            self.checks[check.metadata.name] = new
        self._review_users(users := f"check/{check.metadata.name}")
        if (old is None) != (new is None):
            for name in sorted(self._users.get(users, ())):
                self._place_holders(name)

    def _review_users(self, user_key: str) -> None:
        for name in sorted(self._users.get(user_key, ())):
            self._review(name)
            if (node := self._tree.queues.get(name)) is not None:
                self._notifier.flush(node)


def is_only_status(
    old: ClusterQueue | LocalQueue | Cohort | None, new: ClusterQueue | LocalQueue | Cohort | None
) -> bool:
    """Return whether spec, annotations and deletion are unchanged, so that the change does not matter here."""
    if old is None or new is None or old.spec != new.spec:
        return False
    before, after = old.metadata, new.metadata
    return before.annotations == after.annotations and before.deletion_timestamp == after.deletion_timestamp
