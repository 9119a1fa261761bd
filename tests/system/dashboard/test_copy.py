"""The live copy of what one viewer may see."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual

from muster.api.batch import JOB
from muster.api.core import POD
from muster.dashboard.viewing.copy import IDLE_SECONDS
from muster.dashboard.viewing.lists import ListKey
from muster.insight.forecasts.forecast import Snapshot
from muster.insight.reader.forecasts.waiting import snapshot_of
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.views import JOB_LINES, POD_LINES, make_sharer
from muster.runtime.transport import Request, Response, Transport


class Counting:
    """A transport that notes the selectors of the lists and watches of pods and jobs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.selectors: list[str] = []

    async def request(self, request: Request) -> Response:
        """Return what the server answers."""
        self._note(request)
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the server."""
        self._note(request)
        return self._transport.stream(request)

    def _note(self, request: Request) -> None:
        if request.path.endswith(("/pods", "/jobs")):
            self.selectors.append(request.query.get("labelSelector", ""))


@virtual
async def test_a_list_with_labels_is_answered_from_the_whole_list(world: World) -> None:
    await world.node("n1")
    await world.job("train", 2)
    await world.job("other", 1)
    await world.settle(3)
    async with viewing(world, transport=Counting) as viewer:
        counting = viewer.copy.transport
        assert isinstance(counting, Counting)
        mine = await viewer.copy.list(POD, labels="batch.kubernetes.io/job-name=other")
        assert len(mine.items) == 1
        assert set(counting.selectors) == {"batch.kubernetes.io/job-name=other"}
        assert len((await viewer.copy.list(POD)).items) == 3
        counting.selectors.clear()
        train = await viewer.copy.list(POD, labels="batch.kubernetes.io/job-name=train")
        assert sorted(one.metadata.labels["batch.kubernetes.io/job-name"] for one in train.items) == ["train"] * 2
        assert counting.selectors == []


@virtual
async def test_a_list_of_a_namespace_is_answered_from_that_of_all(world: World) -> None:
    await world.node("n1")
    await world.job("train", 2)
    await world.settle(3)
    async with viewing(world, transport=Counting) as viewer:
        counting = viewer.copy.transport
        assert isinstance(counting, Counting)
        assert len((await viewer.copy.list(POD)).items) == 2
        counting.selectors.clear()
        assert len((await viewer.copy.list(POD, "default")).items) == 2
        assert (await viewer.copy.list(POD, "elsewhere")).items == []
        assert len((await viewer.copy.list(POD, "default", labels="batch.kubernetes.io/job-name=train")).items) == 2
        assert (await viewer.copy.list(POD, "elsewhere", labels="batch.kubernetes.io/job-name=train")).items == []
        assert counting.selectors == []


@virtual
async def test_smaller_views_are_answered_from_whole_objects(world: World) -> None:
    await world.job("train", 2)
    async with viewing(world, transport=Counting) as viewer:
        counting = viewer.copy.transport
        assert isinstance(counting, Counting)
        assert (await viewer.copy.list(JOB_LINES)).items[0].spec.template.spec.containers == ()
        assert (await viewer.copy.list(JOB)).items[0].spec.template.spec.containers != ()
        counting.selectors.clear()
        assert len((await viewer.copy.list(JOB_LINES)).items) == 1
        await world.settle(IDLE_SECONDS - 1)
        await viewer.copy.list(JOB_LINES)
        await world.settle(2)
        assert await viewer.copy.drop_idle()
        assert len((await viewer.copy.list(JOB_LINES)).items) == 1
        assert counting.selectors == []


@virtual
async def test_what_was_decided_is_forgotten_once_no_page_asks_for_it(world: World) -> None:
    async with viewing(world) as viewer:
        kept, dropped = viewer.copy.memo("default"), viewer.copy.memo("elsewhere")
        await world.settle(IDLE_SECONDS - 1)
        assert viewer.copy.memo("default") is kept
        await world.settle(2)
        await viewer.copy.drop_idle()
        assert viewer.copy.memo("default") is kept
        assert viewer.copy.memo("elsewhere") is not dropped


@virtual
async def test_forecasts_share_what_they_read_until_something_changes(world: World) -> None:
    await world.job("train", 2)
    async with viewing(world) as viewer:

        async def read() -> Snapshot:
            lists = Lists(viewer.copy)
            snapshot = await snapshot_of(lists, await lists.completion(), viewer.copy.memo(""))
            assert snapshot is not None
            return snapshot

        first = await read()
        assert await read() is first
        await world.job("limited", 1, activeDeadlineSeconds=60)
        await world.settle(1)
        assert [limit.seconds for limit in (await read()).deadlines.values()] == [60]


@virtual
async def test_a_list_is_followed_no_longer_once_a_wider_one_serves_it(world: World) -> None:
    await world.node("n1")
    await world.job("train", 2)
    await world.settle(3)
    async with viewing(world) as viewer:
        for _ in range(2):
            assert len((await viewer.copy.list(JOB_LINES)).items) == 1
        assert len((await viewer.copy.list(JOB)).items) == 1
        assert [key.kind for key in viewer.copy._followed] == [JOB]
        await world.job("other", 1)
        await world.settle(3)
        assert len((await viewer.copy.list(JOB_LINES)).items) == 2


@virtual
async def test_a_list_that_comes_after_a_wider_one_is_not_followed(world: World) -> None:
    await world.job("train", 2)
    async with viewing(world) as viewer:
        await viewer.copy.list(JOB)
        narrow = viewer.copy._follow(ListKey(JOB, "default", ""))  # as if asked for before the wider one was here
        await narrow.settled.wait()
        await world.settle(1)
        assert [key.namespace for key in viewer.copy._followed] == [""]
        assert len((await viewer.copy.list(JOB, "default")).items) == 1


@virtual
async def test_a_list_that_shares_equal_parts_is_answered_from_the_watch(world: World) -> None:
    await world.node("n1")
    await world.job("train", 2)
    await world.settle(3)
    async with viewing(world, transport=Counting) as viewer:
        counting = viewer.copy.transport
        assert isinstance(counting, Counting)
        await viewer.copy.list(POD_LINES, "default", transform=make_sharer(POD_LINES))
        counting.selectors.clear()
        assert len((await viewer.copy.list(POD_LINES, "default", transform=make_sharer(POD_LINES))).items) == 2
        assert counting.selectors == []
