from muster.queueing.model import CohortSpec, QueueSpec
from muster.queueing.quota.redefinition import redefine_cohort, redefine_queue
from muster.queueing.quota.tree import Tree


def names(roots):
    return [root.name for root in roots]


def test_the_trees_that_a_queue_left_and_is_in_are_returned_once_each():
    tree = Tree()
    assert names(redefine_queue(tree, QueueSpec("q"))) == ["q"]
    assert names(redefine_queue(tree, QueueSpec("q", cohort="a"))) == ["q", "a"]
    assert names(redefine_queue(tree, QueueSpec("q", cohort="a", strict=True))) == ["a"]
    assert names(redefine_queue(tree, QueueSpec("q", cohort="b"))) == ["a", "b"]


def test_the_trees_that_a_cohort_left_and_is_in_are_returned_once_each():
    tree = Tree()
    assert names(redefine_cohort(tree, CohortSpec("c"))) == ["c"]
    assert names(redefine_cohort(tree, CohortSpec("c", parent="a"))) == ["c", "a"]
    assert names(redefine_cohort(tree, CohortSpec("c", parent="a"))) == ["a"]
