"""The pages about queues, against the whole engine in virtual time."""

import re
from typing import Any

import pytest
from tests.system.dashboard.test_job import gang
from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, under, virtual
from tests.system.queueing.queueing_world import cohort, finish, flavor, local_queue, queue, workload

from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.api.core import NAMESPACE
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from muster.dashboard.visits import PageError
from muster.runtime.transport import Request, Response, Transport

HOSTILE = '<img src=x onerror="alert(1)">'


async def lab(world: World) -> None:
    """Two queues of a cohort, one of which borrows, and what waits in it."""
    await flavor(world)
    await cohort(world, "lab")
    await queue(world, "vision", 4, cohortName="lab", fairSharing={"weight": 2})
    await queue(world, "speech", 4, cohortName="lab")
    await workload(world, "first", "vision", 6)
    await world.settle(1)
    await workload(world, "second", "vision", 2, priority=5, maximumExecutionTimeSeconds=60)
    await world.settle(1)
    await workload(world, "third", "vision", 8)
    await workload(world, "fourth", "speech", 3)
    await world.settle(2)


@virtual
async def test_the_tree_shows_quotas_with_what_is_borrowed_and_lent(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        text = await viewer.text("/queues")
        assert "Cohort lab 1 0 % cpu: 8 of 8 used 8/8" in text
        assert "speech in Cohort lab Active 1 0 1 0 % cpu: 0 of 4 used, 4 lent 0/4 (4 lent) default/speech" in text
        assert "vision in Cohort lab Active 1 2 2 25 % cpu: 8 of 4 used, 4 borrowed 8/4 (4 borrowed)" in text
        assert "speech" not in await viewer.text("/queues?text=vis")
        assert "Cohort lab" in await viewer.text("/queues?text=vis")
        assert "No queue has this in its name" in await viewer.text("/queues?text=nothing")
        local = await viewer.text("/queues?show=local")
        assert "speech default speech Active 1 0" in local


@virtual
async def test_a_queue_without_quota_of_its_own_has_words_for_a_bar(world: World) -> None:
    await lab(world)
    await queue(world, "guests", 0, cohortName="lab")
    await world.settle(1)
    async with viewing(world) as viewer:
        for path in ("/queues", "/queues/cluster/guests", "/"):
            text = await viewer.text(path)
            assert "none of its own" in text, path
            assert "0/0" not in text, path


@virtual
async def test_a_queue_lists_what_waits_in_order_with_reason_and_forecast(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        text = await viewer.text("/queues/cluster/vision")
        waits, _, runs = text.partition("Waits, in order")[2].partition("Runs Job")
        assert "1 third default 0 vision" in waits
        assert "insufficient unused quota for cpu in flavor default, 8 more needed" in waits
        assert "cannot say: nothing says when first ends" in waits
        assert "second default Starting 5 vision kubernetes-admin 2 cpu" in runs
        assert "first default Starting 0 vision kubernetes-admin 6 cpu" in runs
        assert "Cohort lab" in text
        assert "Weight 2" in text
        speech = await viewer.text("/queues/default/speech")
        assert "1 fourth 0" in speech
        assert "The position counts all jobs that wait for the ClusterQueue" in speech


@virtual
async def test_a_page_follows_what_happens(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        assert "Nothing runs." in await viewer.text("/queues/cluster/speech")
        await finish(world, "first")
        await world.settle(12)  # a forecast is good for ten seconds
        assert "fourth default Starting 0 speech kubernetes-admin 3 cpu" in await viewer.text("/queues/cluster/speech")


@virtual
async def test_use_over_time_is_drawn_with_the_quota(world: World) -> None:
    await lab(world)
    await world.elapse(1800)
    async with viewing(world) as viewer:
        page = await viewer.page("/queues/cluster/vision?span=hour")
        assert 'class="a0"' in page
        assert 'class="llimit"' in page
        assert "Use of cpu in the last hour, by user" in page
        nonsense = await viewer.page("/queues/cluster/vision?span=century&resource=love")
        assert "Use of cpu in the last day" in nonsense


def test_a_chart_of_use_says_when_it_leaves_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.dashboard.pages.queues.one._MOST_RUNS", 2)

    @virtual
    async def scenario(world: World) -> None:
        await world.node("n")
        await flavor(world)
        await queue(world, "vision", 4)
        for name in ("oldest", "older"):
            await run_to_its_end(world, name)
        async with viewing(world) as viewer:
            text = await viewer.text("/queues/cluster/vision")
        assert "By user, from what ran and what runs." in text
        assert "Only the newest runs are counted." not in text
        await run_to_its_end(world, "newest")
        async with viewing(world) as viewer:
            text = await viewer.text("/queues/cluster/vision")
        assert "By user, from what ran and what runs. Only the newest runs are counted." in text

    scenario()


async def run_to_its_end(world: World, name: str) -> None:
    """Run a job of one worker for ten minutes."""
    await submit(world.client, gang(name, queue="vision"), pytest.fail)
    await world.settle(1)
    for phase, seconds in (("Running", 600), ("Succeeded", 5)):
        for pod in await world.pods(name):
            await world.finish(pod, phase)
        await world.elapse(seconds)


@virtual
async def test_a_queue_that_is_not_there_says_so(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        with pytest.raises(PageError, match="There is no ClusterQueue nothing"):
            await viewer.page("/queues/cluster/nothing")
        with pytest.raises(PageError, match="There is no LocalQueue nothing in namespace default"):
            await viewer.page("/queues/default/nothing")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/queues/cluster/ ", "No queue can have the name ' '."),
        ("/queues/cluster/\0", "No queue can have the name '\\x00'."),
        ("/queues/default/<img src=x>", "No queue can have the name '<img src=x>'."),
        ("/queues/../x", "No namespace can have the name '..'."),
        (f"/queues/default/{'a' * 3000}", f"No queue can have the name '{'a' * 80}…'."),
        ("/queues/cluster/\N{RIGHT-TO-LEFT OVERRIDE}/stop", "No queue can have the name '\\u202e'."),
        ("/nodes/ ", "No node can have the name ' '."),
    ],
)
def test_a_name_that_nothing_can_have_is_shown_as_what_it_is(address: str, sentence: str) -> None:
    @virtual
    async def play(world: World) -> None:
        await world.node("n1")
        async with viewing(world) as viewer:
            with pytest.raises(PageError) as refusal:
                await viewer.page(address)
            assert refusal.value.text == sentence

    play()


@virtual
async def test_a_namespace_may_be_called_cluster(world: World) -> None:
    await lab(world)
    await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "cluster"}})
    document = {"metadata": {"name": "own"}, "spec": {"clusterQueue": "vision"}}
    await world.client.create(LOCAL_QUEUE.seen_as(dict), document, "cluster")
    async with viewing(world) as viewer:
        assert "LocalQueue own" in await viewer.text("/queues/cluster/own")


