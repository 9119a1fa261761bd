"""RuntimeClasses: what pods get that ask for one, and what they may not say themselves."""

from typing import Any

import pytest
from tests.system.apiserver.harness import PODS, api, pod

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
BEARS = {"key": "vm", "operator": "Exists", "effect": "NoSchedule"}
VM = {
    "metadata": {"name": "vm"},
    "handler": "vm",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [BEARS]},
}
PLAIN = {"metadata": {"name": "plain"}, "handler": "runc"}


def asking(**spec: Any) -> dict[str, Any]:
    made = pod()
    made["spec"] |= spec
    return made


@api
async def test_a_pod_gets_the_overhead_of_its_class_and_goes_where_that_is(api):
    await api.made(CLASSES, VM)
    spec = (await api.made(PODS, asking(runtimeClassName="vm", nodeSelector={"zone": "a"})))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert spec["nodeSelector"] == {"zone": "a", "vm": "yes"}
    assert BEARS in spec["tolerations"]


@api
async def test_a_pod_whose_class_says_nothing_is_left_as_it_is(api):
    await api.made(CLASSES, PLAIN)
    spec = (await api.made(PODS, asking(runtimeClassName="plain")))["spec"]
    assert not spec.keys() & {"overhead", "nodeSelector"}


REJECTED = {
    "no such class": ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
    "another overhead": (
        {"runtimeClassName": "vm", "overhead": {"cpu": "1"}},
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
    ),
    "an overhead of a class without": (
        {"runtimeClassName": "plain", "overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    "an overhead of no class": (
        {"overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
    "other nodes": (
        {"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}},
        "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
    ),
}


@pytest.mark.parametrize(("spec", "why"), REJECTED.values(), ids=REJECTED)
def test_what_a_pod_may_not_say(spec, why):
    @api
    async def refused(api):
        await api.made(CLASSES, VM)
        await api.made(CLASSES, PLAIN)
        answer = await api.post(PODS, asking(**spec))
        assert (answer.status, answer.message) == (403, f'pods "p" is forbidden: {why}')

    refused()


@api
async def test_amounts_that_are_none_are_invalid(api):
    """Of a pod, and of a class: they are refused, and where they stand is said."""
    await api.made(CLASSES, VM)
    answer = await api.post(PODS, asking(runtimeClassName="vm", overhead={"cpu": "abc"}))
    assert (answer.status, "spec.overhead" in answer.message) == (422, True)
    broken = {"metadata": {"name": "broken"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "zz"}}}
    answer = await api.post(CLASSES, broken)
    assert (answer.status, "overhead.podFixed[cpu]" in answer.message) == (422, True)
    sometimes = {"tolerations": [{"key": "a", "operator": "Sometimes"}]}
    answer = await api.post(CLASSES, {"metadata": {"name": "broken"}, "handler": "vm", "scheduling": sometimes})
    assert (answer.status, "scheduling.tolerations[0]" in answer.message) == (422, True)


@api
async def test_the_overhead_of_the_class_is_fine_where_it_is_written_otherwise(api):
    await api.made(CLASSES, VM)
    await api.made(PODS, asking(runtimeClassName="vm", overhead={"cpu": "0.25", "memory": "122880Ki"}))
