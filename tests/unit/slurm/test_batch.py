"""Where the tasks of a batch script belong."""

import pytest

from muster.slurm.batch import Batch, spread


@pytest.mark.parametrize(
    ("tasks", "nodes", "expected"), [(1, 1, [1]), (8, 2, [4, 4]), (5, 2, [3, 2]), (7, 3, [3, 2, 2])]
)
def test_tasks_are_spread_evenly_over_nodes(tasks, nodes, expected):
    assert spread(tasks, nodes) == expected
    assert Batch(nodes=nodes, tasks=tasks).tasks_per_node == expected[0]
