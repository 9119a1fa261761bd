"""What is left of a pod's tasks when its node stops in the very moment in which they are made."""

import asyncio
import gc
import warnings
from types import SimpleNamespace
from typing import Any

import msgspec

from muster.api.core import Pod
from muster.cluster.nodes.disk.storage import Storage
from muster.cluster.nodes.gpus.holding import Gpus
from muster.cluster.nodes.pod.runner import PodRunner
from muster.runtime.clock import RealClock


def test_work_that_never_began_leaves_nothing(tmp_path):
    document = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "command": ["x"]}]}}
    network = SimpleNamespace(address=lambda _pod: "10.0.0.1")
    kit: Any = SimpleNamespace(
        storage=Storage(tmp_path),
        clock=RealClock(),
        network=network,
        host_address="10.0.0.2",
        client=None,
        gpus=Gpus(()),
        find_reported_address=network.address,
        accounts=None,
    )

    async def body():
        runner = PodRunner(kit, msgspec.convert(document, Pod), wake=lambda: None)
        runner.step()
        assert runner._preparing, "it prepares the pod"
        await runner.close()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(body())
        gc.collect()
    assert said == []
