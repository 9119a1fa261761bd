"""The lists beside that of jobs: CronJobs, and groups of pods that queue as no job."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
from tests.system.dashboard.test_job import begin, gang
from tests.system.dashboard.test_rights import EVE, HERE, allow, grant
from tests.system.dashboard.viewing import Viewing, viewing
from tests.system.plane import World, virtual
from tests.system.queueing.queueing_world import flavor, queue

from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.actions.submission.sweep import Sweep
from muster.api.batch import CRON_JOB, JOB
from muster.api.core import NODE, POD, Node
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from muster.api.meta import ObjectMeta
from muster.api.ours.trials import Array
from muster.api.podgroups.coscheduling import POD_GROUP
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.dashboard.refusals import explain_error
from muster.dashboard.visits import PageError
from muster.jobs.job.conditions import finish
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request, Response, Transport

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


async def make_cron_job(world: World, name: str, **spec: Any) -> None:
    document = {
        "metadata": {"name": name, "labels": {"team": "vision"}},
        "spec": {"timeZone": "UTC", "jobTemplate": {"spec": {"template": TEMPLATE}}, **spec},
    }
    await world.client.create(CRON_JOB.seen_as(dict), document, "default")


async def make_by_hand(world: World, cron_job: str, name: str) -> None:
    """Make a Job as `kubectl create job --from` does, which the status of the CronJob does not list."""
    uid = (await world.client.get(CRON_JOB, cron_job, "default")).metadata.uid
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": cron_job, "uid": uid, "controller": True}
    metadata = {
        "name": name,
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [owner],
    }
    await world.client.create(JOB.seen_as(dict), {"metadata": metadata, "spec": {"template": TEMPLATE}}, "default")


class Elsewhere:
    """The transport of a cluster whose server is not that of Muster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(self, request: Request) -> Response:
        """Return what the server answers, with a version of Kubernetes."""
        if request.path == "/version":
            return Response(200, b'{"gitVersion": "v1.34.0"}')
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the server."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Do nothing: the server goes on."""


