"""Which pods are part of a gang."""

import msgspec
import pytest

from muster.api.core import Pod
from muster.controllers.gangs import gang_of
from muster.controllers.integrations.pods.gang import PodGroupGangs
from muster.controllers.integrations.table import gang_sources

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
    found, source = gang_of(pod, gang_sources())
    assert found == key
    assert isinstance(source, PodGroupGangs) is is_group
