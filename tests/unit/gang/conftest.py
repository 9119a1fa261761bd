"""Nodes and pods in a word or two."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from muster.api.core import Node, Pod
from muster.gang.nodes.capacity import Capacity


def make_node(
    name: str, *, labels: dict[str, str] | None = None, taints: list[dict[str, str]] | None = None, **more: Any
) -> Node:
    resources = {"pods": "110", "cpu": "4", "memory": "16Gi"} | more.pop("resources", {})
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"taints": taints or [], **more},
            "status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
        },
        Node,
    )


def make_pod(name: str = "p", *, cpu: str = "1", gpus: int = 0, **spec: Any) -> Pod:
    requests: dict[str, Any] = {"cpu": cpu} | ({"nvidia.com/gpu": gpus} if gpus else {})
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
        },
        Pod,
    )


@pytest.fixture
def node() -> Callable[..., Node]:
    return make_node


@pytest.fixture
def pod() -> Callable[..., Pod]:
    return make_pod


@pytest.fixture
def cluster() -> Callable[..., Capacity]:
    def build(*nodes: Node) -> Capacity:
        capacity = Capacity()
        for item in nodes:
            capacity.set_node(item)
        return capacity

    return build
