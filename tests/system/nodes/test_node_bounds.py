"""Pods that ask for more than there can be: the node answers with a running or a failed pod, and goes on."""

import asyncio
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.system.nodes import node_world
from tests.system.nodes.node_world import main, shell
from tests.system.nodes.test_nodes_process import namespaces  # noqa: F401 - a fixture

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.ours.podbounds import MOST_CONTAINERS
from muster.api.status import ApiError, too_large
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.disk import leftovers
from muster.cluster.nodes.pod.runner import PodRunner
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes


@pytest.fixture
def play(tmp_path):
    return partial(node_world.play, tmp_path)


DOUBLING = [{"name": "E0", "value": "x"}, *({"name": f"E{n + 1}", "value": f"$(E{n})$(E{n})"} for n in range(32))]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"env": DOUBLING}, "variable E17 would have more than 131071 bytes"),
        (
            {"env": [{"name": "B", "value": "b" * 100}], "args": ["$(B)" * 100_000]},
            "argument 1 would have more than 131071 bytes",
        ),
        (
            {"env": [{"name": "B", "value": "b" * 100_000}], "args": ["$(B)"] * 1000},
            "all up to argument 63 would have more than 6291456 bytes",
        ),
    ],
)
def test_what_no_program_can_be_given_fails_the_pod_with_that_reason(play, spec, why):
    async def story(world):
        await world.create(**spec)
        pod = await world.phase("Failed")
        ended = main(pod).state.terminated
        message = f"argument list too long: {why}"
        assert (ended.exit_code, ended.reason, ended.message) == (128, "StartError", message)
        assert await world.event("Failed") == ("Warning", f"Error: {message}")
        await world.stop_node()
        await world.start_node()
        await world.create("q", **shell("echo served"))
        await world.phase("Succeeded", "q")

    play(story)


def test_what_this_machine_does_not_take_fails_with_the_same_words(play):
    """More than the kernel's limit here, less than the most that it can be anywhere."""

    async def story(world):
        env = [{"name": "B", "value": "b" * 100_000}, *({"name": f"E{n}", "value": "$(B)"} for n in range(25))]
        await world.create(env=env)
        pod = await world.phase("Failed")
        assert main(pod).state.terminated.reason == "StartError"
        assert "argument list too long" in main(pod).state.terminated.message

    play(story)


def test_a_container_that_is_tried_again_backs_off(play):
    async def story(world):
        await world.create(env=DOUBLING, restartPolicy="Always")
        waits = lambda pod: pod.status.container_statuses and main(pod).state.waiting  # noqa: E731
        pod = await world.until(lambda pod: waits(pod) and waits(pod).reason == "CrashLoopBackOff")
        assert main(pod).last_state.terminated.reason == "StartError"
        await world.stop_node(leave=True)
        await world.start_node()
        again = await world.until(lambda pod: waits(pod) and waits(pod).reason == "CrashLoopBackOff")
        assert main(again).restart_count == main(pod).restart_count

    play(story)


def test_volumes_that_show_too_much_wait_with_the_reason(play):
    async def story(world):
        big = {"metadata": {"name": "big"}, "data": {"k": "x" * 1_000_000}}
        await world.client.create(node_world.DICT["ConfigMap"], big, "default")
        volumes = [{"name": f"v{n}", "configMap": {"name": "big"}} for n in range(100)]
        await world.create(volumes=volumes)
        kind, message = await world.event("FailedMount")
        assert kind == "Warning"
        assert "the pod's volumes would show more than 67108864 bytes of objects, all together" in message
        assert (await world.get()).status.phase == "Pending"

    play(story)


