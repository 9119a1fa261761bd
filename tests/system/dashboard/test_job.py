"""The page of one job, the list of jobs and what is done to a job, against the whole engine in virtual time."""

import re
from typing import Any

import msgspec
import pytest
from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual

from muster.actions.jobs.cancelling import cancel
from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.actions.submission.sweep import Sweep
from muster.api.batch import JOB
from muster.api.core import NODE, POD
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD, WORKLOAD_PRIORITY_CLASS, WorkloadPriorityClass
from muster.api.ours.elastic import Bounds
from muster.api.ours.trials import Array
from muster.api.server.rbac import ROLE, ROLE_BINDING
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import User
from muster.cluster.defaultqueue import create_default_queue
from muster.dashboard.visits import PageError
from muster.insight.forecasts import forecast
from muster.insight.reader.forecasts.room import survey_room
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.listing.lists import Lists
from muster.insight.why import JobReadings
from muster.runtime.transport import Request, Response, Transport

HOSTILE = '<img src=x onerror="alert(1)">'


async def begin(world: World, *gangs: Gang) -> None:
    """Submit gangs to a cluster with one node of four CPUs, one after the other."""
    await world.node("n", cpu="4")
    await create_default_queue(world.client, (await world.client.list(NODE)).items)
    for gang in gangs:
        await submit(world.client, gang, pytest.fail)
        await world.settle(10)


def gang(name: str, workers: int = 1, cpus: str = "1", **about: Any) -> Gang:
    return Gang(name, ["sh", "-c", "x"], workers=workers, cpus=cpus, plain=True, **about)


async def run_pods(world: World, phase: str = "Running") -> None:
    for pod in await world.pods():
        await world.finish(pod, phase)
    await world.settle(5)


@virtual
async def test_a_job_that_runs_shows_its_levels_its_workers_and_the_commands(world: World) -> None:
    await begin(world, gang("train", 2))
    await run_pods(world)
    async with viewing(world) as viewer:
        text = await viewer.text("/jobs/default/train")
        assert "train Running" in text
        assert "✓" not in text, "marks are in the style sheet, words in the page"
        assert "done quota admitted by ClusterQueue" in text
        assert "done placement 2 pods on 1 node" in text
        assert "Rank State Node" in text
        assert "muster cancel train -n default" in text
        page = await viewer.page("/jobs/default/train")
        assert '<a href="/ui/nodes/n">n</a>' in page
        assert "/ui/jobs/default/train/output?rank=1" in page


@virtual
async def test_a_job_that_waits_shows_what_is_missing_and_what_can_be_done(world: World) -> None:
    await begin(world, gang("first", 4), gang("second", 2))
    async with viewing(world) as viewer:
        text = await viewer.text("/jobs/default/second")
        assert "second Queued" in text
        assert "here quota waiting in queue default" in text
        assert "Position 1 of 1" in text
        assert "starts cannot say: " in text
        page = await viewer.page("/jobs/default/second")
        for name in ("hold", "cancel"):
            assert f'href="/ui/jobs/default/second/{name}"' in page
        assert 'href="/ui/jobs/default/second/release"' not in page


@virtual
async def test_what_is_missing_has_one_figure_also_after_others_have_started(world: World) -> None:
    await begin(world, gang("first", 1), gang("large", 4), gang("last", 3))
    async with viewing(world) as viewer:
        [workload] = [
            one for one in (await world.client.list(WORKLOAD, "default")).items if "large" in one.metadata.name
        ]
        [told] = [one.message for one in workload.status.conditions if one.type == "QuotaReserved"]
        assert told.endswith("1 more needed"), "the queue did not consider it again"
        text = await viewer.text("/jobs/default/large")
        assert "cpu muster-nodes 4 4 4 0 4" in text, "the columns of the table"
        assert "<th>Resource</th><th>Flavor</th><th>Asked</th>" in await viewer.page("/jobs/default/large")
        before_life = text.partition("Life")[0]
        assert before_life.count("4 more needed") == 2, "in the head and on the level"
        assert "1 more needed" not in before_life
        for page in ("/jobs", "/queues/cluster/muster-default", "/queues/default/default", "/"):
            text = await viewer.text(page)
            assert "flavor muster-nodes, 4 more needed" in text, page
            assert "1 more needed" not in text, page


