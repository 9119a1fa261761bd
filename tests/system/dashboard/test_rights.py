"""What a viewer sees who has rights to one namespace only, or to nothing, and where Kueue's kinds are not served."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

import pytest
from tests.system.dashboard.test_overview import submit
from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual
from tests.system.queueing.queueing_world import flavor, queue

from muster.api.batch import CRON_JOB
from muster.api.core import NAMESPACE
from muster.api.kueue import LOCAL_QUEUE
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.dashboard.visits import PageError
from muster.runtime.transport import Request, Response, Transport

EVE = User("eve", frozenset({AUTHENTICATED}))
HERE = "are those of namespace default: you may not list others"


async def allow(world: World, *groups: str, verbs: Sequence[str] = ("get", "list", "watch")) -> None:
    """Let Eve read what is in namespace default, and a job of another namespace be."""
    rules = [{"apiGroups": [*groups], "resources": ["*"], "verbs": [*verbs]}]
    await world.client.create(ROLE.seen_as(dict), {"metadata": {"name": "r"}, "rules": rules}, "default")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
    await world.client.create(ROLE_BINDING.seen_as(dict), binding, "default")
    await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "secret-team"}})


async def grant(world: World, verb: str, *resources: str) -> None:
    """Let Eve use a verb on some resources of group `batch` in namespace default."""
    name = f"{verb}-{resources[0]}"
    rules = [{"apiGroups": ["batch"], "resources": [*resources], "verbs": [verb]}]
    await world.client.create(ROLE.seen_as(dict), {"metadata": {"name": name}, "rules": rules}, "default")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    await world.client.create(ROLE_BINDING.seen_as(dict), binding, "default")


async def see(world: World, group: str, resource: str) -> None:
    """Let Eve read a resource of the whole cluster."""
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}]
    await world.client.create(CLUSTER_ROLE.seen_as(dict), {"metadata": {"name": f"see-{resource}"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"see-{resource}"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
    binding = {"metadata": {"name": f"see-{resource}"}, "roleRef": reference, "subjects": subjects}
    await world.client.create(CLUSTER_ROLE_BINDING.seen_as(dict), binding)


async def play(world: World) -> None:
    await world.node("n1")
    await flavor(world)
    await queue(world, "vision", 4)
    document = {"metadata": {"name": "hidden"}, "spec": {"clusterQueue": "vision"}}
    await world.client.create(LOCAL_QUEUE.seen_as(dict), document, "secret-team")
    await submit(world, "runs", 3, "vision")
    await world.settle(3)
    await submit(world, "waits", 3, "vision")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    nightly = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    await world.client.create(CRON_JOB.seen_as(dict), {"metadata": {"name": "nightly"}, "spec": nightly}, "default")
    await world.settle(3)


@virtual
async def test_a_viewer_of_one_namespace_has_useful_pages(world: World) -> None:
    await allow(world, "", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io")
    await play(world)
    async with viewing(world, EVE) as viewer:
        text = await viewer.text("/")
        assert f"Jobs {HERE}." in text
        assert "Nodes are not shown" in text
        assert "Jobs that run 1" in text
        assert "Jobs that wait 1" in text
        assert "No ClusterQueues are visible" in text
        assert "does not exist" not in text  # what may not be seen may be there
        queues = await viewer.text("/queues")
        assert f"LocalQueues {HERE}" in queues
        assert "vision default vision Active 1 1" in queues
        assert "hidden" not in queues
        one = await viewer.text("/queues/default/vision")
        assert "1 waits 0" in one
        assert "runs Starting 0 kubernetes-admin 3 cpu" in one
        assert "vision does not exist, or you may not see it" in one
        assert f"Runs {HERE}" in await viewer.text("/history")
        with pytest.raises(ApiError, match="secret-team"):
            await viewer.page("/history?namespace=secret-team")
        with pytest.raises(PageError, match="You may not see the nodes") as refusal:
            await viewer.page("/nodes")
        assert 'User "eve" cannot list resource "nodes"' in refusal.value.text
        with pytest.raises(PageError, match="There is no ClusterQueue vision"):
            await viewer.page("/queues/cluster/vision")
        with pytest.raises(PageError, match="There is no LocalQueue hidden in namespace secret-team"):
            await viewer.page("/queues/secret-team/hidden")
        with pytest.raises(ApiError, match='User "eve" cannot patch resource "localqueues"'):
            await viewer.act("/queues/default/vision/stop", {"running": "continue"})


@virtual
async def test_a_queue_says_that_the_ways_into_it_are_not_shown(world: World) -> None:
    await see(world, "kueue.x-k8s.io", "clusterqueues")
    await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "secret-team"}})
    await play(world)
    async with viewing(world, EVE) as viewer:
        assert "LocalQueues you may not see them" in await viewer.text("/queues/cluster/vision")


@virtual
async def test_a_queue_shows_the_ways_into_it_of_the_viewers_own_namespace(world: World) -> None:
    await allow(world, "kueue.x-k8s.io")
    await see(world, "kueue.x-k8s.io", "clusterqueues")
    await play(world)
    async with viewing(world, EVE) as viewer:
        text = await viewer.text("/queues/cluster/vision")
        assert "LocalQueues default/vision Runs" in text
        assert f"LocalQueues {HERE}" in text


BUTTONS = {
    "/jobs/default/runs": ("Cancel", "Hold", "You may not change this job: that takes the right to patch jobs.batch"),
    "/queues/default/vision": (
        "Stop",
        "Stop",
        "You may not change this queue: that takes the right to patch localqueues",
    ),
    "/cronjobs/default/nightly": (
        "Hold",
        "Cancel",
        "You may not change this CronJob: that takes the right to patch cronjobs.batch",
    ),
}


@virtual
async def test_a_viewer_who_may_only_look_sees_no_buttons_and_the_missing_right(world: World) -> None:
    await allow(world, "", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io")
    await play(world)
    async with viewing(world, EVE) as viewer, viewing(world) as admin:
        for path, (button, other, refusal) in BUTTONS.items():
            text, allowed = await viewer.text(path), await admin.text(path)
            assert refusal in text
            assert "in namespace default, which an administrator gives." in text
            assert f"{path}/{button.lower()}" not in await viewer.page(path)
            assert button in allowed
            assert other in allowed
            assert "You may not change" not in allowed


DEEDS = {
    "/jobs/default/runs/cancel": "patch jobs.batch in namespace default",
    "/jobs/default/waits/hold": "patch jobs.batch in namespace default",
    "/queues/default/vision/stop": "patch localqueues.kueue.x-k8s.io in namespace default",
    "/queues/cluster/vision/stop": "patch clusterqueues.kueue.x-k8s.io in the whole cluster",
    "/queues/cluster/vision/quota": "patch clusterqueues.kueue.x-k8s.io in the whole cluster",
    "/cronjobs/default/nightly/hold": "patch cronjobs.batch in namespace default",
    "/cronjobs/default/nightly/cancel": "patch cronjobs.batch in namespace default",
    "/nodes/n1/cordon": "patch nodes in the whole cluster",
    "/nodes/n1/uncordon": "patch nodes in the whole cluster",
}


@virtual
async def test_a_change_is_refused_before_it_is_asked_for(world: World) -> None:
    await allow(world, "", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io")
    await see(world, "kueue.x-k8s.io", "clusterqueues")
    await see(world, "", "nodes")
    await play(world)
    async with viewing(world, EVE) as viewer, viewing(world) as admin:
        for path, right in DEEDS.items():
            with pytest.raises(PageError, match="You may not do this") as refusal:
                await viewer.page(path)
            assert refusal.value.status == 403
            assert refusal.value.text.endswith(f"Ask an administrator of the cluster for the right to {right}.")
            assert "You may not" not in await admin.text(path)


@virtual
async def test_a_viewer_with_a_part_of_the_rights_keeps_the_buttons(world: World) -> None:
    verbs = ("get", "list", "watch", "patch")
    await allow(world, "", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io", verbs=verbs)  # of Workloads, not of Jobs
    rules = [{"apiGroups": ["batch", "jobset.x-k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await world.client.create(CLUSTER_ROLE.seen_as(dict), {"metadata": {"name": "look"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "look"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]
    binding = {"metadata": {"name": "look"}, "roleRef": reference, "subjects": subjects}
    await world.client.create(CLUSTER_ROLE_BINDING.seen_as(dict), binding)
    await play(world)
    async with viewing(world, EVE) as viewer:
        page = await viewer.page("/jobs/default/runs")
        assert "/jobs/default/runs/hold" in page
        assert "You may not change this job" not in page
        assert "held" in await viewer.act("/jobs/default/runs/hold")


@virtual
async def test_a_viewer_who_cannot_have_forecasts_is_told_once_why(world: World) -> None:
    await allow(world, "", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io")
    await see(world, "kueue.x-k8s.io", "clusterqueues")
    await play(world)
    await submit(world, "waits-too", 3, "vision")
    await world.settle(3)
    async with viewing(world, EVE) as viewer:
        text = await viewer.text("/queues/default/vision")
        assert text.count("No start is foreseen: you may not list localqueues.kueue.x-k8s.io, ") == 1
        assert "Why Starts" not in text


@virtual
async def test_a_viewer_without_rights_is_told_which_and_asked_for_the_namespace(world: World) -> None:
    await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "secret-team"}})
    await play(world)
    async with viewing(world, EVE) as viewer:
        page, text = await viewer.page("/"), await viewer.text("/")
        assert "Jobs are not shown: " in text
        assert 'User "eve" cannot list resource "jobs"' in text
        assert "You work in namespace Show its jobs" in text
        assert 'action="/ui/jobs"' in page
        for untrue in ("Jobs that run", "Nothing runs", "Nothing waits"):
            assert untrue not in text
        for path in ("/jobs", "/history"):
            with pytest.raises(PageError, match="You may not see these jobs") as refusal:
                await viewer.page(path)
            assert 'User "eve" cannot list resource "jobs"' in refusal.value.text
            assert f"name it in the address: /ui{path}?namespace=NAME" in refusal.value.text
            assert refusal.value.status == 403
        queues = await viewer.text("/queues")
        assert "LocalQueues are not shown" in queues
        assert "ClusterQueues are not shown" in queues
        assert "There are no queues" not in queues


class WithoutKueue:
    """The transport of a cluster that does not have Kueue's kinds."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(self, request: Request) -> Response:
        """Return what the server answers; 404 for kinds of Kueue."""
        if request.path.startswith(("/apis/kueue.x-k8s.io", "/apis/visibility.kueue.x-k8s.io")):
            return Response(404, b"404 page not found")
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the server."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Do nothing: the server goes on."""


@virtual
async def test_a_cluster_without_queues_says_what_is_the_matter(world: World) -> None:
    await world.node("n1")
    await world.job("train", 2)
    await world.settle(3)
    async with viewing(world, transport=WithoutKueue) as viewer:
        with pytest.raises(PageError, match="This cluster has no queues") as refusal:
            await viewer.page("/queues")
        assert "muster manifests | kubectl apply" in refusal.value.text
        text = await viewer.text("/")
        assert "this cluster does not have Kueue's kinds" in text
        assert "Jobs that run 1" in text
        assert "n1 Ready train" in await viewer.text("/nodes")
        with pytest.raises(PageError, match="There is no ClusterQueue q"):
            await viewer.page("/queues/cluster/q")
