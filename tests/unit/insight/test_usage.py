"""What pods use, by pod and by job, and beside what they request."""

import msgspec
import pytest

from muster.api.core import Pod
from muster.insight.usage import (
    CurrentUsage,
    PodUsage,
    format_cpus,
    format_gpus,
    format_memory,
    make_worker_rows,
    make_worker_table,
    usage_by_job,
    usage_by_pod,
)


def metrics(name, labels=None, *containers):
    about = {"name": name, "namespace": "lab", "labels": labels or {}}
    usages = [{"name": f"c{at}", "usage": usage} for at, usage in enumerate(containers)]
    return msgspec.convert({"metadata": about, "containers": usages}, PodUsage)


def pod(rank, resources=None, node="n"):
    about = {
        "name": f"j-{rank}-x",
        "namespace": "lab",
        "annotations": {"batch.kubernetes.io/job-completion-index": rank},
    }
    containers = [{"name": "c", "resources": resources or {}}]
    return msgspec.convert({"metadata": about, "spec": {"nodeName": node, "containers": containers}}, Pod)


def test_a_pod_uses_what_its_containers_use():
    two = metrics("p", {}, {"cpu": "1500000000n", "memory": "1024Ki"}, {"cpu": "250m", "memory": "1Mi"})
    assert usage_by_pod([two, metrics("q")]) == {
        ("lab", "p"): CurrentUsage(1750, 2 << 20),
        ("lab", "q"): CurrentUsage(),
    }


def test_a_job_uses_what_its_pods_use_and_a_jobset_what_its_jobs_use():
    one = {"cpu": "1", "memory": "1Mi"}
    of_set = {"jobset.sigs.k8s.io/jobset-name": "s", "batch.kubernetes.io/job-name": "s-w-0"}
    found = usage_by_job(
        [
            metrics("a", of_set, one),
            metrics("b", of_set, one),
            metrics("c", {"batch.kubernetes.io/job-name": "j"}, one),
            metrics("alone", {}, one),
        ]
    )
    assert found == {("lab", "s"): CurrentUsage(2000, 2 << 20), ("lab", "j"): CurrentUsage(1000, 1 << 20)}


def test_each_worker_is_shown_beside_what_it_requests_by_rank():
    resources = {"requests": {"cpu": "7500m", "memory": "4Gi"}, "limits": {"memory": "8Gi"}}
    usage = {("lab", "j-10-x"): CurrentUsage(1204, 3 << 30), ("lab", "j-2-x"): CurrentUsage(5, 1)}
    assert make_worker_rows([pod("10", resources), pod("2"), pod("3", node="")], usage) == [
        ("2", "j-2-x", "n", "0.01", "1Mi", "-"),
        ("3", "j-3-x", "-", "-", "-", "-"),
        ("10", "j-10-x", "n", "1.20/7.5", "3Gi/4Gi", "8Gi"),
    ]


@pytest.mark.parametrize(
    ("used", "cpus", "memory"),
    [
        (None, "-", "-"),
        (CurrentUsage(), "0.00", "0"),
        (CurrentUsage(1996, 1536 << 20), "2.00", "1.5Gi"),
        (CurrentUsage(1, 1), "0.00", "1Mi"),
    ],
)
def test_use_in_words(used, cpus, memory):
    assert (format_cpus(used), format_memory(used)) == (cpus, memory)


def test_gpus_are_shown_where_their_use_is_known():
    busy = {"cpu": "1", "memory": "1Mi", "muster.dev/gpu-use": "750m", "muster.dev/gpu-memory-use": "2048Ki"}
    idle = {"cpu": "1", "memory": "1Mi", "muster.dev/gpu-use": "0", "muster.dev/gpu-memory-use": "0Ki"}
    usage = usage_by_pod([metrics("j-0-x", {}, busy, {"cpu": "1"}), metrics("j-1-x", {}, idle)])
    assert usage["lab", "j-0-x"] == CurrentUsage(2000, 1 << 20, 750, 2 << 20)
    header, rows = make_worker_table([pod("0"), pod("1"), pod("2")], usage)
    assert header[-2:] == ["GPU USED", "GPU MEMORY"]
    assert [row[-2:] for row in rows] == [["0.75", "2Mi"], ["0.00", "0"], ["-", "-"]]


def test_there_are_no_columns_of_gpus_without_any():
    header, rows = make_worker_table([pod("0")], {("lab", "j-0-x"): CurrentUsage(1, 1)})
    assert (len(header), len(rows[0])) == (6, 6)
    assert format_gpus(CurrentUsage()) == ("-", "-")
