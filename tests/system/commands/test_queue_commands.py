"""What commands about queues read and write, against the whole engine in virtual time."""

from collections import Counter
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.system.plane import World, virtual

from muster.actions.choices import check_queue, priority_classes, queue_lacks_cpus
from muster.actions.errors import UserError
from muster.actions.jobs.holding import set_active, set_stop_policy
from muster.actions.jobs.scaling import scale
from muster.actions.server.session import Session
from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD
from muster.api.core.quota import LIMIT_RANGE, LimitRange
from muster.api.groups.runtimeclass import RUNTIME_CLASS, RuntimeClass
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, WORKLOAD_PRIORITY_CLASS, Workload
from muster.api.ours.embedded import NODES_FLAVOR
from muster.cli.actions.holding import hold_or_release
from muster.cli.actions.queues.newqueue import NewQueue, make_documents
from muster.cluster.defaultqueue import create_default_queue
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.why import JobReadings, describe_levels
from muster.queueing.scheduling.estimate import Certainty
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response

KINDS: dict[str, Kind[Any]] = {"ClusterQueue": CLUSTER_QUEUE, "LocalQueue": LOCAL_QUEUE}


async def cluster(world: World) -> Session:
    """One node of four CPUs, all of them in the quota."""
    await world.node("n", cpu="4")
    await create_default_queue(world.client, (await world.client.list(NODE)).items)
    await world.settle(1)
    return Session(world.client, "default")


async def queue(world: World, name: str, amount: str, resource: str = "cpu", **about: Any) -> None:
    for document in make_documents(NewQueue(name, {resource: amount}, flavor=NODES_FLAVOR, **about)):
        if document["kind"] in KINDS:
            kind = KINDS[document["kind"]].seen_as(dict)
            await world.client.create(kind, document, document["metadata"].get("namespace", ""))


async def submit(world: World, name: str, workers: int, queue: str = "", **spec: Any) -> None:
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
    document = {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {}},
        "spec": {
            "parallelism": workers,
            "completions": workers,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **spec,
        },
    }
    await world.client.create(JOB, msgspec.convert(document, Job), "default")
    await world.settle()


async def play_node(world: World) -> None:
    """Whoever has to go goes."""
    for pod in await world.pods():
        if pod.metadata.deletion_timestamp is not None:
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await world.settle(1)


async def why(world: World, name: str) -> JobReadings:
    facts = await investigate(world.client, "default", name, world.clock.now())
    assert facts is not None
    return facts


@virtual
async def test_a_job_behind_others_is_told_who_and_for_how_long(world: World):
    await cluster(world)
    await submit(world, "first", 4, activeDeadlineSeconds=600)
    await submit(world, "second", 3, activeDeadlineSeconds=60)
    await submit(world, "third", 4)
    facts = await why(world, "third")
    assert facts.state.word == "Queued"
    assert facts.quota_state is not None
    assert facts.quota_state.position == 2
    assert [one.metadata.owner_references[0].name for one in facts.ahead or ()] == ["second"]
    assert [(holder.name, holder.usage["cpu"]) for holder in facts.holders] == [("first", 4000)]
    assert [(need.resource, need.missing) for need in facts.needs if need.missing] == [("cpu", 4000)]
    estimate = facts.estimate
    assert estimate is not None
    assert (str(estimate.certainty), estimate.because) == ("likely", "second ends then, by its time limit")
    assert estimate.at is not None
    assert abs(estimate.at - world.clock.now() - timedelta(seconds=660 - 15)) < timedelta(seconds=3)
    first = await why(world, "first")
    assert [level.state for level in describe_levels(first)][:3] == ["done", "none", "done"]
    assert describe_levels(first)[2].details == ("n: " + ", ".join(sorted(pod.metadata.name for pod in first.pods)),)


