"""The pages about nodes, against the whole engine in virtual time."""

import re

import pytest
from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual

from muster.api.core import NODE
from muster.api.kueue import TOPOLOGY
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.dashboard.visits import PageError

GPUS = '[{"name":"0","model":"H200","memory":150754820096},{"name":"1","ill":true}]'


async def racks(world: World) -> None:
    """Three nodes in two racks, and a job on two of them."""
    for name, rack in (("n1", "r1"), ("n2", "r1"), ("n10", "r2")):
        await world.node(name, cpu="4")
        await world.client.patch(NODE, name, {"metadata": {"labels": {"rack": rack}}})
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    document = {"metadata": {"name": "room"}, "spec": {"levels": levels}}
    await world.client.create(TOPOLOGY.seen_as(dict), document)
    await world.job("train", 6)
    await world.settle(5)


@virtual
async def test_the_map_is_grouped_by_topology_and_the_list_is_in_order(world: World) -> None:
    await racks(world)
    async with viewing(world) as viewer:
        page, text = await viewer.page("/nodes"), await viewer.text("/nodes")
        assert "3 of 3 are ready and take new pods" in text
        assert "r1 2" in text
        assert "r2 1" in text
        assert page.count('tabindex="-1"') == 3
        on_job = [name for name in await world.nodes_of("train") if name]
        assert len(on_job) == 6
        assert f'title="{on_job[0]}: 100%"' in page
        rows = text.partition("List")[2]
        assert rows.index("n2 Ready") < rows.index("n10 Ready")
        assert "n1 to n10 3" in await viewer.text("/nodes?group=none")


@virtual
async def test_the_map_is_coloured_by_job(world: World) -> None:
    await racks(world)
    async with viewing(world) as viewer:
        page = await viewer.page("/nodes?by=job")
        assert '<i class="key k0"></i><a href="/ui/nodes?by=job&amp;job=default%2Ftrain">default/train</a>' in page
        assert 'class="k0"' in page
        node = (await world.nodes_of("train"))[0]
        assert f'title="{node}: default/train"' in page
        only = await viewer.text("/nodes?by=job&job=default/train")
        assert all(f"{name} Ready" in only for name in await world.nodes_of("train"))
        assert "None of 3 nodes passes these filters" in await viewer.text("/nodes?job=default/other")


@virtual
async def test_a_node_that_is_lost_has_a_sign_and_a_filter(world: World) -> None:
    await racks(world)
    await world.client.patch(NODE, "n2", {"spec": {"unschedulable": True}})
    lost = {"type": "Ready", "status": "False", "reason": "R", "message": "m"}
    await world.client.patch(NODE, "n10", {"status": {"conditions": [lost]}}, subresource="status")
    await world.settle(1)
    async with viewing(world) as viewer:
        page = await viewer.page("/nodes?state=not+ready+or+cordoned")
        assert page.count('class="lost"') == 1
        assert 'title="n10, NotReady: ' in page
        assert ">×</a>" in page
        assert ">–</a>" in page
        assert "Ready, Cordoned" in page
        assert "1 of 3 are ready" in page
        well = await viewer.text("/nodes?state=ready")
        assert "n1 Ready" in well
        assert "n10" not in well.partition("List")[2]


@virtual
async def test_one_node_says_what_is_on_it(world: World) -> None:
    await racks(world)
    node = (await world.nodes_of("train"))[0]
    await world.client.patch(NODE, node, {"metadata": {"annotations": {"muster.dev/gpus": GPUS}}})
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    await world.client.patch(NODE, node, {"spec": {"taints": [taint]}})
    await world.settle(1)
    async with viewing(world) as viewer:
        text = await viewer.text(f"/nodes/{node}")
        assert f"Node {node} Ready" in text
        assert "cpu 4/4 requested; 0 free" in text
        assert "train default 0" in text
        assert "0 H200 140.4Gi Free" in text
        assert "1 Ill" in text
        assert "team=vision:NoSchedule" in text
        assert "Ready: True" in text
        assert "rack=r" in text
        with pytest.raises(PageError, match="There is no node gone"):
            await viewer.page("/nodes/gone")


@virtual
async def test_a_node_that_reports_no_single_gpus_says_how_many_each_pod_holds(world: World) -> None:
    await world.node("n1")
    await world.node("n2")
    status = {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}}
    await world.client.patch(NODE, "n1", {"status": status}, subresource="status")
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}}
    await world.job("train", 1, template={"spec": {"restartPolicy": "Never", "containers": [container]}})
    await world.settle(5)
    async with viewing(world) as viewer:
        text = await viewer.text("/nodes/n1")
        assert "GPUs 4 GPUs: pods request 2, and 2 are free." in text
        assert "The node does not report single GPUs: only how many each pod holds is known." in text
        assert re.search(r"train train-0-\w+ : 2 GPUs", text)
        assert "report single GPUs" not in await viewer.text("/nodes/n2")


@virtual
async def test_pods_are_in_the_order_of_their_ranks(world: World) -> None:
    await world.node("big", cpu="16")
    await world.job("train", 11)
    await world.settle(5)
    async with viewing(world) as viewer:
        pods = (await viewer.text("/nodes/big")).partition("Requests")[2]
        assert pods.index("train default 2 train-2-") < pods.index("train default 10 train-10-")


@virtual
async def test_a_node_is_cordoned_and_uncordoned(world: World) -> None:
    await racks(world)
    node = (await world.nodes_of("train"))[0]
    async with viewing(world) as viewer:
        assert "1 job goes on there: default/train." in await viewer.text(f"/nodes/{node}/cordon")
        assert await viewer.act(f"/nodes/{node}/cordon") == f"node/{node} cordoned: no new pods start there"
        assert (await world.client.get(NODE, node)).spec.unschedulable
        assert await viewer.act(f"/nodes/{node}/cordon") == f"node/{node} is cordoned"
        await world.settle(1)
        assert f"Node {node} Ready, Cordoned" in await viewer.text(f"/nodes/{node}")
        assert "New pods may start there again" in await viewer.text(f"/nodes/{node}/uncordon")
        assert await viewer.act(f"/nodes/{node}/uncordon") == f"node/{node} uncordoned: new pods may start there"
        assert not (await world.client.get(NODE, node)).spec.unschedulable
        assert await viewer.act(f"/nodes/{node}/uncordon") == f"node/{node} is not cordoned"
        assert await viewer.find_next(f"/nodes/{node}/cordon") == f"/ui/nodes/{node}"


@virtual
async def test_a_viewer_who_may_only_look_at_nodes_is_told_the_missing_right(world: World) -> None:
    await racks(world)
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}]
    await world.client.create(CLUSTER_ROLE.seen_as(dict), {"metadata": {"name": "look"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "look"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
    binding = {"metadata": {"name": "look"}, "roleRef": reference, "subjects": subjects}
    await world.client.create(CLUSTER_ROLE_BINDING.seen_as(dict), binding)
    async with viewing(world, User("eve", frozenset({AUTHENTICATED}))) as viewer:
        text = await viewer.text("/nodes/n1")
        assert "You may not cordon this node: that takes the right to patch nodes of the cluster" in text
        assert "/nodes/n1/cordon" not in await viewer.page("/nodes/n1")


@virtual
async def test_without_nodes_a_command_adds_some(world: World) -> None:
    async with viewing(world) as viewer:
        assert "There are no nodes, so nothing can run" in await viewer.text("/nodes")
