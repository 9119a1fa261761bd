"""Of which workload a job in a worker is."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.multicluster.links.copies import workload_keys

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


@pytest.mark.parametrize(
    ("meta", "keys"),
    [
        pytest.param({}, (), id="of none"),
        pytest.param({"labels": {PREBUILT: "w"}}, ("ns/w",), id="by its label"),
        pytest.param({"annotations": {PREBUILT: "w"}}, ("ns/w",), id="by its annotation, where names are longer"),
        pytest.param({"annotations": {PREBUILT: "w"}, "labels": {PREBUILT: "v"}}, ("ns/w",), id="which goes first"),
        pytest.param({"labels": {PREBUILT: ""}}, (), id="of none that has a name"),
    ],
)
def test_a_job_names_its_workload(meta: dict[str, Any], keys: tuple[str, ...]) -> None:
    job = msgspec.convert({"metadata": {"name": "j", "namespace": "ns"} | meta, "spec": {"template": {}}}, Job)
    assert workload_keys(job) == keys
