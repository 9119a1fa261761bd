"""The tokens in a pod's volumes: asked for once, renewed in time."""

import msgspec
import pytest
from tests.system.plane import virtual

from muster.api.core import POD, SERVICE_ACCOUNT, Pod, ServiceAccount
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.cluster.nodes.container.environment import AskedToken
from muster.cluster.nodes.pod.tokens import PodTokens


async def made(world, *tokens, account="robot"):
    await world.client.create(SERVICE_ACCOUNT, ServiceAccount(metadata=ObjectMeta(name="robot")), "default")
    sources = [{"serviceAccountToken": token} for token in tokens]
    document = {
        "metadata": {"name": "p"},
        "spec": {
            "serviceAccountName": account,
            "containers": [{"name": "c", "image": "i", "command": ["x"]}],
            "volumes": [{"name": "v", "projected": {"sources": sources}}],
        },
    }
    pod = await world.client.create(POD, msgspec.convert(document, Pod), "default")
    return pod, PodTokens(world.client, world.clock)


@virtual
async def test_a_token_is_renewed_before_it_ends(world):
    pod, tokens = await made(world, {"path": "t", "expirationSeconds": 1000})
    asked = AskedToken("", 1000)
    assert tokens.due is None
    first = (await tokens.get_tokens(pod))[asked]
    assert tokens.due == world.clock.monotonic() + 800
    await world.clock.sleep(799)
    assert await tokens.get_tokens(pod) == {asked: first}
    await world.clock.sleep(1)
    second = (await tokens.get_tokens(pod))[asked]
    assert second != first
    check = world.plane.access.tokens.user
    assert check(first)
    await world.clock.sleep(500)
    assert check(first) is None
    assert check(second).extra["authentication.kubernetes.io/pod-name"] == ("p",)


@virtual
async def test_a_long_lived_one_is_renewed_daily(world):
    pod, tokens = await made(world, {"path": "t", "expirationSeconds": 10**6})
    await tokens.get_tokens(pod)
    assert tokens.due == world.clock.monotonic() + 24 * 3600


@virtual
async def test_each_is_for_its_own_audience(world):
    pod, tokens = await made(world, {"path": "a"}, {"path": "b", "audience": "vault"}, {"path": "c"})
    found = await tokens.get_tokens(pod)
    assert found.keys() == {AskedToken("", 3600), AskedToken("vault", 3600)}
    check = world.plane.access.tokens.user
    assert check(found[AskedToken("", 3600)])
    assert check(found[AskedToken("vault", 3600)]) is None


@virtual
async def test_a_pod_whose_account_has_gone_gets_none(world):
    pod, tokens = await made(world, {"path": "t"})
    await world.client.delete(SERVICE_ACCOUNT, "robot", "default")
    with pytest.raises(ApiError) as error:
        await tokens.get_tokens(pod)
    assert error.value.code == 404
    assert tokens.due is None