@virtual
async def test_a_wait_counts_from_the_last_requeue(world: World) -> None:
    await begin(world, gang("second", 2))
    await run_pods(world)
    async with viewing(world) as viewer:
        await viewer.act("/jobs/default/second/hold")
        await world.settle(1)
        for pod in await world.pods("second"):
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
        await submit(world.client, gang("first", 4), pytest.fail)
        await world.settle(30)
        await run_pods(world)
        await world.settle(7200)
        held = await viewer.text("/jobs/default/second")
        assert "Waits for 120m" in held
        await viewer.act("/jobs/default/second/release")
        await world.settle(300)
        text = await viewer.text("/jobs/default/second")
        assert "Submitted 125m ago Waits for 5m " in text
        assert "position 1 of 1, for 5m" in text, "as muster why counts it"
        assert "second default Queued 5m" in await viewer.text("/")
        assert re.search("1 second default 0 default \\w* ?5m ", await viewer.text("/queues/cluster/muster-default"))


@virtual
async def test_a_forecast_is_made_anew_only_when_something_has_changed(world: World) -> None:
    await begin(world, gang("first", 2), gang("other", 2), gang("third", 4))
    async with viewing(world) as viewer:

        async def ask() -> JobReadings:
            memo, now = viewer.copy.memo("default"), world.clock.now()
            readings = await investigate(viewer.copy, "default", "third", now, memo)
            assert readings is not None
            return readings

        await ask()  # the lists are not all there before
        readings = await ask()
        assert sorted(one.name for one in readings.holders) == ["first", "other"]
        assert (await ask()).holders is readings.holders
        room = await survey_room(Lists(viewer.copy), "default", viewer.copy.memo("default"))
        assert await survey_room(Lists(viewer.copy), "default", viewer.copy.memo("default")) is room
        await world.client.delete(JOB, "other", "default")
        await world.settle(5)
        assert [one.name for one in (await ask()).holders] == ["first"]


@virtual
async def test_the_forecasts_of_a_large_cluster_follow_other_jobs_after_a_while(world: World) -> None:
    await begin(world, gang("first", 1), gang("other", 1), gang("last", 2), gang("third", 4), gang("fourth", 4))
    async with viewing(world) as viewer:

        async def list_holders(name: str) -> list[str]:
            memo = viewer.copy.memo("default")
            readings = await investigate(viewer.copy, "default", name, world.clock.now(), memo)
            assert readings is not None
            assert readings.estimate is not None
            return sorted(one.name for one in readings.holders)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecast, "WORKLOADS_A_SECOND", 0.1)  # five are as many as 12,500 of a large cluster
            await list_holders("third")  # the lists are not all there before
            await world.settle(60)
            assert await list_holders("third") == ["first", "last", "other"]
            await world.client.delete(JOB, "other", "default")
            await world.settle(5)
            assert await list_holders("third") == ["first", "last", "other"]
            assert await list_holders("fourth") == ["first", "last", "other"], "they share the forecasts"
            await world.settle(50)
            assert await list_holders("fourth") == ["first", "last"]
            await world.client.delete(JOB, "first", "default")
            await world.settle(5)
            assert await list_holders("fourth") == ["first", "last"]
            await world.client.patch(CLUSTER_QUEUE, "muster-default", {"spec": {"stopPolicy": "Hold"}})
            await world.settle(1)
            assert await list_holders("fourth") == ["last"], "the queue has changed"
            await world.settle(60)
            assert await list_holders("fourth") == ["last"]
            await world.client.delete(JOB, "last", "default")
            await world.settle(5)
            assert await list_holders("fourth") == ["last"]
            [workload] = [
                one.metadata.name
                for one in (await world.client.list(WORKLOAD)).items
                if one.metadata.owner_references[0].name == "fourth"
            ]
            await world.client.patch(WORKLOAD, workload, {"spec": {"priority": 7}}, "default")
            await world.settle(1)
            assert await list_holders("fourth") == [], "the job itself has changed"


