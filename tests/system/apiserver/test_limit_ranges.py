"""LimitRanges: what pods get that say nothing, and what they may not ask for."""

from typing import Any

import pytest
from tests.system.apiserver.harness import DEFAULT, PODS, api, pod

LIMITS = f"{DEFAULT}/limitranges"


def limits(*items: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": list(items)}}


def sized(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    made = pod()
    made["spec"]["containers"][0]["resources"] = {"requests": requests or {}, "limits": limits or {}}
    return made


@api
async def test_containers_that_say_nothing_get_the_defaults(api):
    item = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}
    await api.made(LIMITS, limits(item))
    two = pod()
    two["spec"]["containers"].append({"name": "d", "image": "i", "resources": {"limits": {"cpu": "200m"}}})
    two["spec"]["initContainers"] = [{"name": "e", "image": "i"}]
    made = await api.made(PODS, two)
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert made["spec"]["containers"][1]["resources"] == {
        "requests": {"cpu": "200m", "memory": "1Gi"},
        "limits": {"cpu": "200m", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; "
        "memory request for container d; memory limit for container d; "
        "cpu, memory request for init container e; cpu, memory limit for init container e"
    )
    assert made["status"]["qosClass"] == "Burstable"


@api
async def test_a_container_without_a_name_is_refused(api):
    await api.made(LIMITS, limits({"type": "Container", "default": {"cpu": "1"}}))
    nameless = pod()
    del nameless["spec"]["containers"][0]["name"]
    assert (await api.post(PODS, nameless)).message == 'Pod "p" is invalid: spec.containers[0].name: Required value'


@api
async def test_a_limit_range_completes_itself(api):
    made = await api.made(LIMITS, limits({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1024Ki"}}))
    assert made["spec"]["limits"] == [{
        "type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "2", "memory": "1Mi"},
    }]  # fmt: skip


ONE = {"cpu": "1"}


@pytest.mark.parametrize(
    ("item", "given", "expected"),
    [
        ({"type": "Container", "max": ONE}, sized(ONE, {"cpu": "2"}),
         "maximum cpu usage per Container is 1, but limit is 2"),
        ({"type": "Container", "min": ONE}, sized({"cpu": "500m"}),
         "minimum cpu usage per Container is 1, but request is 500m"),
        ({"type": "Container", "min": {"cpu": "1", "memory": "1Gi"}}, sized({"cpu": "500m", "memory": "1Mi"}),
         ("[minimum cpu usage per Container is 1, but request is 500m, "
         "minimum memory usage per Container is 1Gi, but request is 1Mi]")),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, sized(ONE, {"cpu": "3"}),
         "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, sized(),
         "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"),
        ({"type": "Pod", "max": ONE}, sized(), "maximum cpu usage per Pod is 1.  No limit is specified"),
        ({"type": "Pod", "max": ONE}, sized(limits={"cpu": "1500m"}),
         "maximum cpu usage per Pod is 1, but limit is 1500m"),
        ({"type": "Pod", "min": ONE}, sized(), "minimum cpu usage per Pod is 1.  No request is specified"),
        ({"type": "Pod", "max": ONE}, sized(limits=ONE), ""),
        ({"type": "Container", "max": ONE, "min": ONE}, sized(limits=ONE), ""),
    ],
)  # fmt: skip
@api
async def test_what_may_not_be_asked_for(api, item, given, expected):
    await api.made(LIMITS, limits(item))
    answer = await api.post(PODS, given)
    if expected:
        assert (answer.status, answer.message) == (403, f'pods "p" is forbidden: {expected}')
    else:
        assert answer.status == 201


@api
async def test_pods_that_are_there_are_left_alone(api):
    await api.made(PODS, sized(limits={"cpu": "5"}))
    await api.made(LIMITS, limits({"type": "Container", "max": ONE}))
    assert (await api.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})).status == 200


@api
async def test_volume_claims(api):
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    await api.made(LIMITS, limits(item))
    claims = f"{DEFAULT}/persistentvolumeclaims"
    for size, expected in (
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        answer = await api.post(claims, {"metadata": {"name": "a"}, "spec": spec})
        assert (answer.status, answer.message) == (403, f'persistentvolumeclaims "a" is forbidden: {expected}')