def test_one_pod_at_a_time_holds_what_its_volumes_show(play, monkeypatch):
    """Twenty pods of 4 KB that show the same 60 MiB are not 1.2 GiB of the server's memory."""
    holding, most = 0, 0
    fetch, put = launching.fetch, PodVolumes.put

    async def counted(client, namespace, names):
        nonlocal holding, most
        if names:
            holding += 1
            most = max(most, holding)
        return await fetch(client, namespace, names)

    async def counted_put(volumes, pod, objects, around):
        nonlocal holding
        await put(volumes, pod, objects, around)
        holding -= 1

    monkeypatch.setattr(launching, "fetch", counted)
    monkeypatch.setattr(PodVolumes, "put", counted_put)

    async def story(world):
        for n in range(10):
            body = {"metadata": {"name": f"c{n}"}, "data": {"k": "x"}}
            await world.client.create(node_world.DICT["ConfigMap"], body, "default")
        volumes = [{"name": f"v{n}", "configMap": {"name": f"c{n}"}} for n in range(10)]
        for n in range(20):
            await world.create(f"p{n}", volumes=volumes)
        for n in range(20):
            await world.phase("Succeeded", f"p{n}")
        assert most == 1

    play(story)


def test_files_count_however_small_they_are(play):
    """An object has room for 100,000 empty keys, each of which would be a file."""

    async def story(world):
        many = {"metadata": {"name": "many"}, "data": {f"k{n}": "" for n in range(5000)}}
        await world.client.create(node_world.DICT["ConfigMap"], many, "default")
        await world.create(volumes=[{"name": f"v{n}", "configMap": {"name": "many"}} for n in range(4)])
        assert "a file takes 4096 at least" in (await world.event("FailedMount"))[1]

    play(story)


@pytest.mark.parametrize("where", ["volumes", "env"])
def test_objects_are_not_held_beyond_what_is_shown(play, monkeypatch, where):
    monkeypatch.setattr(launching, "MOST_BYTES", 2_000_000)

    async def story(world):
        for n in range(3):
            body = {"metadata": {"name": f"c{n}"}, "data": {"k": "x" * 900_000}}
            await world.client.create(node_world.DICT["ConfigMap"], body, "default")
        why = "the ConfigMaps and Secrets that the container refers to have more than 2000000 bytes"
        if where == "volumes":
            await world.create(volumes=[{"name": f"v{n}", "configMap": {"name": f"c{n}"}} for n in range(3)])
            assert why in (await world.event("FailedMount"))[1]
        else:
            await world.create(envFrom=[{"configMapRef": {"name": f"c{n}"}} for n in range(3)])
            assert await world.event("Failed") == ("Warning", f"Error: {why}")

    play(story)


def test_volumes_are_brought_up_to_date_as_time_allows_however_often_they_change(play, monkeypatch):
    puts = 0
    put = PodVolumes.put

    async def counted(volumes, pod, objects, around):
        nonlocal puts
        puts += 1
        await put(volumes, pod, objects, around)

    monkeypatch.setattr(PodVolumes, "put", counted)
    field = {"fieldPath": "metadata.labels['n']"}
    volume = {"name": "v", "downwardAPI": {"items": [{"path": "n", "fieldRef": field}]}}

    async def story(world):
        mount = {"name": "v", "mountPath": "/v"}
        await world.create(volumes=[volume], volumeMounts=[mount], **shell("exec sleep 1000"))
        await world.ready()
        file = world.node._storage.of((await world.get()).metadata.uid).volume("v") / "n"
        for n in range(50):
            await world.client.patch(POD, "p", {"metadata": {"labels": {"n": str(n)}}}, "default")
        async with asyncio.timeout(node_world.LIMIT):
            while file.read_text() != "49":
                await asyncio.sleep(0.02)
        assert puts < 25

    play(story)


def test_others_are_served_between_the_starts_of_any_two_containers(play, monkeypatch):
    turn, started = 0, []
    start = shims.start

    async def seen(spec, reserve=None):
        started.append(turn)
        return await start(spec, reserve)

    monkeypatch.setattr(shims, "start", seen)

    async def count():
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def story(world):
        started.clear()  # of the probe
        counting = asyncio.create_task(count())
        names = [f"c{number}" for number in range(20)]
        await world.create(containers=[{"name": name, "image": "none", "command": ["true"]} for name in names])
        await world.phase("Succeeded")
        counting.cancel()
        assert len(started) == len(set(started)) == len(names)

    play(story)


