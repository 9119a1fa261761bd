"""Which pods of a Job are part of its gang."""

import msgspec
import pytest

from muster.api.batch import COMPLETION_INDEX, Job
from muster.api.core import Pod
from muster.controllers.integrations.job.gang import JobGangs


def pods(*indexes):
    annotations = [{} if index is None else {COMPLETION_INDEX: str(index)} for index in indexes]
    return [msgspec.convert({"metadata": {"annotations": each}}, Pod) for each in annotations]


@pytest.mark.parametrize(
    ("spec", "indexes", "left"),
    [
        pytest.param({"completionMode": "Indexed", "completions": 3}, [0, 1, 2], 3, id="all"),
        pytest.param({"completionMode": "Indexed", "completions": 3}, [0, 3, 2, 7], 2, id="scaled down"),
        pytest.param({"completionMode": "Indexed", "completions": 0}, [0, 1], 0, id="scaled to nothing"),
        pytest.param({"completionMode": "NonIndexed", "completions": 1}, [None, None], 2, id="no indexes"),
        pytest.param({}, [None, None], 2, id="a work queue"),
    ],
)
def test_pods_above_the_range_are_not(spec, indexes, left):
    assert len(JobGangs().members(msgspec.convert({"spec": spec}, Job), pods(*indexes))) == left