@virtual
async def test_the_estimate_comes_true(world: World):
    await cluster(world)
    await submit(world, "first", 4, activeDeadlineSeconds=100)
    await submit(world, "second", 4)
    estimate = (await why(world, "second")).estimate
    assert estimate is not None
    assert str(estimate.certainty) == "sure"

    async def admitted() -> bool:
        await play_node(world)
        return (await why(world, "second")).state.word not in ("Queued", "Suspended")

    await world.until(admitted)
    assert estimate.at is not None
    late = world.clock.now() - estimate.at  # by the grace of its pods, and what the test itself waits
    assert timedelta(0) <= late < timedelta(seconds=10)


@virtual
async def test_a_job_too_large_for_ever(world: World):
    await cluster(world)
    await submit(world, "large", 5)
    facts = await why(world, "large")
    never = "its 5 pods with 1 cpu each never fit at once; empty, the node has room for 4"
    assert facts.verdict.sentence == f"can never start: {never}"
    assert facts.estimate is None


@virtual
async def test_whatever_is_asked_about_a_job_nothing_is_read_twice(world: World):
    await cluster(world)
    await submit(world, "first", 4)
    await submit(world, "late", 4)
    await submit(world, "large", 5)
    transport, read = world.client.transport, Counter[str]()

    class Counted:
        async def request(self, request: Request) -> Response:
            read[f"{request.path}?{dict(request.query)}"] += 1
            return await transport.request(request)

    for name in ("late", "large"):
        read.clear()
        assert await investigate(Client(cast("Any", Counted())), "default", name, world.clock.now()) is not None
        assert {path: times for path, times in read.items() if times > 1} == {}
        assert any("limitranges" in path for path in read)


@virtual
async def test_a_queue_that_is_not_there(world: World):
    session = await cluster(world)
    await submit(world, "lost", 1, queue="nowhere", suspend=True)
    facts = await why(world, "lost")
    assert facts.estimate is not None
    assert facts.estimate.because == "there is no LocalQueue nowhere in namespace default"
    with pytest.raises(UserError, match="no queue nowhere in namespace default; there is: default"):
        await check_queue(session.client, "default", "nowhere")
    with pytest.raises(UserError, match="no queue q in namespace kube-system; it has none; make one"):
        await check_queue(session.client, "kube-system", "q")
    await check_queue(session.client, "default", "default")
    with pytest.raises(UserError, match="there is no job nobody in namespace default"):
        await set_active(session, "nobody", active=False)
    assert await investigate(world.client, "default", "nobody", world.clock.now()) is None


@virtual
async def test_a_queue_may_have_no_quota_of_cpus(world: World):
    session = await cluster(world)
    await queue(world, "some", "2")
    await queue(world, "gpus", "4", "nvidia.com/gpu")
    lacking = [await queue_lacks_cpus(session.client, "default", name) for name in ("gpus", "some", "default", "none")]
    assert lacking == [True, False, False, False]


@virtual
async def test_jobs_are_held_and_released(world: World):
    session = await cluster(world)
    await submit(world, "j", 1)
    assert (await why(world, "j")).state.word == "Starting"
    held = "j held: it does not run until it is released"
    assert await set_active(session, "j", active=False) == f"{held}, and its workers end now"
    assert (await why(world, "j")).state.word == "Evicting"  # before the engine has done anything
    await world.settle()
    facts = await why(world, "j")
    assert (facts.state.word, facts.state.reason) == ("Evicting", "it is held")
    assert describe_levels(facts)[0].text.startswith("giving its quota back")
    await play_node(world)
    facts = await why(world, "j")
    assert facts.state.word == "Held"
    assert describe_levels(facts)[0].text.endswith("release it with: muster release j")
    await hold_or_release(session, ("j",), hold=False)
    assert await set_active(session, "j", active=False) == held
    await hold_or_release(session, ("j",), hold=False)
    await world.settle()
    assert (await why(world, "j")).state.word == "Starting"