def test_a_status_that_does_not_fit_ends_the_pod(play):
    """A status repeats the names of images, which may be as long as an object."""

    async def story(world):
        await world.create(image="i" * 1_400_000, **shell("exec sleep 1000"))
        pod = await world.phase("Failed")
        assert (pod.status.reason, pod.status.container_statuses) == ("StatusTooLarge", ())
        assert pod.status.message == "The status of the pod does not fit into its object beside the rest of it"
        assert await world.event("StatusTooLarge") == ("Warning", pod.status.message)
        await world.client.delete(POD, "p", "default")
        await world.gone()
        await world.create("q", **shell("echo served"))
        await world.phase("Succeeded", "q")

    play(story)


def test_a_pod_whose_very_end_does_not_fit_is_removed(play, monkeypatch):
    """The server of a node that joined may have less room than ours."""

    async def story(world):
        patch = world.node._client.patch_object

        async def refused(kind, obj, *args, **named):
            if kind is POD:
                raise too_large("etcdserver: request is too large")
            return await patch(kind, obj, *args, **named)

        monkeypatch.setattr(world.node._client, "patch_object", refused)
        await world.create(**shell("exec sleep 1000"))
        await world.gone()

    play(story)


def test_looks_at_a_pod_are_gathered_by_its_number_of_containers(play, monkeypatch):
    looks = 0
    step = PodRunner.step

    def counted(runner):
        nonlocal looks
        looks += 1
        return step(runner)

    monkeypatch.setattr(PodRunner, "step", counted)

    async def story(world):
        names = [f"c{number}" for number in range(MOST_CONTAINERS)]
        await world.create(containers=[{"name": name, "image": "none", "command": ["true"]} for name in names])
        await world.phase("Succeeded")
        assert looks < MOST_CONTAINERS  # two for each container without it

    play(story)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"containers": 65}, "at most 64 containers here, and this one has 65"),
        ({"initContainers": 3000}, "at most 64 init containers here, and this one has 3000"),
        ({"volumes": 257}, "at most 256 volumes here, and this one has 257"),
    ],
)
def test_a_pod_of_too_many_parts_is_refused(play, spec, why):
    parts = {
        "containers": lambda n: {"name": f"c{n}", "image": "none", "command": ["true"]},
        "initContainers": lambda n: {"name": f"i{n}", "image": "none", "command": ["true"]},
        "volumes": lambda n: {"name": f"v{n}", "emptyDir": {}},
    }
    wanted = {key: [parts[key](number) for number in range(count)] for key, count in spec.items()}

    async def story(world):
        with pytest.raises(ApiError, match=f'pods "p" is forbidden: spec: a pod may have {why}'):
            await world.create(**wanted)
        job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [parts["containers"](0)], **wanted}}}}  # fmt: skip
        with pytest.raises(ApiError, match=rf'jobs.batch "j" is forbidden: spec.template.spec: a pod may have {why}'):
            await world.client.create(JOB.seen_as(dict), job, "default")
        role = {"name": "w", "template": {"spec": job["spec"]}}
        jobset = {"metadata": {"name": "s"}, "spec": {"replicatedJobs": [role]}}
        with pytest.raises(ApiError, match=why):
            await world.client.create(JOB_SET.seen_as(dict), jobset, "default")

    play(story)


@pytest.mark.usefixtures("namespaces")
def test_mounts_without_end_are_made(play):
    """As many as there is room for, and as deep."""

    async def story(world):
        mounts = [{"name": "v", "mountPath": f"/made/{number}"} for number in range(200)]
        mounts.append({"name": "v", "mountPath": "/deep" + "/a" * 1900})
        script = "ls /made | wc -l; echo x > /made/7/x; cat /made/199/x"
        await world.create(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=mounts, **shell(script))
        await world.phase("Succeeded")
        assert (await world.log()).split() == ["200", "x"]

    play(story)


