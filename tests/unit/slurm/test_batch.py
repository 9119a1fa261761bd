"""Where the tasks of a batch script belong."""

import pytest

from muster.slurm.batch import ScriptSettings, spread_tasks


@pytest.mark.parametrize(
    ("tasks", "nodes", "expected"), [(1, 1, [1]), (8, 2, [4, 4]), (5, 2, [3, 2]), (7, 3, [3, 2, 2])]
)
def test_tasks_are_spread_evenly_over_nodes(tasks, nodes, expected):
    assert spread_tasks(tasks, nodes) == expected
    assert ScriptSettings(nodes=nodes, tasks=tasks).tasks_per_node == expected[0]


@pytest.mark.parametrize(
    ("batch", "nodes", "tasks"),
    [(ScriptSettings(nodes=2, tasks=5), 2, 5), (ScriptSettings(nodes=2, tasks=5), 3, 9), (ScriptSettings(), 4, 4)],
)
def test_other_nodes_have_as_many_tasks_each(batch, nodes, tasks):
    other = batch.on(nodes)
    assert (other.nodes, other.tasks) == (nodes, tasks)