@virtual
async def test_a_job_that_has_ended_is_left_alone(world: World):
    await submit(world, "plain", 1)
    session = await cluster(world)
    await submit(world, "queued", 1)
    for pod in await world.pods():
        await world.finish(pod)
    await world.settle()
    for name in ("plain", "queued"):
        before = await world.client.get(JOB, name, "default")
        assert await set_active(session, name, active=False) == f"{name} has ended already"
        assert await set_active(session, name, active=True) == f"{name} has ended already"
        with pytest.raises(UserError, match=f"^{name} has ended already$"):
            await scale(session, name, 3)
        assert await world.client.get(JOB, name, "default") == before


@virtual
async def test_queues_are_stopped_and_resumed(world: World):
    session = await cluster(world)
    await queue(world, "team", "4")
    await submit(world, "runs", 1, queue="team")
    await submit(world, "early", 4, queue="team")
    queued = await why(world, "early")
    assert queued.quota_state is not None
    assert queued.quota_state.position == 1
    await set_stop_policy(session, "team", "Hold", cluster=False)
    await submit(world, "waits", 1, queue="team")
    early = await why(world, "early")
    assert early.quota_state is not None
    assert (early.quota_state.sentence, early.ahead) == ("waiting in queue team: LocalQueue team is inactive", None)
    rows = await job_rows(world.client, "default", world.clock.now(), lambda _: None)
    assert {row["name"]: row["position"] for row in rows} == {"runs": None, "early": None, "waits": None}
    waits = await why(world, "waits")
    assert (waits.state.word, waits.state.reason) == ("Queued", "LocalQueue team is inactive")
    assert waits.estimate is not None
    assert waits.estimate.because == "LocalQueue team is inactive"
    assert (await why(world, "runs")).state.word == "Starting"
    await hold_or_release(session, ("queue/team",), hold=False)
    await world.settle()
    asked_again = (await why(world, "early")).quota_state
    less = queued.quota_state.reason.replace("1 more needed", "2 more needed")  # waits has started
    assert asked_again == msgspec.structs.replace(queued.quota_state, reason=less)
    await world.client.delete(JOB, "early", "default", propagation="Background")
    await set_stop_policy(session, "team", "HoldAndDrain", cluster=True)
    await world.settle()
    await play_node(world)
    assert (await why(world, "runs")).state.word == "Queued"
    await set_stop_policy(session, "team", "None", cluster=True)
    await world.settle()
    assert {(await why(world, name)).state.word for name in ("runs", "waits")} == {"Starting"}


@virtual
async def test_the_way_back_from_a_stopped_queue_is_named(world: World):
    session = await cluster(world)
    await queue(world, "team", "4")
    local, way_back = "localqueue/team (namespace default)", "start it again with: muster queue resume team"
    stopped = "its waiting jobs do not start, and its running jobs continue"

    async def resume(*, cluster: bool) -> str:
        return await set_stop_policy(session, "team", "None", cluster=cluster)

    assert await resume(cluster=False) == f"{local} is not stopped"
    outcome = await set_stop_policy(session, "team", "Hold", cluster=True)
    assert outcome == f"clusterqueue/team stopped: {stopped}; {way_back} --cluster"
    await submit(world, "waits", 1, queue="team")
    assert (await why(world, "waits")).stopped == [("ClusterQueue", "team")]
    other = "ClusterQueue team is stopped: muster queue resume team --cluster"
    assert await resume(cluster=False) == f"{local} is not stopped; {other}"
    outcome = await set_stop_policy(session, "team", "Hold", cluster=False)
    assert outcome == f"{local} stopped: {stopped}; {way_back}"
    assert (await why(world, "waits")).stopped == [("LocalQueue", "team"), ("ClusterQueue", "team")]
    assert await resume(cluster=False) == f"{local} resumed; {other}"
    assert await resume(cluster=True) == "clusterqueue/team resumed"
    await world.settle()
    assert (await why(world, "waits")).state.word == "Starting"