def test_a_path_that_is_too_long_waits_with_the_reason(play):
    async def story(world):
        mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(A)$(A)"}
        env = [{"name": "A", "value": "x" * 3000}]
        await world.create(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[mount], env=env)
        waits = lambda pod: pod.status.container_statuses and main(pod).state.waiting  # noqa: E731
        pod = await world.until(lambda pod: waits(pod) and waits(pod).message)
        assert main(pod).state.waiting.reason == "CreateContainerConfigError"
        assert main(pod).state.waiting.message == (
            'failed to prepare subPath for volumeMount "v" of container "main": '
            "the path would have more than 4096 bytes"
        )

    play(story)


LONG = "L"  # stands for much more
NAMES = [f"E{n}" for n in range(8)]
TEXTS = st.lists(
    st.sampled_from([*(f"$({name})" for name in NAMES), LONG, "é", "$$", "$(", "\ud7ff", " "]), max_size=8
).map("".join)
FIELDS = st.sampled_from(["metadata.annotations['a']", "metadata.name", "status.podIP"])
SOURCES = st.one_of(
    TEXTS.map(lambda text: {"value": text}),
    FIELDS.map(lambda path: {"valueFrom": {"fieldRef": {"fieldPath": path}}}),
    st.just({"valueFrom": {"configMapKeyRef": {"name": "big", "key": "k"}}}),
)
ENV = st.lists(st.tuples(st.sampled_from(NAMES), SOURCES).map(lambda pair: {"name": pair[0], **pair[1]}), max_size=30)


def _sources(count: int) -> dict[str, object]:
    return {"projected": {"sources": [{"configMap": {"name": "big"}}] * count}}


def _items(count: int) -> dict[str, object]:
    field = {"fieldPath": "metadata.annotations"}
    return {"downwardAPI": {"items": [{"path": f"{number}", "fieldRef": field} for number in range(count)]}}


COUNTS = st.integers(1, 200)
VOLUME: st.SearchStrategy[dict[str, object]] = st.one_of(
    COUNTS.map(_sources), COUNTS.map(_items), st.just({"emptyDir": {}})
)
SPECS = st.fixed_dictionaries({"env": ENV, "args": st.lists(TEXTS, max_size=20), "volume": VOLUME, "path": TEXTS})


@settings(max_examples=5, phases=(Phase.generate,))
@given(st.lists(SPECS, min_size=4, max_size=4))
def test_whatever_pods_ask_for_the_node_answers_and_serves(specs):
    state = Path(tempfile.mkdtemp(prefix="muster-bounds-"))

    async def story(world):
        big = {"metadata": {"name": "big"}, "data": {"k": "k" * 60_000}}
        await world.client.create(node_world.DICT["ConfigMap"], big, "default")
        for number, short in enumerate(specs):
            spec = json.loads(json.dumps(short).replace(LONG, "x" * 9000))
            await world.create(
                f"p{number}",
                meta={"annotations": {"a": "\x01" * 20_000}},
                env=spec["env"],
                args=spec["args"],
                volumes=[{"name": "v", **spec["volume"]}],
                volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": f"x{spec['path']}"}],
            )
        for number in range(len(specs)):
            await world.until(answered, f"p{number}")
        await world.stop_node()
        await world.start_node()
        await world.create("q", **shell("echo served"))
        await world.phase("Succeeded", "q")

    try:
        node_world.play(state, story)
    finally:
        asyncio.run(leftovers.end_everything(state))
        shutil.rmtree(state)


def answered(pod):
    """It has run, or says why not."""
    if pod.status.phase in ("Succeeded", "Failed", "Running"):
        return True
    waiting = [status.state.waiting for status in pod.status.container_statuses if status.state.waiting]
    return any(state.message for state in waiting) or any(
        state.reason == "ContainerCreating" and not pod.status.pod_ip for state in waiting
    )
