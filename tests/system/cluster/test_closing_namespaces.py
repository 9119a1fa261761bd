"""Pods and namespaces that are deleted while Jobs work and fail: all goes, whatever the Jobs wait for."""

from typing import Any

import msgspec
import pytest
from tests.system.plane import World, under

from muster.api.batch import JOB, Job
from muster.api.core import NAMESPACE, POD, Namespace
from muster.api.meta import ObjectMeta

PER_INDEX = {"completionMode": "Indexed", "backoffLimitPerIndex": 3}


@pytest.mark.parametrize("spec", [{}, PER_INDEX, PER_INDEX | {"podReplacementPolicy": "Failed"}])
@pytest.mark.parametrize("after", [0.0, 15.0], ids=["at once", "between two tries"])
def test_a_namespace_of_a_job_that_fails_is_deleted(spec: dict[str, Any], after: float) -> None:
    @under("")
    async def scenario(world: World) -> None:
        await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="n")))
        container = {"name": "c", "image": "none"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        document = {
            "metadata": {"name": "j"},
            "spec": {"completions": 2, "parallelism": 2, "template": template} | spec,
        }
        await world.client.create(JOB, msgspec.convert(document, Job), "n")
        await world.settle()
        for pod in (await world.client.list(POD, "n")).items:
            status = {"status": {"phase": "Failed"}}
            await world.client.patch(POD, pod.metadata.name, status, "n", subresource="status")
        await world.elapse(after)
        await world.client.delete(NAMESPACE, "n")

        async def is_gone() -> bool:
            return await world.client.find(NAMESPACE, "n") is None

        await world.until(is_gone, 60)

    scenario()


@under("")
async def test_a_pod_that_is_deleted_before_it_has_a_node_is_replaced(world: World) -> None:
    """Its Job replaces only what has failed, and no node would ever say that it has."""
    await world.job("j", 1, podReplacementPolicy="Failed")
    await world.settle()
    [pod] = await world.pods("j")
    await world.client.delete(POD, pod.metadata.name, "default")
    await world.elapse(15)
    [other] = await world.pods("j")
    assert other.metadata.uid != pod.metadata.uid
    assert (await world.client.get(JOB, "j", "default")).status.failed == 1