@virtual
async def test_who_means_the_other_kind_of_queue_is_told(world: World):
    session = await cluster(world)
    await queue(world, "all", "4", namespace="")
    with pytest.raises(UserError, match="but a ClusterQueue has that name: add --cluster"):
        await set_stop_policy(session, "all", "Hold", cluster=False)


@virtual
async def test_what_is_no_job_is_known_by_its_workload(world: World):
    await cluster(world)
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    podset = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    for name in ("group", "other"):
        document = {"metadata": {"name": name}, "spec": {"podSets": [podset], "queueName": "default"}}
        await world.client.create(WORKLOAD, msgspec.convert(document, Workload), "default")
        await world.settle()
    await submit(world, "job", 1)
    facts = await why(world, "other")
    assert (facts.state.word, facts.quota_state and facts.quota_state.position) == ("Queued", 1)
    assert [holder.name for holder in facts.holders] == ["group", "job"]
    said: list[str] = []
    rows = {row["name"]: row for row in await job_rows(world.client, "default", world.clock.now(), said.append)}
    assert said == []
    assert {name: (row["state"], row["queue"], row["position"]) for name, row in rows.items()} == {
        "group": ("Starting", "default", None),
        "other": ("Queued", "default", 1),
        "job": ("Starting", "default", None),
    }
    assert rows["other"]["reason"].startswith("insufficient unused quota for cpu")


@virtual
async def test_what_the_cluster_adds_to_pods_is_asked_for_too(world: World):
    await cluster(world)
    vm = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "4"}}}
    await world.client.create(RUNTIME_CLASS, msgspec.convert(vm, RuntimeClass))
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}
    await world.client.create(LIMIT_RANGE, msgspec.convert(limits, LimitRange), "default")
    for name, most, more in (("virtual", "1", {"runtimeClassName": "vm"}), ("large", "3", {})):
        container = {"name": "c", "resources": {"limits": {"cpu": most}}}
        podset = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], **more}}}
        document = {"metadata": {"name": name}, "spec": {"podSets": [podset], "queueName": "default"}}
        await world.client.create(WORKLOAD, msgspec.convert(document, Workload), "default")
    await world.settle()
    assert [need.asked for need in (await why(world, "virtual")).needs if need.resource == "cpu"] == [5000]
    estimate = (await why(world, "large")).estimate
    assert estimate is not None
    assert estimate.certainty == Certainty.NONE
    assert estimate.because.startswith("resources didn't satisfy LimitRange constraints")


@virtual
async def test_a_job_whose_pods_are_refused_is_told_why(world: World):
    container = {"name": "c", "image": "none", "command": ["x"]}
    spec = {"restartPolicy": "Never", "runtimeClassName": "none", "containers": [container]}
    await submit(world, "refused", 1, template={"spec": spec})
    state = (await why(world, "refused")).state
    assert state.word == "Pending"
    assert state.reason.startswith("Error creating: pods")
    assert state.reason.endswith('pod rejected: RuntimeClass "none" not found')


@virtual
async def test_a_priority_is_a_class_of_either_kind(world: World):
    with pytest.raises(UserError, match=r"no PriorityClass normal; there is none: leave out --priority"):
        await priority_classes(world.client, "normal")
    meta = {"metadata": {"name": "both"}, "value": 5}
    await world.client.create(PRIORITY_CLASS.seen_as(dict), {"metadata": {"name": "pods"}, "value": 5})
    for kind in (PRIORITY_CLASS, WORKLOAD_PRIORITY_CLASS):
        await world.client.create(kind.seen_as(dict), meta)
    assert await priority_classes(world.client, "") == {"priority": "", "queue_priority": ""}
    assert await priority_classes(world.client, "pods") == {"priority": "pods", "queue_priority": ""}
    assert await priority_classes(world.client, "both") == {"priority": "", "queue_priority": "both"}
    with pytest.raises(UserError, match="no PriorityClass none; there is: both, pods"):
        await priority_classes(world.client, "none")
