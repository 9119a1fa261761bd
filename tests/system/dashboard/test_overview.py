"""The overview, against the whole engine in virtual time."""

from tests.system.dashboard.viewing import viewing
from tests.system.plane import World, virtual
from tests.system.queueing.queueing_world import flavor, local_queue, queue

from muster.api.core import NODE

QUEUED = {"kueue.x-k8s.io/queue-name": "vision"}


async def submit(world: World, name: str, workers: int, queue: str) -> None:
    """Create a Job of so many workers of one CPU in a queue."""
    from muster.api.batch import JOB

    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
    document = {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "parallelism": workers,
            "completions": workers,
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    await world.client.create(JOB.seen_as(dict), document, "default")


@virtual
async def test_it_says_what_runs_what_waits_and_what_needs_attention(world: World) -> None:
    await world.node("n1", cpu="4")
    await world.node("n2", cpu="4")
    await flavor(world)
    await flavor(world, "spot", nodeLabels={"cloud": "spot"})
    await queue(world, "vision", 4)
    await queue(world, "cheap", 4, flavor="spot")
    await local_queue(world, "lost", "gone")
    await submit(world, "runs", 3, "vision")
    await world.settle(5)
    await submit(world, "waits", 3, "vision")
    await submit(world, "astray", 1, "nowhere")
    await world.settle(60)
    async with viewing(world) as viewer:
        text = await viewer.text("/")
        assert "Jobs that run 1" in text
        assert "Jobs that wait 2 the longest for 60s" in text
        assert "Nodes ready 2 of 2" in text
        page = await viewer.page("/")
        for group, names in {"waits": {"waits", "astray"}, "runs": {"runs"}}.items():
            assert f'href="/ui/jobs?state={group}"' in page
            listed = await viewer.page(f"/jobs?state={group}")
            assert {name for name in ("waits", "astray", "runs") if f'/jobs/default/{name}"' in listed} == names
        assert "CPUs requested 38% 3 of 8" in text
        assert "ResourceFlavor spot is for nodes with cloud=spot, and no node has these labels" in text
        assert "LocalQueue lost of namespace default names ClusterQueue gone, which does not exist" in text
        assert "Job default/astray is for queue nowhere" in text
        assert "vision Active 1 1 cpu: 3 of 4 used 3/4" in text
        waits, _, runs = text.partition("Waits longest")[2].partition("Started last")
        assert "waits default Queued 60s insufficient unused quota for cpu in flavor default, 2 more needed" in waits
        assert "runs default" in runs
        await world.client.patch(NODE, "n2", {"spec": {"unschedulable": True}})
        await world.settle(1)
        assert "1 of 2 nodes cordoned, so no new pods start there: n2" in await viewer.text("/")


@virtual
async def test_links_of_troubles_lead_to_their_pages(world: World) -> None:
    await flavor(world)
    await queue(world, "vision", 4, stopPolicy="Hold")
    await local_queue(world, "lost", "gone")
    await world.node("n1", unschedulable=True)
    await world.settle(2)
    async with viewing(world) as viewer:
        page = await viewer.page("/")
        for address in ("/ui/queues/cluster/vision", "/ui/queues/default/lost", "/ui/nodes"):
            assert f'<a href="{address}">' in page


@virtual
async def test_an_empty_cluster_says_how_to_begin(world: World) -> None:
    async with viewing(world) as viewer:
        text = await viewer.text("/")
        assert "There are no queues yet. The first one: muster queue create" in text
        assert "Nothing waits. Started last Nothing runs." in text
