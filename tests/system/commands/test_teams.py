"""The queues of teams as commands make them: what they divide, whom they are for, and where their users land."""

import os
import pwd

import pytest
from tests.system.commands.test_queue_commands import cluster
from tests.system.plane import World, virtual

from muster.actions.errors import UserError
from muster.actions.quota.queues import create_all
from muster.actions.quota.teams import (
    check_division,
    check_users,
    choose_queue,
    describe_users,
    find_division,
    join_team,
    leave_teams,
    open_cohort,
)
from muster.actions.server.session import Session
from muster.api.core import NAMESPACE, NODE, SERVICE_ACCOUNT
from muster.api.kueue import CLUSTER_QUEUE
from muster.api.ours.teams import FOLLOWS_NODES, read_users
from muster.api.ours.unixusers import UNIX_USER
from muster.api.ours.users import USER_LABEL, USER_QUEUE_ANNOTATION, USERS_NAMESPACE
from muster.api.server.rbac import ROLE_BINDING
from muster.cli.actions.queues.newqueue import NewQueue, make_documents
from muster.cluster.defaultqueue import QUEUE

GPU = "nvidia.com/gpu"


async def box(world: World) -> Session:
    """One node of 4 CPUs and 8 GPUs."""
    session = await cluster(world)
    await world.client.patch(NODE, "n", {"status": {"allocatable": {GPU: "8"}}}, subresource="status")
    await world.settle()
    return session


async def add_team(
    session: Session, name: str, users: frozenset[str] | None = None, *, gives: dict[str, str] | None = None
) -> None:
    quotas = gives or {}
    division = await find_division(session.client)
    check_division(division, name, quotas)
    quotas = dict.fromkeys(division.left, "0") | quotas
    flavor, cohort = division.flavor, division.cohort
    queue = NewQueue(name, quotas, flavor=flavor, cohort=cohort, users=users, part_of=QUEUE)
    await create_all(session.client, make_documents(queue))
    await open_cohort(session.client, division)


async def add_account(world: World, name: str) -> None:
    namespaces = {one.metadata.name for one in (await world.client.list(NAMESPACE)).items}
    if USERS_NAMESPACE not in namespaces:
        await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": USERS_NAMESPACE}})
    await world.client.create(SERVICE_ACCOUNT.seen_as(dict), {"metadata": {"name": name}}, USERS_NAMESPACE)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": name, "labels": {USER_LABEL: name}}, "roleRef": role}
    await world.client.create(ROLE_BINDING.seen_as(dict), binding, "default")


async def users_of(world: World, queue: str) -> frozenset[str] | None:
    return read_users((await world.client.get(CLUSTER_QUEUE, queue)).metadata.annotations)


@virtual
async def test_more_than_is_left_is_refused_at_once(world: World) -> None:
    session = await box(world)
    await add_team(session, "vision", gives={GPU: "5"})
    # The quota of the divided queue follows a moment later, and does not count.
    with pytest.raises(UserError) as refusal:
        await add_team(session, "speech", gives={GPU: "4", "cpu": "5"})
    said = "speech cannot get 4 nvidia.com/gpu, and 3 is left (vision has 5); nor 5 cpu, and 4 is left; give less,"
    assert str(refusal.value) == f"{said} or take it from another queue first"
    await add_team(session, "speech", gives={GPU: "3", "cpu": "1500m"})
    division = await find_division(session.client)
    assert (division.left[GPU], division.left["cpu"]) == (0, 2500)
    check_division(division.without("vision"), "vision", {GPU: "5"})
    with pytest.raises(UserError, match=r"6 nvidia[.]com/gpu, and 5 is left"):
        check_division(division.without("vision"), "vision", {GPU: "6"})


@virtual
async def test_teams_and_the_rest_share_a_cohort(world: World) -> None:
    session = await box(world)
    await add_team(session, "vision", gives={GPU: "5"})
    whole, part = [await world.client.get(CLUSTER_QUEUE, name) for name in (QUEUE, "vision")]
    assert whole.spec.cohort_name == part.spec.cohort_name == "muster-teams"
    assert whole.spec.preemption.reclaim_within_cohort == part.spec.preemption.reclaim_within_cohort == "Any"
    await world.client.patch(CLUSTER_QUEUE, QUEUE, {"spec": {"cohortName": "lab"}})
    await add_team(session, "speech")
    assert (await world.client.get(CLUSTER_QUEUE, "speech")).spec.cohort_name == "lab"


@virtual
async def test_without_a_queue_of_the_nodes_there_is_nothing_to_divide(world: World) -> None:
    session = await box(world)
    await world.client.patch(CLUSTER_QUEUE, QUEUE, {"metadata": {"annotations": {FOLLOWS_NODES: None}}})
    with pytest.raises(UserError, match="no queue has what the nodes have, so there is nothing to divide"):
        await find_division(session.client)


@virtual
async def test_users_have_to_exist(world: World) -> None:
    session = await box(world)
    await add_account(world, "grace")
    await check_users(session, {"grace", pwd.getpwuid(os.getuid()).pw_name})
    with pytest.raises(UserError, match=r"there is no user grcae; did you mean grace[?]"):
        await check_users(session, {"grcae"})
    with pytest.raises(UserError, match="there is no user xyzzyx; add one with: muster user add xyzzyx"):
        await check_users(session, {"xyzzyx"})


@virtual
async def test_a_user_in_several_teams_is_told_the_default(world: World) -> None:
    session = await box(world)
    await add_team(session, "vision", frozenset({"ada", "bob"}))
    await world.settle(2)
    await add_team(session, "speech", frozenset({"bob", "eve"}))
    queues = (await world.client.list(CLUSTER_QUEUE)).items
    assert describe_users("speech", {"bob", "eve"}, queues) == [
        "jobs of eve that name no queue go to speech",
        (
            "bob is in vision, too: jobs that name no queue go to vision; use --queue speech, or run: "
            "muster user queue bob speech"
        ),
    ]


@virtual
async def test_the_queue_of_a_user_is_chosen_where_the_user_works(world: World) -> None:
    session = await box(world)
    await add_account(world, "ada")
    await add_team(session, "vision", frozenset({"ada"}))
    await choose_queue(session.client, "ada", "vision")
    account = await world.client.get(SERVICE_ACCOUNT, "ada", USERS_NAMESPACE)
    assert account.metadata.annotations[USER_QUEUE_ANNOTATION] == "vision"
    with pytest.raises(UserError, match="no queue text where the user works; there is: default, vision"):
        await choose_queue(session.client, "ada", "text")
    with pytest.raises(UserError, match="there is no user eve"):
        await choose_queue(session.client, "eve", "vision")
    await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "u", "annotations": {UNIX_USER: "eve"}}})
    await choose_queue(session.client, "eve", "")
    await choose_queue(session.client, "ada", "")
    account = await world.client.get(SERVICE_ACCOUNT, "ada", USERS_NAMESPACE)
    assert USER_QUEUE_ANNOTATION not in account.metadata.annotations


@virtual
async def test_users_join_a_team_with_its_queue_and_leave_all_with_their_account(world: World) -> None:
    session = await box(world)
    await add_team(session, "vision", frozenset({"ada"}))
    await join_team(session, "vision", "bob")
    await join_team(session, "default", "bob")
    assert await users_of(world, "vision") == frozenset({"ada", "bob"})
    await leave_teams(session.client, "ada")
    assert await users_of(world, "vision") == frozenset({"bob"})
    assert await users_of(world, QUEUE) is None
