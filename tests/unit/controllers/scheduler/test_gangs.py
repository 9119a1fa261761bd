"""Which pods are part of a gang."""

import msgspec
import pytest

from muster.api.batch import COMPLETION_INDEX, Job
from muster.api.core import Pod
from muster.controllers.scheduler.gangs import gang_key, group_keys, in_range


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
    assert len(in_range(msgspec.convert({"spec": spec}, Job), pods(*indexes))) == left


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
FOREIGN = OWNER | {"apiVersion": "batch.volcano.sh/v1alpha1"}
GROUP = {"kueue.x-k8s.io/pod-group-name": "g"}
COUNT = {"kueue.x-k8s.io/pod-group-total-count": "2"}


@pytest.mark.parametrize(
    ("metadata", "key", "is_group"),
    [
        pytest.param({}, "ns/1", False, id="alone"),
        pytest.param({"ownerReferences": [OWNER]}, "ns/j/u", False, id="of a Job"),
        pytest.param({"ownerReferences": [FOREIGN]}, "ns/1", False, id="of a Job of another group"),
        pytest.param(
            {"labels": GROUP, "annotations": COUNT, "ownerReferences": [FOREIGN]},
            "ns/g/pods",
            True,
            id="of a group that a Job of another group made",
        ),
        pytest.param({"labels": GROUP, "annotations": COUNT}, "ns/g/pods", True, id="of a group"),
        pytest.param({"annotations": GROUP | COUNT}, "ns/g/pods", True, id="of a group by annotation"),
        pytest.param({"annotations": GROUP}, "ns/1", False, id="of a group of unknown size"),
        pytest.param({"annotations": GROUP | COUNT, "ownerReferences": [OWNER]}, "ns/j/u", False, id="a Job's group"),
        pytest.param(
            {"annotations": GROUP | COUNT | {"kueue.x-k8s.io/pod-group-fast-admission": "true"}},
            "ns/1",
            False,
            id="fast",
        ),
        pytest.param({"annotations": GROUP | COUNT | {"muster.dev/gang": "false"}}, "ns/1", False, id="no gang"),
    ],
)
def test_who_belongs_together(metadata, key, is_group):
    pod = msgspec.convert({"metadata": {"namespace": "ns", "name": "p", "uid": "1", **metadata}}, Pod)
    assert gang_key(pod) == key
    assert list(group_keys(pod)) == ([key] if is_group else [])