@virtual
async def test_a_local_queue_that_leads_nowhere_says_so(world: World) -> None:
    await flavor(world)
    await local_queue(world, "lost", "gone")
    await workload(world, "w", "lost")
    await world.settle(2)
    async with viewing(world) as viewer:
        text = await viewer.text("/queues/default/lost")
        assert "gone does not exist, or you may not see it" in text
        assert "Can't submit new workloads to clusterQueue" in text


@virtual
async def test_hostile_names_stay_text(world: World) -> None:
    await lab(world)
    change = {"metadata": {"annotations": {"muster.dev/submitted-by": HOSTILE}}}
    for name in ("first", "third"):
        await world.client.patch(WORKLOAD, name, change, "default")
    await world.settle(1)
    async with viewing(world) as viewer:
        for address in ("/queues/cluster/vision", f"/queues?text={HOSTILE}", "/queues/default/vision?span=hour"):
            assert "<img" not in await viewer.page(address)


@virtual
async def test_a_job_has_one_state_and_one_reason_on_all_pages(world: World) -> None:
    await world.node("n", cpu="1")
    await flavor(world)
    await queue(world, "roomy", 8)
    for name, workers in (("placed", 1), ("waits-for-nodes", 2), ("huge", 900)):
        job = Gang(name, ["x"], workers=workers, cpus="1", queue="roomy", plain=True)
        await submit(world.client, job, lambda _: None)
        await world.settle(10)
    async with viewing(world) as viewer:
        jobs = await viewer.text("/jobs?order=name")
        page = await viewer.text("/queues/cluster/roomy")
        assert "waits-for-nodes default Pending 0/2 roomy" in jobs
        assert "waits-for-nodes default Pending 0 roomy" in page
        assert "huge default Queued 0/900" in jobs
        reason = re.findall(r"can never start: [a-z ]+", jobs)[0]
        assert reason in page
        assert "not as things are" in page, "no forecast says otherwise"


