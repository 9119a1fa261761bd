"""The lists beside that of jobs: CronJobs, and groups of pods that queue as no job."""

import re
from typing import Any

import pytest
from tests.system.dashboard.test_job import begin, gang
from tests.system.dashboard.test_rights import EVE, HERE, allow
from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual

from muster.actions.submission.submitting import submit
from muster.api.batch import CRON_JOB, JOB
from muster.api.core import POD
from muster.api.podgroups.coscheduling import POD_GROUP
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.dashboard.visits import PageError

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


async def make_cron_job(world: World, name: str, **spec: Any) -> None:
    document = {
        "metadata": {"name": name, "labels": {"team": "vision"}},
        "spec": {"timeZone": "UTC", "jobTemplate": {"spec": {"template": TEMPLATE}}, **spec},
    }
    await world.client.create(CRON_JOB.seen_as(dict), document, "default")


async def make_crew(world: World) -> None:
    """Make one of the three pods of a pod group, and a PodGroup without pods."""
    metadata = {
        "name": "crew-0",
        "labels": {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/pod-group-name": "crew"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
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
        assert "It starts no jobs until somebody releases it. 1 job goes on: " + running in asked
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
        assert (await viewer.act(f"{page}/cancel")).startswith("hourly cancelled: it starts no more jobs")
        for pod in await world.pods():
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
        await world.settle(5)
        assert f"{running} Cancelled" in await viewer.text(f"/jobs/default/{running}")
        assert f'href="/ui{page}/cancel"' not in await viewer.page(page)
        assert "It starts a job at once, for the start that it missed " in await viewer.text(f"{page}/release")
        assert await viewer.act(f"{page}/release") == "hourly released: it starts jobs again"


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
async def test_a_change_is_not_made_to_another_object_of_the_same_name(world: World) -> None:
    await begin(world, gang("train"))
    await make_cron_job(world, "nightly", schedule="0 3 * * *")
    await world.settle(5)
    async with viewing(world) as viewer:
        forms = {}
        for path in ("/jobs/default/train/cancel", "/cronjobs/default/nightly/hold"):
            [uid] = re.findall('name="uid" value="([^"]+)"', await viewer.page(path))
            forms[path] = {"uid": uid}
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
