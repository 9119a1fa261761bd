"""Pods for the tests of nodes, made from the JSON that users would write."""

from datetime import UTC, datetime

import pytest

from muster.api.core import POD
from muster.cluster.nodes.container.downward import NodeFacts

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def make_pod():
    def make(spec=None, *, status=None, **metadata):
        import msgspec

        meta = {"name": "p", "namespace": "ns", "uid": "uid-1", "generation": 1, **metadata}
        spec = {"containers": [{"name": "main", "command": ["run"]}], "restartPolicy": "Never", **(spec or {})}
        return POD.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": status or {}}))

    return make


@pytest.fixture
def around():
    return NodeFacts("127.1.0.7", "127.0.0.1", "node-0", {"cpu": "2500m", "memory": "4Gi"})
