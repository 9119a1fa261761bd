"""A node that is killed after any of its writes: what it says of a pod later never takes back what was said before.

The server refuses that ("may not be transitioned to non-terminated state"), and a node that keeps on trying to say it
never says anything else. So each test fails if one of the node's writes was refused.
"""

import asyncio
import logging
from functools import partial

import pytest
from tests.system.nodes import node_world
from tests.system.nodes.node_world import LIMIT, main, shell

from muster.api.core import POD
from muster.api.pods import is_finished
from muster.runtime.transport import TransportError

pytestmark = pytest.mark.slow


@pytest.fixture
def play(tmp_path):
    return partial(node_world.play, tmp_path)


@pytest.fixture
def refused(caplog):
    """What the server said to the node's writes that it refused."""
    caplog.set_level(logging.WARNING)
    words = ("non-terminated", "may specify no more")
    return lambda: [r.getMessage() for r in caplog.records if any(each in r.getMessage() for each in words)]


# Pods of one owner find each other by name.
OWNED = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}]}

STORIES = {
    "ends well": ({"restartPolicy": "Never", **shell("true")}, "Succeeded"),
    "fails": ({"restartPolicy": "Never", **shell("exit 3")}, "Failed"),
    "fails, then ends well": (
        {"restartPolicy": "OnFailure", **shell("[ -e $STATE/once ] || { touch $STATE/once; exit 1; }")},
        "Succeeded",
    ),
    "one of two goes on": (
        {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "none", **shell("exit 0")},
                {"name": "other", "image": "none", **shell("sleep 0.5")},
            ],
        },
        "Succeeded",
    ),
    "after an init container": (
        {
            "restartPolicy": "OnFailure",
            "initContainers": [{"name": "init", "image": "none", **shell("true")}],
            **shell("sleep 0.2"),
        },
        "Succeeded",
    ),
    "cannot be given so much": (
        {"restartPolicy": "Never", "env": [{"name": "LONG", "value": "x" * 200_000}]},
        "Failed",
    ),
}


@pytest.mark.parametrize(
    ("name", "writes", "count"),
    [
        *((name, writes, 1) for name in STORIES for writes in range(6)),
        *(("one of two goes on", writes, 3) for writes in range(6)),
    ],
)
def test_killed_after_any_of_its_writes(play, tmp_path, monkeypatch, refused, name, writes, count):
    """count: of the nodes; with several, others have pods that know this one by name."""
    spec, phase = STORIES[name]
    spec = {**spec}
    if "STATE" in str(spec.get("command")):
        spec["env"] = [{"name": "STATE", "value": str(tmp_path)}]

    async def story(world):
        written, reached = 0, asyncio.Event()
        client = world.node._client
        patch = client.patch

        async def counted(kind, *arguments, **options):
            nonlocal written
            if kind is POD and written >= writes:
                reached.set()
                raise TransportError("nothing is written any more")
            answer = await patch(kind, *arguments, **options)
            written += kind is POD
            return answer

        monkeypatch.setattr(client, "patch", counted)
        peers = [f"q-{number}" for number in range(1, count)]
        for peer, node in zip(peers, world.names[1:], strict=True):
            await world.create(peer, nodeName=node, hostname=peer, command=["sleep", "1000"], meta=OWNED)
        await world.create(meta=OWNED, hostname="p", **spec)
        ended = asyncio.create_task(world.until(is_finished))
        await asyncio.wait([asyncio.create_task(reached.wait()), ended], return_when=asyncio.FIRST_COMPLETED)
        await world.stop_node(leave=True)
        monkeypatch.setattr(client, "patch", patch)
        await asyncio.sleep(0.3)  # what runs ends meanwhile, or not
        await world.start_node()
        await ended
        pod = await world.phase(phase)
        assert all(status.state.terminated for status in pod.status.container_statuses)
        for peer in peers:
            await world.ready(peer)
        for each in ("p", *peers):
            await world.client.delete(POD, each, "default")
            await world.gone(each)

    play(story, count=count)
    assert refused() == []


def test_a_pod_that_has_ended_is_not_taken_on_again_by_a_node_that_hears_of_it_late(play, refused):
    """The node's informer still says that the pod runs when its last status has been written."""

    async def story(world):
        pods = world.manager.informer(POD)
        late, get = {}, pods.get

        def stale(key):
            pod = get(key)
            if pod is not None and not is_finished(pod):
                late[key] = pod
            return late.get(key, pod)

        pods.get = stale
        await world.create(**shell("echo ran"))
        pod = await world.phase("Succeeded")
        for number in range(5):
            await world.annotate("n", str(number))
            await asyncio.sleep(0.05)
        pods.get = get
        assert (await world.get()).status == pod.status
        assert world.node._runners == {}
        await world.client.delete(POD, "p", "default")
        await world.gone()

    play(story)
    assert refused() == []


def test_a_conflict_over_something_else_ends_no_pod(play, monkeypatch):
    from muster.api.status import ApiError, Status

    async def story(world):
        await world.create(**shell("while [ ! -e /proc/1/none ]; do sleep 0.1; done"))
        await world.ready()
        client = world.node._client
        refusals: list[bool] = []
        patch = client.patch

        async def once(kind, *arguments, **options):
            if kind is POD and not refusals:
                refusals.append(True)
                raise ApiError(Status(status="Failure", code=409, reason="Conflict", message="somebody was faster"))
            return await patch(kind, *arguments, **options)

        monkeypatch.setattr(client, "patch", once)
        await world.client.patch(
            POD, "p", {"status": {"reason": "x", "message": "taken away by the node"}}, "default", subresource="status"
        )
        async with asyncio.timeout(LIMIT):
            while not refusals:
                await asyncio.sleep(0.02)
        await world.until(lambda pod: pod.status.reason == "")
        assert main(await world.get()).state.running is not None

    play(story)


def test_a_container_that_ends_well_when_a_probe_condemns_it_runs_again(play, refused, tmp_path):
    """With OnFailure the server lets no container run again that was said to have ended well."""
    script = f"trap 'exit 0' TERM; echo ran >> {tmp_path}/runs; while true; do sleep 0.1; done"
    probe = {"exec": {"command": ["sh", "-c", f"[ $(wc -l < {tmp_path}/runs) -gt 1 ]"]}, "failureThreshold": 1}

    async def story(world):
        await world.create(restartPolicy="OnFailure", livenessProbe={**probe, "periodSeconds": 1}, **shell(script))
        pod = await world.until(lambda pod: pod.status.container_statuses and main(pod).restart_count == 1, "p")
        pod = await world.until(lambda pod: main(pod).state.running is not None and main(pod).restart_count == 1)
        assert main(pod).last_state.terminated.exit_code == 0

    play(story)
    assert refused() == []
