"""Users of a team have its LocalQueue where they work, whichever of the two came first."""

from typing import Any

from tests.system.plane import World, virtual

from muster.api.core import NAMESPACE
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from muster.api.ours.teams import QUEUE_USERS
from muster.api.ours.unixusers import UNIX_USER
from muster.api.ours.users import USER_LABEL
from muster.api.server.rbac import ROLE_BINDING


async def add_namespace(world: World, name: str, user: str = "") -> None:
    annotations = {UNIX_USER: user} if user else {}
    await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": name, "annotations": annotations}})


async def add_user(world: World, name: str, namespace: str) -> None:
    document: dict[str, Any] = {
        "metadata": {"name": f"b-{name}", "labels": {USER_LABEL: name}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    }
    await world.client.create(ROLE_BINDING.seen_as(dict), document, namespace)


async def add_team(world: World, name: str, users: str) -> None:
    meta = {"name": name, "annotations": {QUEUE_USERS: users}}
    await world.client.create(CLUSTER_QUEUE.seen_as(dict), {"metadata": meta, "spec": {}})


async def where(world: World, team: str) -> list[str]:
    await world.settle(1)
    found = [one for one in (await world.client.list(LOCAL_QUEUE)).items if one.spec.cluster_queue == team]
    assert {one.metadata.name for one in found} <= {team}
    return sorted(one.metadata.namespace for one in found)


@virtual
async def test_a_queue_comes_to_its_users_and_users_to_their_queue(world: World) -> None:
    await add_namespace(world, "user-ada", "ada")
    await add_namespace(world, "lab")
    await add_user(world, "grace", "lab")
    await add_team(world, "vision", "ada,grace,eve")
    await add_team(world, "speech", "eve")
    assert await where(world, "vision") == ["lab", "user-ada"]
    assert await where(world, "speech") == []
    await add_namespace(world, "user-eve", "eve")
    assert await where(world, "vision") == ["lab", "user-ada", "user-eve"]
    assert await where(world, "speech") == ["user-eve"]
    await world.client.patch(CLUSTER_QUEUE, "speech", {"metadata": {"annotations": {QUEUE_USERS: "ada,eve"}}})
    assert await where(world, "speech") == ["user-ada", "user-eve"]


@virtual
async def test_a_queue_that_is_deleted_stays_away(world: World) -> None:
    await add_namespace(world, "user-ada", "ada")
    await add_team(world, "vision", "ada")
    assert await where(world, "vision") == ["user-ada"]
    await world.client.delete(LOCAL_QUEUE, "vision", "user-ada")
    assert await where(world, "vision") == []