@virtual
async def test_the_missing_quota_is_that_of_now_beside_kept_forecasts(world: World) -> None:
    await begin(world, gang("first", 1), gang("other", 1), gang("last", 2), gang("third", 4))
    async with viewing(world) as viewer:

        async def find_missing() -> tuple[str, list[int]]:
            memo = viewer.copy.memo("default")
            readings = await investigate(viewer.copy, "default", "third", world.clock.now(), memo)
            assert readings is not None
            return readings.state.reason, [one.missing for one in readings.needs if one.resource == "cpu"]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecast, "WORKLOADS_A_SECOND", 0.1)
            await find_missing()  # the lists are not all there before
            await world.settle(60)
            reason, missing = await find_missing()
            assert "4 more needed" in reason
            assert missing == [4000]
            await world.client.delete(JOB, "other", "default")
            await world.settle(20)
            reason, missing = await find_missing()
            assert "3 more needed" in reason
            assert missing == [3000]
            assert "3 more needed" in await viewer.text("/jobs")


@virtual
async def test_forecasts_of_a_huge_cluster_are_a_minute_old_at_most(world: World) -> None:
    await begin(world, gang("first", 2), gang("other", 2), gang("third", 4))
    async with viewing(world) as viewer:

        async def list_holders() -> list[str]:
            memo = viewer.copy.memo("default")
            readings = await investigate(viewer.copy, "default", "third", world.clock.now(), memo)
            assert readings is not None
            return sorted(one.name for one in readings.holders)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecast, "WORKLOADS_A_SECOND", 0.001)
            await list_holders()  # the lists are not all there before
            await world.settle(70)
            assert await list_holders() == ["first", "other"]
            await world.client.delete(JOB, "other", "default")
            await world.settle(30)
            assert await list_holders() == ["first", "other"]
            await world.settle(31)
            assert await list_holders() == ["first"]


@virtual
async def test_a_page_of_output_says_with_how_many_lines_it_begins(world: World) -> None:
    await begin(world, gang("one"), gang("two", 2))
    async with viewing(world) as viewer:
        text = await viewer.text("/jobs/default/one/output")
        assert "The page begins with the last 1,000 lines; the download has all." in text
        text = await viewer.text("/jobs/default/two/output")
        assert "The page begins with the last 500 lines of each worker; the download has all." in text
        assert "The page begins with" not in await viewer.text("/jobs/default/two/output?search=step"), "it shows all"


@virtual
async def test_a_page_changes_with_the_job(world: World) -> None:
    await begin(world, gang("train", 2))
    async with viewing(world) as viewer:
        await viewer.page("/jobs/default/train")
        revision = viewer.copy.revision
        await world.client.patch(JOB, "train", {"metadata": {"annotations": {"note": "new"}}}, "default")
        await world.settle(2)
        assert viewer.copy.revision > revision, "the job alone has changed"
        assert "note: new" in await viewer.page("/jobs/default/train")
        await run_pods(world, "Succeeded")
        await world.settle(10)
        assert "train Completed" in await viewer.text("/jobs/default/train")


@virtual
async def test_the_manifest_hides_the_values_of_variables(world: World) -> None:
    await begin(world, gang("train", environment={"API": "s3cr3t-value"}))
    async with viewing(world) as viewer:
        page = await viewer.page("/jobs/default/train")
        assert "name: API" in page
        assert "(hidden)" in page
        assert "s3cr3t-value" not in page