class Noting:
    """A transport that notes the questions about what waits."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self.asked = inner, list[str]()

    async def request(self, request: Request) -> Response:
        if "pendingworkloads" in request.path:
            self.asked.append(request.path)
        return await self._inner.request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@virtual
async def test_a_queue_asks_once_for_its_own_order_and_for_no_other(world: World) -> None:
    await lab(world)
    async with viewing(world, transport=Noting) as viewer:
        await viewer.page("/queues/cluster/vision")
        noting = viewer.copy.transport
        assert isinstance(noting, Noting)
        assert [path.rpartition("v1beta2/")[2] for path in noting.asked] == ["clusterqueues/vision/pendingworkloads"]


@virtual
async def test_a_queue_is_stopped_and_started_again(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        asks = await viewer.text("/queues/cluster/vision/stop")
        assert "Stop ClusterQueue vision?" in asks
        assert "2 jobs run from it now" in asks
        said = await viewer.act("/queues/cluster/vision/stop", {"running": "continue"})
        assert said.startswith("clusterqueue/vision stopped: its waiting jobs do not start")
        assert await viewer.find_next("/queues/cluster/vision/stop") == "/ui/queues/cluster/vision"
        await world.settle(1)
        assert "Start again" in await viewer.text("/queues/cluster/vision")
        assert "may start, as its quota allows" in await viewer.text("/queues/cluster/vision/resume")
        assert await viewer.act("/queues/cluster/vision/resume") == "clusterqueue/vision resumed"
        await viewer.act("/queues/default/speech/stop", {"running": "stop, and wait in the queue again"})
        assert (await world.client.get(LOCAL_QUEUE, "speech", "default")).spec.stop_policy == "HoldAndDrain"
        with pytest.raises(PageError, match="There is no LocalQueue gone"):
            await viewer.act("/queues/default/gone/stop")


@virtual
async def test_a_quota_is_edited(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        page = await viewer.page("/queues/cluster/vision/quota")
        assert 'name="default|cpu" value="4"' in page
        assert "8 in use" in page
        said = await viewer.act("/queues/cluster/vision/quota", {"default|cpu": " 2500m "})
        assert said == "The quota of ClusterQueue vision has changed"
        [group] = (await world.client.get(CLUSTER_QUEUE, "vision")).spec.resource_groups
        assert str(group.flavors[0].resources[0].nominal_quota) == "2500m"
        same = await viewer.act("/queues/cluster/vision/quota", {"default|cpu": "2500m"})
        assert same == "The quota of ClusterQueue vision is unchanged"


@pytest.mark.parametrize(
    ("quota", "sentence"),
    [
        ("many", "'many' is no quantity; write it as 8 or 500m."),
        ("-1", "-1 is below 0."),
        ("9" * 40, f"{'9' * 40} cpu is more than Kubernetes counts, which is 9223372036854775."),
        ("1e30", "1e30 cpu is more than Kubernetes counts, which is 9223372036854775."),
        ("9223372036854776", "9223372036854776 cpu is more than Kubernetes counts, which is 9223372036854775."),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(quota: str, sentence: str) -> None:
    @virtual
    async def scenario(world: World) -> None:
        await lab(world)
        async with viewing(world) as viewer:
            with pytest.raises(PageError) as refusal:
                await viewer.act("/queues/cluster/vision/quota", {"default|cpu": quota})
            assert refusal.value.text == sentence
        [group] = (await world.client.get(CLUSTER_QUEUE, "vision")).spec.resource_groups
        assert str(group.flavors[0].resources[0].nominal_quota) == "4"

    scenario()


@under("muster: {fairSharingOnDemand: false}")
async def test_without_fair_sharing_there_are_no_shares(world: World) -> None:
    await lab(world)
    async with viewing(world) as viewer:
        text = await viewer.text("/queues")
        assert "Share" not in text
        assert "vision in Cohort lab Active 1 2 2 cpu: 8 of 4 used" in text


@virtual
async def test_without_queues_a_command_makes_the_first(world: World) -> None:
    async with viewing(world) as viewer:
        assert "There are no queues. The first one: muster queue create" in await viewer.text("/queues")
