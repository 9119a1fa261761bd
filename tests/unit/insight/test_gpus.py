"""The GPUs of nodes, and which job has them."""

from typing import Any

import msgspec

from muster.api.core import Node, Pod
from muster.insight.gpus import GpuCount, count_gpus, make_gpu_rows

TOLD = '[{"name":"0","model":"NVIDIA H200","memory":150754820096},{"name":"1","model":""}]'
ILL = '[{"name":"0","model":"NVIDIA H200","memory":150754820096},{"name":"1","ill":true}]'


def node(name: str, told: str = TOLD) -> Node:
    return msgspec.convert({"metadata": {"name": name, "annotations": {"muster.dev/gpus": told}}}, Node)


def pod(name: str, where: str, *gpus: str, phase: str = "Running") -> Pod:
    devices = {"name": "nvidia.com/gpu", "resources": [{"resourceID": gpu, "health": "Healthy"} for gpu in gpus]}
    status: Any = {"phase": phase, "containerStatuses": [{"name": "main", "allocatedResourcesStatus": [devices]}]}
    body = {"metadata": {"name": name, "namespace": "lab"}, "spec": {"nodeName": where}, "status": status}
    return msgspec.convert(body, Pod, strict=False)


def test_each_gpu_has_a_line_with_its_job() -> None:
    nodes = [node("b"), node("a", told=ILL)]
    pods = [pod("train", "a", "0"), pod("old", "b", "0", phase="Succeeded"), pod("tune", "b", "1")]
    assert [row.cells() for row in make_gpu_rows(nodes, pods)] == [
        ["a", "0", "NVIDIA H200", "140.4Gi", "Used", "lab/train"],
        ["a", "1", "-", "-", "Ill", "-"],
        ["b", "0", "NVIDIA H200", "140.4Gi", "Free", "-"],
        ["b", "1", "-", "-", "Used", "lab/tune"],
    ]


def test_a_gpu_that_a_hidden_job_may_have_is_not_called_free() -> None:
    rows = make_gpu_rows([node("a", told=ILL), node("b")], [pod("train", "a", "0")], shared=True)
    assert [row.cells()[4] for row in rows] == ["Used", "Ill", "-", "-"]


def test_nodes_that_tell_of_none_have_no_line() -> None:
    assert make_gpu_rows([node("a", told=""), node("b", told="{nonsense")], []) == []


def counted(capacity: int, allocatable: int) -> Node:
    status = {"capacity": {"nvidia.com/gpu": capacity}, "allocatable": {"nvidia.com/gpu": allocatable, "cpu": "8"}}
    return msgspec.convert({"metadata": {"name": "n"}, "status": status}, Node)


def test_gpus_are_counted_by_state() -> None:
    nodes = [counted(8, 6), counted(4, 4), counted(8, 6)]  # the first and the last are alike
    count = count_gpus(nodes, 3)
    assert count == GpuCount(total=20, ill=4, used=3)
    assert count.free == 13
    assert count_gpus(nodes, None) == GpuCount(20, 4, None)
    assert count_gpus(nodes, None).free == 0