@virtual
async def test_what_strangers_wrote_is_text(world: World) -> None:
    await begin(world, gang("train"))
    patch = {"metadata": {"annotations": {"note": HOSTILE, "muster.dev/submitter": HOSTILE}}}
    await world.client.patch(JOB, "train", patch, "default")
    [pod] = await world.pods()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": HOSTILE}
    await world.client.patch(POD, pod.metadata.name, {"status": {"reason": HOSTILE, "message": HOSTILE,
        "phase": "Failed", "conditions": [condition]}}, "default", subresource="status")  # fmt: skip
    await world.settle(5)
    async with viewing(world) as viewer:
        page = await viewer.page("/jobs/default/train")
        assert "<img" not in page
        assert "&lt;img" in page
        assert "<img" not in await viewer.page("/jobs")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/jobs/default/trains", "There is no job trains in namespace default; did you mean train?"),
        ("/jobs/default/Bad_Name", "No job can have the name 'Bad_Name'."),
        ("/jobs/NS/train", "No namespace can have the name 'NS'."),
        ("/jobs/default/*", "No job can have the name '*'."),
        (f"/jobs/default/{'x' * 5000}", "No job can have the name"),
        ("/jobs/nowhere/train", "There is no job train in namespace nowhere."),
        ("/jobs/default/trains/output", "There is no job trains in namespace default; did you mean train?"),
        ("/jobs/default/train/output?rank=9", "train has no worker 9: its ranks are 0 to 0"),
        ("/jobs/default/train/output?rank=x", ""),
        ("/jobs/default/train/output?search=(", ""),
        ("/jobs/default/train/output?index=1", "train is no sweep"),
        ("/jobs/default/trains/cancel", "There is no job trains"),
        ("/jobs/default/train/release", "The state of train is"),
        ("/jobs/default/train/retry", "The state of train is"),
        ("/jobs?labels=a=b=c", "as team=vision"),
    ],
)
def test_a_wrong_address_is_explained(address: str, sentence: str) -> None:
    @virtual
    async def play(world: World) -> None:
        await begin(world, gang("train"))
        async with viewing(world) as viewer:
            with pytest.raises(PageError) as caught:
                await viewer.page(address)
            assert sentence in caught.value.text

    play()


