"""Change the definition of a ClusterQueue or Cohort in the tree, and return the trees whose workloads to wake."""

from muster.queueing.model import CohortSpec, QueueSpec
from muster.queueing.quota.tree import Node, Tree


def redefine_queue(tree: Tree, spec: QueueSpec) -> tuple[Node, ...]:
    """Add or change a ClusterQueue.

    Return the roots of its former and its current tree; the caller must wake the workloads there.
    """
    before = tree.queues.get(spec.name)
    old_roots = (before.root,) if before is not None else ()
    return tuple(dict.fromkeys((*old_roots, tree.set_queue(spec).root)))


def redefine_cohort(tree: Tree, spec: CohortSpec) -> tuple[Node, ...]:
    """Add or change a Cohort.

    Return the roots of its former and its current tree; the caller must wake the workloads there.
    """
    before = tree.cohorts.get(spec.name)
    old_roots = (before.root,) if before is not None else ()
    return tuple(dict.fromkeys((*old_roots, tree.set_cohort(spec).root)))
