"""Of which workload a job in a worker is, and in which form it is cached."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.multicluster.links.copies import make_cached_form, workload_keys
from muster.multicluster.mirrors.job import JobMirror

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


@pytest.mark.parametrize("there", ["2026-01-01T02:00:00", "0001-01-01T00:00:00"])
def test_the_times_of_a_job_can_be_shown_here_where_its_worker_leaves_out_their_zone(there: str) -> None:
    meta = {"name": "j", "namespace": "ns", "managedFields": [{"manager": "m"}]}
    spec: dict[str, Any] = {"template": {}}
    conditions = [{"type": "Complete", "status": "True", "lastTransitionTime": there}]
    ended = {"startTime": "2026-01-01T01:00:00Z", "completionTime": there, "conditions": conditions}
    cached = make_cached_form(msgspec.convert({"metadata": meta, "spec": spec, "status": ended}, Job))
    shown = JobMirror().status(msgspec.convert({"metadata": meta, "spec": spec}, Job), cached)
    assert shown is not None
    assert shown["completionTime"] == max("2026-01-01T01:00:00Z", f"{there}Z")
    assert not cached.metadata.managed_fields
