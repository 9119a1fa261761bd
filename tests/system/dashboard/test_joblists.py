"""The lists beside that of jobs: CronJobs, and groups of pods that queue as no job."""

from typing import Any

import pytest
from tests.system.dashboard.test_job import begin, gang
from tests.system.dashboard.test_rights import EVE, HERE, allow
from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual

from muster.api.batch import CRON_JOB
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
        one = await viewer.text("/jobs/default/nightly")
        assert "This CronJob starts jobs at given times. Schedule 0 3 * * * UTC Next start in " in one
        assert "Last start none yet" in one
        assert "muster hold nightly -n default" in one
        assert "muster release held -n default" in await viewer.text("/jobs/default/held")


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
