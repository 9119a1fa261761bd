"""An invitation, made in a cluster and tried as the account that it is for."""

from functools import partial
from typing import Any

import msgspec
import pytest
from tests.system.cluster.test_serviceaccounts import PEM
from tests.system.plane import World, running

from muster.api.batch import JOB, Job
from muster.api.core import NAMESPACE, NODE, POD, SECRET, Namespace
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.cli.actions.clusters.invitation import Invitation
from muster.cli.actions.clusters.inviting import find_public_address, make_connection, put_account
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.identity.users import User, account_groups, account_name
from muster.jobs.podgroup.record import KINDS
from muster.multicluster.links.kubeconfigs import read_trusted
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig
from muster.runtime.kube.kubeconfig_text import write_kubeconfig

HOME = "kueue-system"
SEEN: tuple[Kind[Any], ...] = (WORKLOAD, JOB, POD, CLUSTER_QUEUE, LOCAL_QUEUE)
UNSEEN: tuple[Kind[Any], ...] = (SECRET, NODE, NAMESPACE)
OWN = ConnectionConfig(ClusterConfig("https://box:6443", PEM))


def invited(test: Any) -> Any:
    """Run a test of a world whose accounts get tokens, with a namespace beside `default`."""

    async def body() -> None:
        async with running(trust=partial(Trust, authority_pem=PEM)) as plane:
            world = World(plane)
            await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="lab")))
            await test(world)

    def run() -> None:
        run_virtual(body())

    run.__name__ = test.__name__
    return run


def manager(world: World, name: str = "multikueue") -> Client:
    return world.plane.client(User(account_name(HOME, name), account_groups(HOME)))


async def may_run(client: Client, namespace: str) -> bool:
    """Whether it may make a job, and delete it again."""
    container = {"name": "c", "image": "none", "command": ["x"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = msgspec.convert({"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}, Job)
    try:
        await client.create(JOB, job, namespace)
        await client.delete(JOB, "j", namespace, propagation="Background")
    except ApiError as error:
        if error.code != 403:
            raise
        return False
    return True


@invited
async def test_the_account_may_do_what_a_manager_does_and_no_more(world):
    token, authority = await put_account(world.client, Invitation("multikueue", HOME), world.clock)
    assert (len(token.split(".")), authority) == (3, PEM)
    client = manager(world)
    for kind in SEEN:
        await client.list(kind)
    assert [await may_run(client, namespace) for namespace in ("default", "lab")] == [True, True]
    for kind in UNSEEN:
        with pytest.raises(ApiError, match="is forbidden"):
            await client.list(kind)


@invited
async def test_the_account_may_make_podgroups_where_it_may_make_pods(world):
    await put_account(world.client, Invitation("multikueue", HOME, namespaces=("lab",)), world.clock)
    client = manager(world)
    for kind in KINDS[:-1]:  # Kubernetes' own is served on request
        group = msgspec.convert({"metadata": {"name": "g"}, "spec": {"minMember": 1}}, kind.type)
        made = await client.create(kind, group, "lab")
        await client.patch_object(kind, made, {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(ApiError, match="is forbidden"):
            await client.create(kind, group, "default")


@invited
async def test_another_invitation_of_that_name_changes_what_it_may_and_keeps_the_token(world):
    everywhere, confined = Invitation("multikueue", HOME), Invitation("multikueue", HOME, namespaces=("lab",))
    first = await put_account(world.client, everywhere, world.clock)
    for invitation, expected in ((confined, [False, True]), (everywhere, [True, True])):
        assert await put_account(world.client, invitation, world.clock) == first
        client = manager(world)
        assert [await may_run(client, namespace) for namespace in ("default", "lab")] == expected
        await client.list(WORKLOAD)
    assert not await may_run(manager(world, "other"), "lab")


@invited
async def test_a_manager_trusts_what_is_printed(world):
    invitation = Invitation("multikueue", HOME)
    token, authority = await put_account(world.client, invitation, world.clock)
    for server, url in (("", "https://box:6443"), ("https://10.0.0.5:7/", "https://10.0.0.5:7")):
        reached = await find_public_address(world.client, OWN, server)
        printed = write_kubeconfig(make_connection(invitation, reached, token, authority), invitation.name)
        found = read_trusted(printed.encode(), "stdin")
        assert (found.cluster.server, found.cluster.certificate_authority, found.user.token) == (url, PEM, token)
