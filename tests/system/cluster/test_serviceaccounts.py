"""What a cluster does for service accounts and roles by itself."""

import base64
from functools import partial
from typing import Any

import msgspec
from tests.system.plane import World, running, virtual

from muster.api.core import CONFIG_MAP, NAMESPACE, SECRET, SERVICE_ACCOUNT, Namespace, Secret, ServiceAccount
from muster.api.meta import ObjectMeta
from muster.api.server.rbac import CLUSTER_ROLE, ClusterRole
from muster.api.status import ApiError
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.controllers.access.serviceaccounts import ACCOUNT_NAME, ACCOUNT_UID, TOKEN_SECRET
from muster.runtime.clock import run_virtual

PEM = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
ROOT = "kube-root-ca.crt"


def reachable(test):
    """Run a test of a world whose server can be reached from outside."""

    async def body():
        async with running(trust=partial(Trust, authority_pem=PEM)) as plane:
            await test(World(plane))

    def run():
        run_virtual(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def found(world, kind, name, namespace="default"):
    try:
        return await world.client.get(kind, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return None


async def token_secret(world, account="robot", name="s"):
    meta = ObjectMeta(name=name, annotations={ACCOUNT_NAME: account})
    await world.client.create(SECRET, Secret(metadata=meta, type=TOKEN_SECRET), "default")
    await world.settle()
    return await found(world, SECRET, name)


async def robot(world):
    return await world.client.create(SERVICE_ACCOUNT, ServiceAccount(metadata=ObjectMeta(name="robot")), "default")


# ---- the authority's certificate


@reachable
async def test_every_namespace_has_the_certificate(world):
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="team")))
    await world.settle()
    for namespace in ("default", "kube-system", "team"):
        assert (await found(world, CONFIG_MAP, ROOT, namespace)).data == {"ca.crt": PEM.decode()}


@reachable
async def test_it_comes_back_as_it_was(world):
    await world.settle()
    await world.client.patch(CONFIG_MAP, ROOT, {"data": {"ca.crt": "forged"}}, "default")
    await world.client.delete(CONFIG_MAP, ROOT, "kube-system")
    await world.settle()
    assert (await found(world, CONFIG_MAP, ROOT)).data == {"ca.crt": PEM.decode()}
    assert await found(world, CONFIG_MAP, ROOT, "kube-system")


@reachable
async def test_other_servers_are_told_whose_certificates_this_one_lets_in(world):
    # The ConfigMap that k8s.io/apiserver reads; no keys of a front proxy, which this server does not have.
    name, data = "extension-apiserver-authentication", {"client-ca-file": PEM.decode()}
    await world.settle()
    assert (await found(world, CONFIG_MAP, name, "kube-system")).data == data
    assert await found(world, CONFIG_MAP, name) is None
    await world.client.delete(CONFIG_MAP, name, "kube-system")
    await world.settle()
    await world.client.patch(CONFIG_MAP, name, {"data": {"client-ca-file": "forged", "own": "x"}}, "kube-system")
    await world.settle()
    assert (await found(world, CONFIG_MAP, name, "kube-system")).data == data | {"own": "x"}


@virtual
async def test_there_is_none_where_nobody_comes_from_outside(world):
    await world.settle()
    assert (await world.client.list(CONFIG_MAP)).items == []


# ---- secrets that are tokens


@reachable
async def test_a_secret_gets_the_token_of_its_account(world):
    account = await robot(world)
    secret = await token_secret(world)
    assert (secret.data["namespace"], secret.data["ca.crt"]) == (b"default", PEM)
    assert secret.metadata.annotations[ACCOUNT_UID] == account.metadata.uid
    user = world.plane.access.tokens.user(secret.data["token"].decode())
    assert (user.name, user.uid) == ("system:serviceaccount:default:robot", account.metadata.uid)
    await world.client.patch(SECRET, "s", {"data": {"token": None}}, "default")
    await world.settle()
    assert (await found(world, SECRET, "s")).data["token"]


@reachable
async def test_a_secret_waits_for_its_account_and_goes_with_it(world):
    secret = await token_secret(world)
    assert not secret.data
    await robot(world)
    await world.settle()
    secret = await found(world, SECRET, "s")
    assert secret.data["token"]
    await world.client.delete(SERVICE_ACCOUNT, "robot", "default")
    await world.settle()
    assert await found(world, SECRET, "s") is None


@reachable
async def test_other_secrets_are_left_alone(world):
    await robot(world)
    data = {"k": base64.b64encode(b"v").decode()}
    document = {"metadata": {"name": "o", "annotations": {ACCOUNT_NAME: "robot"}}, "data": data}
    await world.client.create(SECRET.seen_as(dict), document, "default")
    await world.settle()
    assert (await found(world, SECRET, "o")).data == {"k": b"v"}


# ---- aggregation


def _role(name, resource="", labels=None, selector=None):
    document: dict[str, Any] = {"metadata": {"name": name, "labels": labels or {}}}
    if resource:
        document["rules"] = [{"apiGroups": ["x.io"], "resources": [resource], "verbs": ["get"]}]
    if selector:
        document["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": selector}]}
    return msgspec.convert(document, ClusterRole)


async def _resources(world, name):
    await world.settle()
    rules = (await world.client.get(CLUSTER_ROLE, name)).rules
    return [resource for rule in rules for resource in rule.resources if "x.io" in rule.api_groups]


@virtual
async def test_roles_are_put_together_and_follow_their_parts(world):
    create = partial(world.client.create, CLUSTER_ROLE)
    await create(_role("whole", selector={"to": "whole"}))
    assert await _resources(world, "whole") == []
    await create(_role("a", "as", {"to": "whole"}))
    await create(_role("b", "bs", {"to": "whole"}))
    assert await _resources(world, "whole") == ["as", "bs"]
    await world.client.patch(CLUSTER_ROLE, "b", {"metadata": {"labels": {"to": "other"}}})
    assert await _resources(world, "whole") == ["as"]
    await world.client.patch(CLUSTER_ROLE, "a", {"rules": []})
    assert await _resources(world, "whole") == []
    await world.client.delete(CLUSTER_ROLE, "a")
    assert await _resources(world, "whole") == []


@virtual
async def test_who_defines_a_kind_adds_it_to_the_roles_of_users(world):
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await world.client.create(CLUSTER_ROLE, _role("things-view", "things", label))
    for name in ("view", "edit", "admin"):
        assert await _resources(world, name) == ["things"]


@virtual
async def test_a_cluster_at_rest_writes_no_roles(world):
    before = await world.client.list(CLUSTER_ROLE)
    await world.settle(60)
    assert (await world.client.list(CLUSTER_ROLE)).items == before.items