@virtual
async def test_a_group_of_pods_has_a_page(world: World) -> None:
    await begin(world)
    labels = {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/pod-group-name": "crew"}
    for number in range(2):
        document = {
            "metadata": {
                "name": f"crew-{number}",
                "labels": labels,
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
            },
            "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        }
        await world.client.create(POD.seen_as(dict), document, "default")
    await world.settle(10)
    async with viewing(world) as viewer:
        text = await viewer.text("/jobs/default/crew")
        assert "quota admitted by ClusterQueue" in text
        assert "crew-0" in text
        assert "kind: Workload" in text
        await viewer.act("/jobs/default/crew/hold")
        await world.settle(10)
        [workload] = (await world.client.list(WORKLOAD, "default")).items
        assert not workload.spec.active


# Deeds.


@virtual
async def test_a_job_is_cancelled_after_saying_what_ends(world: World) -> None:
    await begin(world, gang("train", 2))
    await run_pods(world)
    async with viewing(world) as viewer:
        asked = await viewer.text("/jobs/default/train/cancel")
        assert "Cancel train?" in asked
        assert "Each of its 2 workers (on n) ends within 30s." in asked
        assert "gets its quota back: main: cpu 2" in asked
        assert "The record and the output of the job stay" in asked
        assert await viewer.act("/jobs/default/train/cancel") == "train cancelled"
        assert await viewer.find_next("/jobs/default/train/cancel") == "/ui/jobs/default/train"
        assert await viewer.act("/jobs/default/train/cancel") == "train has been cancelled already"
        hint = "(--delete removes what is known of it)"
        assert await cancel(world.client, "train", "default") == f"has been cancelled already {hint}"


@virtual
async def test_a_job_is_held_and_released_and_the_release_is_foreseen(world: World) -> None:
    await begin(world, gang("first", 4), gang("second", 2))
    async with viewing(world) as viewer:
        assert "None of its workers runs." in await viewer.text("/jobs/default/second/hold")
        assert "held" in await viewer.act("/jobs/default/second/hold")
        await world.settle(10)
        assert "second Held" in await viewer.text("/jobs/default/second")
        asked = await viewer.text("/jobs/default/second/release")
        assert "The job queues again. It would wait." in asked
        assert "missing" in asked
        for pod in await world.pods("first"):
            await world.finish(pod)
        await world.settle(30)
        assert "It would start now." in await viewer.text("/jobs/default/second/release")
        assert "released" in await viewer.act("/jobs/default/second/release")
        await world.settle(10)
        assert len(await world.pods("second")) == 2


@virtual
async def test_a_job_is_scaled_within_its_bounds(world: World) -> None:
    await begin(world, gang("train", 3, elastic=Bounds(1, 3)))
    async with viewing(world) as viewer:
        asked = await viewer.page("/jobs/default/train/scale")
        assert "the cluster may move it between 1 and 3" in asked
        assert 'name="workers" value="3" type="number"' in asked
        for said in ("", "-1", "1e3", "9999999", "x", "١"):
            with pytest.raises(PageError, match="This cannot be done"):
                await viewer.act("/jobs/default/train/scale", {"workers": said})
        with pytest.raises(PageError) as caught:
            await viewer.act("/jobs/default/train/scale", {"workers": "0"})
        assert caught.value.text.startswith("With 0 workers train is complete")
        assert "--force" not in caught.value.text
        with pytest.raises(PageError) as caught:
            await viewer.act("/jobs/default/train/scale", {"workers": "4"})
        assert caught.value.text == (
            "train is elastic (1:3): it has 1 to 3 workers, and 4 is more; if that is meant: muster scale train 4"
        )
        told = await viewer.act("/jobs/default/train/scale", {"workers": "2"})
        assert told.startswith("train scaled from 3 to 2")
        assert (await world.client.get(JOB, "train", "default")).spec.parallelism == 2


@virtual
async def test_the_priority_of_a_job_is_changed(world: World) -> None:
    await begin(world, gang("first", 4), gang("second", 2))
    async with viewing(world) as viewer:
        assert 'href="/ui/jobs/default/second/priority"' not in await viewer.page("/jobs/default/second")
        with pytest.raises(PageError, match="There is no priority to choose"):
            await viewer.page("/jobs/default/second/priority")
        for name, value in (("low", 1), ("high", 100)):
            made = msgspec.convert({"metadata": {"name": name}, "value": value}, WorkloadPriorityClass)
            await world.client.create(WORKLOAD_PRIORITY_CLASS, made)
        await world.settle(5)
        assert 'href="/ui/jobs/default/second/priority"' in await viewer.page("/jobs/default/second")
        asked = await viewer.text("/jobs/default/second/priority")
        assert "Its priority is 0 now. It waits at position 1 of 1" in asked
        assert "high is 100, low is 1" in asked
        with pytest.raises(PageError, match="This cannot be done"):
            await viewer.act("/jobs/default/second/priority", {"priority": "other"})
        told = await viewer.act("/jobs/default/second/priority", {"priority": "high"})
        assert told == "second: priority high (was none)"
        await world.settle(5)
        assert "Priority 100 (high)" in await viewer.text("/jobs/default/second")


@virtual
async def test_trials_of_a_sweep_are_retried_and_the_new_sweep_is_foreseen(world: World) -> None:
    await begin(world, gang("tune", sweep=Sweep(Array.parse("3-5"))))
    pods = await world.pods()
    for pod, phase in zip(pods, ("Succeeded", "Failed", "Succeeded"), strict=True):
        await world.finish(pod, phase)
    await world.settle(20)
    async with viewing(world) as viewer:
        text = await viewer.text("/jobs/default/tune")
        assert "Index Values State" in text
        assert "Failed" in await viewer.text("/jobs/default/tune?trials=Failed")
        asked = await viewer.text("/jobs/default/tune/retry")
        assert "A new sweep retries 1 of 3 trials" in asked
        assert "It would start now." in asked
        jobs = (await world.client.list(JOB, "default")).items
        assert len(jobs) == 1, "nothing is made by asking"
        form = {"name": "again"}
        told = await viewer.act("/jobs/default/tune/retry", form)
        assert told == "This is the new sweep again: it retries 1 of 3 trials of tune"
        assert await viewer.find_next("/jobs/default/tune/retry", form) == "/ui/jobs/default/again"
        assert "again" in await viewer.text("/jobs/default/again")
        with pytest.raises(PageError) as caught:
            await viewer.act("/jobs/default/tune/retry", form)
        assert "There is a job again already" in caught.value.text, "a form that is sent twice retries once"
        with pytest.raises(PageError) as caught:
            await viewer.act("/jobs/default/tune/retry", {"name": " "})
        assert caught.value.text == "The new sweep needs a name"


@virtual
async def test_single_trials_of_a_sweep_are_cancelled(world: World) -> None:
    await begin(world, gang("tune", sweep=Sweep(Array.parse("3-6"), at_once=2)))
    await run_pods(world)
    async with viewing(world) as viewer:
        page = await viewer.page("/jobs/default/tune")
        assert page.count(">Cancel</a>") == 1 + 4, "the job, and each trial"
        assert 'href="/ui/jobs/default/tune/cancel-trials?index=6" aria-label="Cancel trial 6"' in page
        asked = await viewer.page("/jobs/default/tune/cancel-trials?index=6")
        assert 'name="indexes" value="6"' in asked
        assert "The other trials continue." in asked
        told = await viewer.act("/jobs/default/tune/cancel-trials", {"indexes": "3,6"})
        assert told == "tune goes on without trials 3,6"
        await world.settle(5)
        assert "6 Cancelled" in await viewer.text("/jobs/default/tune")
        for said in ("", "9", "x", "3-"):
            with pytest.raises(PageError, match="This cannot be done"):
                await viewer.act("/jobs/default/tune/cancel-trials", {"indexes": said})


@virtual
async def test_the_growth_of_a_job_is_foreseen(world: World) -> None:
    await begin(world, gang("train", 2, elastic=Bounds(1, 6)))
    await run_pods(world)
    assert len(await world.pods()) == 4, "it has grown into the free room by itself"
    async with viewing(world) as viewer:
        asked = await viewer.text("/jobs/default/train/scale")
        assert "One more worker would wait. quota: " in asked
        assert "cpu of flavor muster-nodes: 1 missing" in asked
        assert "2 more workers would wait. quota: " in asked
        assert len((await world.client.list(JOB, "default")).items) == 1, "nothing is made by asking"


@virtual
async def test_a_job_without_elastic_workers_starts_again_with_its_new_size(world: World) -> None:
    await begin(world)
    labels = {"kueue.x-k8s.io/queue-name": "default"}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    document = {"metadata": {"name": "plain", "labels": labels}, "spec": {"parallelism": 2, "template": template}}
    await world.client.create(JOB.seen_as(dict), document, "default")
    await world.settle(10)
    async with viewing(world) as viewer:
        asked = await viewer.text("/jobs/default/plain/scale")
        assert "all its workers end, and it starts again" in asked
        before = {pod.metadata.uid for pod in await world.pods()}
        await viewer.act("/jobs/default/plain/scale", {"workers": "3"})
        await world.settle(10)
        kept = [pod for pod in await world.pods() if pod.metadata.deletion_timestamp is None]
        assert not before & {pod.metadata.uid for pod in kept}


@virtual
async def test_who_may_only_look_is_refused_with_the_servers_sentence(world: World) -> None:
    await begin(world, gang("train", 2, elastic=Bounds(1, 3)))
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await world.client.create(ROLE.seen_as(dict), {"metadata": {"name": "r"}, "rules": rules}, "default")
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "eve"}],
    }
    await world.client.create(ROLE_BINDING.seen_as(dict), binding, "default")
    async with viewing(world, User("eve")) as viewer:
        assert "train" in await viewer.text("/jobs/default/train")
        for name, form in (("cancel", {}), ("hold", {}), ("scale", {"workers": "2"})):
            with pytest.raises(ApiError, match="eve") as caught:
                await viewer.act(f"/jobs/default/train/{name}", form)
            assert caught.value.code == 403
        with pytest.raises(ApiError) as caught:
            await viewer.page("/jobs/kube-system/train")
        assert caught.value.code == 403