async def make_crew(world: World, pods: int = 3) -> None:
    """Make one of the pods of a pod group, and a PodGroup without pods. pods: how many the group has."""
    metadata = {
        "name": "crew-0",
        "labels": {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/pod-group-name": "crew"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(pods)},
    }
    await world.client.create(POD.seen_as(dict), {"metadata": metadata, "spec": TEMPLATE["spec"]}, "default")
    group = {"metadata": {"name": "drums"}, "spec": {"minMember": 2}}
    await world.client.create(POD_GROUP.seen_as(dict), group, "default")


@virtual
async def test_a_cron_job_stands_with_its_schedule_and_its_starts(world: World) -> None:
    await begin(world)
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await make_cron_job(world, "held", schedule="@hourly", suspend=True)
    await make_cron_job(world, "never", schedule="0 0 30 2 *")
    await make_cron_job(world, "minutely", schedule="* * * * *")
    await world.settle(130)
    async with viewing(world) as viewer:
        text = await viewer.text("/cronjobs")
        assert "nightly default 0 3 * * * UTC in " in text
        assert "held default @hourly UTC held" in text
        assert "never default 0 0 30 2 * UTC never" in text
        assert "no date matches, it never starts a job." in text
        assert "minutely-" in text, "the job that runs"
        assert "never" not in await viewer.text("/cronjobs?text=NIGHT")
        assert "nightly" in await viewer.text("/cronjobs?labels=team%3Dvision")
        assert "None of 4 CronJobs passes" in await viewer.text("/cronjobs?labels=team%3Dother")
        assert 'href="/ui/cronjobs/default/nightly"' in await viewer.page("/cronjobs")
        one = await viewer.text("/cronjobs/default/nightly")
        assert "CronJob nightly Active" in one
        assert "Schedule 0 3 * * * UTC Next start in " in one
        assert "Last start none yet" in one
        assert "muster hold nightly -n default" in one
        assert "kind: CronJob" in one
        assert "jobs with nightly- in their names" in one
        assert "muster release held -n default" in await viewer.text("/cronjobs/default/held")
        busy = await viewer.text("/cronjobs/default/minutely")
        assert "SuccessfulCreate" in busy, "its Events say why a job started, or did not"
        assert "no date matches, it never starts a job." in await viewer.text("/cronjobs/default/never")


@virtual
async def test_a_cron_job_is_held_released_and_cancelled_after_saying_what_happens(world: World) -> None:
    await begin(world)
    await make_cron_job(world, "hourly", schedule="0 * * * *", concurrencyPolicy="Forbid")
    await world.settle(3700)
    async with viewing(world) as viewer:
        page = "/cronjobs/default/hourly"
        [running] = [one.name for one in (await world.client.get(CRON_JOB, "hourly", "default")).status.active]
        assert f'href="/ui{page}/hold"' in await viewer.page(page)
        assert f'href="/ui{page}/release"' not in await viewer.page(page)
        asked = await viewer.text(f"{page}/hold")
        assert "It starts no jobs until somebody releases it. 1 job continues: " + running in asked
        assert await viewer.act(f"{page}/hold") == "hourly held: it starts no jobs until it is released"
        assert await viewer.find_next(f"{page}/hold") == f"/ui{page}"
        await world.settle(1)
        assert "CronJob hourly Held" in await viewer.text(page)
        with pytest.raises(PageError) as caught:
            await viewer.page(f"{page}/hold")
        assert caught.value.text == "hourly is held already."
        assert "It starts jobs again, the next one in " in await viewer.text(f"{page}/release")
        await world.settle(4000)
        asked = await viewer.text(f"{page}/release")
        assert f"It starts a job once {running} has ended, for the start that it missed " in asked
        assert "1 job is cancelled: " + running in await viewer.text(f"{page}/cancel")
        assert await viewer.act(f"{page}/cancel") == "hourly cancelled: it starts no more jobs until it is released"
        for pod in await world.pods():
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
        await world.settle(5)
        assert f"{running} Cancelled" in await viewer.text(f"/jobs/default/{running}")
        assert f'href="/ui{page}/cancel"' not in await viewer.page(page)
        assert "It starts a job at once, for the start that it missed " in await viewer.text(f"{page}/release")
        assert await viewer.act(f"{page}/release") == "hourly released: it starts jobs again"


@virtual
async def test_a_job_that_a_user_made_from_a_cron_job_is_one_of_its_jobs(world: World) -> None:
    await begin(world)
    await make_cron_job(world, "nightly", schedule="0 3 * * *", suspend=True)
    await make_by_hand(world, "nightly", "by-hand")
    await world.settle(5)
    async with viewing(world) as viewer:
        page = "/cronjobs/default/nightly"
        assert "Runs now by-hand" in await viewer.text(page)
        assert f'href="/ui{page}/cancel"' in await viewer.page(page)
        assert "1 job is cancelled: by-hand." in await viewer.text(f"{page}/cancel")
        await viewer.act(f"{page}/release")
        await world.settle(1)
        assert "1 job continues: by-hand." in await viewer.text(f"{page}/hold")
        await viewer.act(f"{page}/cancel")
        for pod in await world.pods():
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
        await world.settle(5)
        assert "by-hand Cancelled" in await viewer.text("/jobs/default/by-hand")
        assert "Runs now nothing" in await viewer.text(page)
        assert f'href="/ui{page}/cancel"' not in await viewer.page(page)


@virtual
async def test_a_next_start_is_unknown_in_the_time_zone_of_another_machine(world: World) -> None:
    await begin(world)
    await make_cron_job(world, "minutely", schedule="* * * * *", timeZone=None, concurrencyPolicy="Forbid")
    await make_cron_job(world, "never", schedule="0 0 30 2 *", timeZone=None)
    await world.settle(7200)
    async with viewing(world, transport=Elsewhere) as viewer:
        page = "/cronjobs/default/minutely"
        text = await viewer.text(page)
        assert "Too many missed start times." in text
        assert "Next start unknown: it names no time zone" in text
        assert "Next start never" in await viewer.text("/cronjobs/default/never")
        for path in (page, "/cronjobs/default/never"):
            await viewer.act(f"{path}/hold")
        await world.settle(1)
        assert "It starts jobs by its schedule again." in await viewer.text(f"{page}/release")
        never = await viewer.text("/cronjobs/default/never/release")
        assert "It starts no jobs. Invalid schedule: 0 0 30 2 * : no date matches" in never


@virtual
async def test_a_viewer_without_the_right_to_the_jobs_does_not_cancel_half_of_a_cron_job(world: World) -> None:
    await allow(world, "batch")
    await grant(world, "patch", "cronjobs", "jobs")
    await begin(world)
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await make_cron_job(world, "idle", schedule="0 3 * * *")
    await make_by_hand(world, "nightly", "by-hand")
    await world.settle(5)
    async with viewing(world, EVE) as viewer:
        await check_refusal(world, viewer, "patch jobs/status.batch")
    async with viewing(world, EVE, transport=Elsewhere) as viewer:
        await check_refusal(world, viewer, "delete jobs.batch")
    async with viewing(world, EVE) as viewer:
        assert "You may not cancel its jobs" not in await viewer.text("/cronjobs/default/idle")
        await viewer.act("/cronjobs/default/idle/cancel")
        assert (await world.client.get(CRON_JOB, "idle", "default")).spec.suspend


async def check_refusal(world: World, viewer: Viewing, right: str) -> None:
    """Check that a viewer without a right may hold CronJob nightly, and that nothing of it is cancelled."""
    page = "/cronjobs/default/nightly"
    text = await viewer.text(page)
    assert f"You may not cancel its jobs: that takes the right to {right} in namespace default" in text
    assert f'href="/ui{page}/cancel"' not in await viewer.page(page)
    assert f'href="/ui{page}/hold"' in await viewer.page(page)
    with pytest.raises(PageError) as caught:
        await viewer.page(f"{page}/cancel")
    assert caught.value.status == 403
    assert caught.value.text.endswith(f"for the right to {right} in namespace default.")
    with pytest.raises(ApiError) as refused:
        await viewer.act(f"{page}/cancel")
    assert refused.value.code == 403
    assert explain_error(refused.value).endswith(f"for the right to {right} in namespace default.")
    assert not (await world.client.get(CRON_JOB, "nightly", "default")).spec.suspend


@virtual
async def test_a_viewer_who_may_not_list_the_jobs_of_a_cron_job_may_still_hold_it(world: World) -> None:
    for verb in ("get", "list", "watch", "patch"):
        await grant(world, verb, "cronjobs")
    await begin(world)
    await make_cron_job(world, "hourly", schedule="0 * * * *")
    await world.settle(3700)
    [running] = [one.name for one in (await world.client.get(CRON_JOB, "hourly", "default")).status.active]
    async with viewing(world, EVE) as viewer:
        page = "/cronjobs/default/hourly"
        text = await viewer.text(page)
        assert f"Runs now {running}" in text
        assert "You may not cancel its jobs: that takes the right to list jobs.batch in namespace default" in text
        with pytest.raises(PageError, match="You may not do this"):
            await viewer.page(f"{page}/cancel")
        with pytest.raises(ApiError, match="cannot list resource"):
            await viewer.act(f"{page}/cancel")
        assert f"1 job continues: {running}." in await viewer.text(f"{page}/hold")
        await viewer.act(f"{page}/hold")
        assert (await world.client.get(CRON_JOB, "hourly", "default")).spec.suspend


@virtual
async def test_a_job_and_a_cron_job_of_one_name_have_pages_that_lead_to_each_other(world: World) -> None:
    await begin(world, gang("nightly"))
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await make_cron_job(world, "alone", schedule="0 3 * * *")
    await world.settle(5)
    async with viewing(world) as viewer:
        job, cron_job = await viewer.page("/jobs/default/nightly"), await viewer.page("/cronjobs/default/nightly")
        assert '<a href="/ui/cronjobs/default/nightly">CronJob nightly</a>' in job
        assert '<a href="/ui/jobs/default/nightly">job nightly</a>' in cron_job
        assert "muster hold nightly" not in cron_job, "it would hold the job"
        text = await viewer.text("/cronjobs/default/nightly")
        patch = """kubectl patch cronjob nightly -n default -p '{"spec":{"suspend":true}}'"""
        assert patch in text
        await viewer.act("/cronjobs/default/nightly/hold")
        await world.settle(1)
        assert (await world.client.get(CRON_JOB, "nightly", "default")).spec.suspend
        assert "nightly Held" not in await viewer.text("/jobs/default/nightly"), "the job goes on"
        text = await viewer.text("/jobs/default/alone")
        assert "No job has this name. A CronJob has it: CronJob alone" in text
        assert "A job has this name" not in await viewer.text("/cronjobs/default/alone")


@virtual
async def test_the_page_of_a_job_follows_no_cron_jobs(world: World) -> None:
    await begin(world, gang("nightly"), gang("train"))
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    async with viewing(world) as viewer:
        for path in (NIGHTLY, "/jobs/default/train"):
            await viewer.page(path)
        assert CRON_JOB not in [key.kind for key in viewer.copy._followed]


@virtual
async def test_a_change_is_not_made_to_another_object_of_the_same_name(world: World) -> None:
    await begin(world, gang("train"))
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await world.settle(5)
    async with viewing(world) as viewer:
        paths = ("/jobs/default/train/cancel", "/cronjobs/default/nightly/hold")
        forms = {path: await read_form(viewer, path) for path in paths}
        await world.client.delete(JOB, "train", "default")
        await world.client.delete(CRON_JOB, "nightly", "default")
        await world.settle(60)
        await submit(world.client, gang("train"), pytest.fail)
        await make_cron_job(world, "nightly", schedule="0 3 * * *")
        await world.settle(5)
        for path, form in forms.items():
            with pytest.raises(PageError) as caught:
                await viewer.act(path, form)
            assert caught.value.text.endswith("another one has its name now. Nothing was changed.")
            assert caught.value.status == 409
        assert (await viewer.text("/jobs/default/train")).startswith("Jobs / default train Starting")
        assert not (await world.client.get(CRON_JOB, "nightly", "default")).spec.suspend


class Replacing:
    """A transport that lets an object be replaced once a client has read it, and before its first write arrives."""

    def __init__(self, transport: Transport, replace: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._replace = replace
        self._is_replaced = False

    async def request(self, request: Request) -> Response:
        """Return what the server answers."""
        is_write = request.method in ("PATCH", "DELETE", "PUT")
        if is_write and not self._is_replaced:
            self._is_replaced = True
            await self._replace()
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the server."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Do nothing: the server goes on."""


@virtual
async def test_an_object_that_is_replaced_after_the_check_is_left_alone(world: World) -> None:
    await check_replaced_objects(world, lambda transport: transport)


@virtual
async def test_an_object_that_is_replaced_after_the_check_is_not_deleted(world: World) -> None:
    await check_replaced_objects(world, Elsewhere)


async def check_replaced_objects(world: World, transport: Callable[[Transport], Transport]) -> None:
    """Check that no deed changes an object that replaced the one that the deed has read."""
    sweep = Gang("train", ["sh", "-c", "x"], sweep=Sweep(Array.parse("0-3")))
    await begin(world, sweep)
    await make_cron_job(world, "nightly", schedule="0 3 * * *")

    async def replace() -> None:
        await world.client.delete(JOB, "train", "default")
        await world.client.delete(CRON_JOB, "nightly", "default")
        await world.settle(60)
        await submit(world.client, sweep, pytest.fail)
        await make_cron_job(world, "nightly", schedule="0 3 * * *")
        await world.settle(5)

    for path, form in (
        ("/jobs/default/train/cancel", {}),
        ("/jobs/default/train/hold", {}),
        ("/jobs/default/train/scale", {"workers": "2"}),
        ("/cronjobs/default/nightly/hold", {}),
        ("/cronjobs/default/nightly/cancel", {}),
    ):
        async with viewing(world, transport=lambda one: Replacing(transport(one), replace)) as viewer:
            with pytest.raises(PageError, match="This is another one now") as caught:
                await viewer.act(path, form)
        assert caught.value.text.endswith("another one has its name now. Nothing was changed."), path
        job = await world.client.get(JOB, "train", "default")
        assert (finish(job), job.spec.suspend, job.spec.parallelism) == (None, False, 4), path
        assert not (await world.client.get(CRON_JOB, "nightly", "default")).spec.suspend, path


async def make_queues_and_node(world: World) -> None:
    """Make a node, a ClusterQueue and its LocalQueue in place of those of the same names, if there are any."""
    kinds: tuple[tuple[Kind[Any], str, str], ...] = (
        (NODE, "n9", ""),
        (LOCAL_QUEUE, "team", "default"),
        (CLUSTER_QUEUE, "team", ""),
    )
    for kind, name, namespace in kinds:
        with ignoring("NotFound"):
            await world.client.delete(kind, name, namespace)
    await world.settle(5)
    await world.client.create(NODE, Node(metadata=ObjectMeta(name="n9")))
    await queue(world, "team", 4)
    await world.settle(1)


QUEUE_AND_NODE_DEEDS: Mapping[str, dict[str, str]] = {
    "/queues/cluster/team/stop": {},
    "/queues/default/team/stop": {},
    "/queues/cluster/team/quota": {"default|cpu": "9"},
    "/nodes/n9/cordon": {},
}


async def check_unchanged(world: World, path: str) -> None:
    """Check that no deed has changed the queues and the node."""
    cluster_queue = await world.client.get(CLUSTER_QUEUE, "team")
    local_queue = await world.client.get(LOCAL_QUEUE, "team", "default")
    assert (cluster_queue.spec.stop_policy, local_queue.spec.stop_policy) == ("None", "None"), path
    assert cluster_queue.spec.resource_groups[0].flavors[0].resources[0].nominal_quota == 4, path
    assert not (await world.client.get(NODE, "n9")).spec.unschedulable, path


@virtual
async def test_a_change_is_not_made_to_another_queue_or_node_of_the_same_name(world: World) -> None:
    await flavor(world)
    await make_queues_and_node(world)
    async with viewing(world) as viewer:
        forms = {path: form | await read_form(viewer, path) for path, form in QUEUE_AND_NODE_DEEDS.items()}
        await make_queues_and_node(world)
        for path, form in forms.items():
            with pytest.raises(PageError, match="This is another one now") as caught:
                await viewer.act(path, form)
            assert caught.value.status == 409
            await check_unchanged(world, path)
        for path, form in forms.items():
            await viewer.act(path, form | await read_form(viewer, path))
    assert (await world.client.get(LOCAL_QUEUE, "team", "default")).spec.stop_policy == "Hold", (
        "the present one changes"
    )


@virtual
async def test_a_queue_or_node_that_is_replaced_after_the_check_is_left_alone(world: World) -> None:
    await flavor(world)
    await make_queues_and_node(world)
    replace = partial(make_queues_and_node, world)
    for path, form in QUEUE_AND_NODE_DEEDS.items():
        async with viewing(world, transport=lambda one: Replacing(one, replace)) as viewer:
            with pytest.raises(PageError, match="This is another one now"):
                await viewer.act(path, form)
        await check_unchanged(world, path)


@virtual
async def test_a_change_to_a_job_that_is_gone_leaves_a_cron_job_of_its_name_alone(world: World) -> None:
    await make_namesakes(world)
    async with viewing(world) as viewer:
        forms = [(path, await read_form(viewer, path)) for path in (f"{NIGHTLY}/cancel", f"{NIGHTLY}/hold")]
        await world.client.delete(JOB, "nightly", "default")
        await world.settle(60)
        for path, form in [*forms, (f"{NIGHTLY}/hold", {})]:
            with pytest.raises(PageError) as caught:
                await viewer.act(path, form)
            assert caught.value.text == "There is no job nightly in namespace default any more. Nothing was changed."
            assert caught.value.status == 404
        assert not (await world.client.get(CRON_JOB, "nightly", "default")).spec.suspend
        assert (await viewer.text("/jobs/default/by-hand")).startswith("Jobs / default by-hand Starting")


@virtual
async def test_a_change_to_what_is_left_of_a_job_leaves_a_cron_job_of_its_name_alone(world: World) -> None:
    await make_namesakes(world)
    async with viewing(world) as viewer:
        form = await read_form(viewer, f"{NIGHTLY}/cancel")
        [own] = [
            one
            for one in (await world.client.list(WORKLOAD, "default")).items
            if form["uid"] in [owner.uid for owner in one.metadata.owner_references]
        ]
        finalizers = {"finalizers": [*own.metadata.finalizers, "example.com/keep"]}
        await world.client.patch(WORKLOAD, own.metadata.name, {"metadata": finalizers}, "default")
        await world.client.delete(JOB, "nightly", "default")
        await world.settle(60)
        with pytest.raises(ApiError, match="there is no job nightly in namespace default"):
            await viewer.act(f"{NIGHTLY}/cancel", form)
        assert not (await world.client.get(CRON_JOB, "nightly", "default")).spec.suspend


NIGHTLY = "/jobs/default/nightly"


async def make_namesakes(world: World) -> None:
    """Make a job and a CronJob of one name, and a job of the CronJob."""
    await begin(world, gang("nightly"))
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await make_by_hand(world, "nightly", "by-hand")
    await world.settle(5)


async def read_form(viewer: Viewing, path: str) -> dict[str, str]:
    """Return what the form of a page sends beside what the viewer writes."""
    [uid] = re.findall('name="uid" value="([^"]+)"', await viewer.page(path))
    return {"uid": uid}


@virtual
async def test_a_list_has_the_beginning_of_a_very_long_reason(world: World) -> None:
    await begin(world, gang("train"))
    failure = {"type": "FailureTarget", "status": "True", "reason": "Test", "message": "x " * 3000}
    await world.client.patch(JOB, "train", {"status": {"conditions": [failure]}}, "default", subresource="status")
    for pod in await world.pods():
        await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await world.settle(5)
    async with viewing(world) as viewer:
        reason = re.findall("(?:x )+x?…", await viewer.text("/jobs"))
        assert [len(one) for one in reason] == [400]


@virtual
async def test_a_group_is_cancelled_by_the_form_of_its_page(world: World) -> None:
    await begin(world)
    await make_crew(world, pods=1)
    await world.settle(10)
    async with viewing(world) as viewer:
        path = "/jobs/default/crew/cancel"
        assert await viewer.act(path, await read_form(viewer, path)) == "crew deleted, with its pods"


@virtual
async def test_groups_that_queue_as_no_job_are_listed_with_what_they_wait_for(world: World) -> None:
    await begin(world)
    await make_crew(world)
    await world.settle(3)
    async with viewing(world) as viewer:
        text = await viewer.text("/podgroups")
        assert "crew default Waiting 3 1 0 0 kueue.x-k8s.io/pod-group-name" in text
        assert "its pod group queues once it has 3 pods, and it has 1" in text
        assert "drums default Empty 2 0 0 0 scheduling.x-k8s.io/v1alpha1" in text
        assert text.index("crew default") < text.index("drums default"), "by name, whatever they are"
        assert "drums" not in await viewer.text("/podgroups?state=Waiting")
        one = await viewer.text("/jobs/default/crew")
        assert "Pod group kueue.x-k8s.io/pod-group-name Waiting" in one
        assert "Its pod group queues once it has 3 pods, and it has 1. 1 pod: 0 bound" in one
        assert "crew-0" in one


@virtual
async def test_a_group_that_queues_is_a_job(world: World) -> None:
    await begin(world, gang("train"))
    metadata = {
        "name": "duo-0",
        "labels": {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/pod-group-name": "duo"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "1"},
    }
    await world.client.create(POD.seen_as(dict), {"metadata": metadata, "spec": TEMPLATE["spec"]}, "default")
    await world.settle(10)
    async with viewing(world) as viewer:
        assert "duo" in await viewer.text("/jobs")
        assert "There are no such groups." in await viewer.text("/podgroups")


@virtual
async def test_a_viewer_of_one_namespace_sees_its_lists(world: World) -> None:
    await allow(world, "", "batch", "scheduling.x-k8s.io", "kueue.x-k8s.io")
    await begin(world)
    await make_crew(world)
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await world.settle(3)
    async with viewing(world, EVE) as viewer:
        text = await viewer.text("/podgroups")
        assert f"Groups {HERE}." in text
        assert "crew" in text
        text = await viewer.text("/cronjobs")
        assert f"CronJobs {HERE}." in text
        assert "nightly" in text
    async with viewing(world, User("mallory", frozenset({AUTHENTICATED}))) as viewer:
        for path in ("/cronjobs", "/podgroups"):
            with pytest.raises(PageError, match="You may not see these jobs"):
                await viewer.page(path)