# The list.


@virtual
async def test_times_have_one_form_on_a_page(world: World) -> None:
    await begin(world, gang("train", 2))
    await run_pods(world)
    await world.settle(125)
    async with viewing(world) as viewer:
        page = await viewer.page("/jobs/default/train")
        title = r'title="[-0-9]{10} [:0-9]{8} UTC"'
        times = re.findall(rf'<time class="(?:age|offset)" datetime="[^"]*" {title}>([^<]*)<', page)
        assert len(times) == page.count("<time"), "every moment is an age, or a time after the beginning"
        assert all(re.fullmatch(r"(\d+[smhd])+", one) for one in times)
        assert not re.search(r">[^<]*\d\d:\d\d", page.partition("<details")[0]), "no time of day is in the text"


@virtual
async def test_all_columns_are_those_of_the_command(world: World) -> None:
    await begin(world, gang("train", 2))
    await run_pods(world)
    async with viewing(world) as viewer:
        assert "ClusterQueue" not in await viewer.text("/jobs")
        text = await viewer.text("/jobs?columns=all")
        assert "Age Reason Ran CPUs used Memory used Priority ClusterQueue Nodes" in text
        assert "0 muster-default n" in text


@virtual
async def test_jobs_are_filtered_by_labels_and_put_in_order(world: World) -> None:
    await begin(
        world,
        gang("b-small", 1, labels={"team": "vision"}),
        gang("a-large", 3, labels={"team": "speech"}),
        gang("c-waits", 2, labels={"team": "vision", "size": "2"}),
    )

    async with viewing(world) as viewer:

        async def names(query: str) -> list[str]:
            page = await viewer.page(f"/jobs?{query}")
            positions = {name: page.find(f'default/{name}"') for name in ("a-large", "b-small", "c-waits")}
            return [name[0] for name in sorted(positions, key=lambda one: positions[one]) if positions[name] >= 0]

        assert await names("") == ["c", "a", "b"]
        assert await names("order=oldest") == ["b", "a", "c"]
        assert await names("order=name") == ["a", "b", "c"]
        assert await names("order=most pods") == ["a", "c", "b"]
        assert (await names("order=position"))[0] == "c"
        assert (await names("order=state"))[0] == "c"
        assert await names("order=nonsense") == ["c", "a", "b"]
        assert await names("labels=team%3Dvision") == ["c", "b"]
        assert await names("labels=team%3Dvision,size") == ["c"]
        assert await names("labels=team!%3Dvision") == ["a"]
        assert await names("labels=team%3Dnone") == []


class Counting:
    """A transport that counts the questions about positions."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self.asked = inner, 0

    async def request(self, request: Request) -> Response:
        self.asked += "pendingworkloads" in request.path
        return await self._inner.request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@virtual
async def test_positions_are_asked_for_again_only_once_something_changed(world: World) -> None:
    await begin(world, gang("first", 4), gang("second", 2))
    counters: list[Counting] = []

    def count(inner: Any) -> Any:
        counters.append(Counting(inner))
        return counters[-1]

    async with viewing(world, transport=count) as viewer:
        [counter] = counters
        for _ in range(5):
            assert "second" in await viewer.text("/jobs")
        assert counter.asked == 1
        await submit(world.client, gang("third", 2), pytest.fail)
        await world.settle(5)
        before = counter.asked
        text = await viewer.text("/jobs")
        assert counter.asked == before + 1
        assert "third default Queued 0/2 default 2" in text
