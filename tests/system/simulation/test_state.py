"""Simulations that start from the state of a cluster go on as the cluster itself does."""

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import msgspec
import pytest
import yaml
from tests.system.integrations.queued_jobs import Queued, story

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.ours.simulated import RUN_TIME
from muster.api.values import yaml_decode
from muster.insight.reader.snapshot import take_snapshot
from muster.insight.snapshot import write_snapshot
from muster.simulation.runs import list_cases, simulate_all
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.scenario.sweeps import parse_sweep
from muster.simulation.simulate import simulate

SCENARIO = "apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
SECRET = "hunter2"


async def submit(q: Queued, name, workers, seconds, *, queue="cq", expected=True):
    metadata = {"annotations": {"acme.com/password": SECRET}}
    if expected:
        metadata["annotations"]["muster.dev/expected-duration"] = f"{seconds}s"
    resources = {"requests": {"cpu": "1"}}
    secrets = {"image": SECRET, "command": [SECRET], "args": [SECRET], "env": [{"name": "TOKEN", "value": SECRET}]}
    container = {"name": "c", "resources": resources, **secrets}
    template = {"metadata": {"annotations": {RUN_TIME: str(seconds)}}, "spec": {"containers": [container]}}
    await q.job(name, workers, queue=queue, template=template, metadata=metadata)


async def snapshot(q: Queued):
    return write_snapshot(await take_snapshot(q.client, q.world.clock.now(), "default"))


async def follow(q: Queued, seconds):
    """Return when each job started, in the order of the starts, over so many seconds."""
    starts: dict[str, datetime] = {}
    for _ in range(seconds):
        for pod in (await q.client.list(POD, "default")).items:
            if pod.status.phase == "Running":
                starts.setdefault(pod.metadata.labels["batch.kubernetes.io/job-name"], q.world.clock.now())
        await q.world.elapse(1.0)
    return starts


def play(tmp_path, document, spec="  state: state.yaml\n", after=""):
    (tmp_path / "state.yaml").write_text(yaml.dump(document, Dumper=yaml.CSafeDumper))
    (tmp_path / "scenario.yaml").write_text(SCENARIO + spec + after)
    return simulate(str(tmp_path / "scenario.yaml"))


def run_story(body):
    """Return what the body returns, on a cluster in virtual time."""
    results = []

    @story
    async def told(q: Queued) -> None:
        results.append(await body(q))

    told()
    return results[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_jobs_start_in_the_order_in_which_the_cluster_starts_them(tmp_path, seed):
    async def body(q: Queued):
        random = Random(seed)
        await q.queue(4)
        jobs = [(f"j{number}", random.randint(1, 4), random.randrange(20, 200)) for number in range(12)]
        for name, workers, seconds in jobs:
            await submit(q, name, workers, seconds)
        await q.world.elapse(60.0)
        document, began = await snapshot(q), q.world.clock.now()
        starts = await follow(q, 1500)
        return document, {name: (at - began).total_seconds() for name, at in starts.items()}

    document, starts = run_story(body)
    report = play(tmp_path, document)
    simulated = {job.name: job.started for job in report.jobs}
    later = [name for name, at in starts.items() if at > 0]
    assert len(later) >= 6
    assert sorted(later, key=simulated.__getitem__) == later
    for name in later:  # a cluster takes a few seconds from the end of a job to the start of the next one
        assert simulated[name] == pytest.approx(starts[name], abs=25)
    assert report.summary.total.ended == len(report.jobs)


def test_running_jobs_keep_their_nodes_and_go_on(tmp_path):
    async def body(q: Queued):
        await q.queue(200)
        await submit(q, "runs", 40, 1000)
        await submit(q, "alone", 20, 600, queue="")
        await q.world.elapse(100.0)
        await submit(q, "waits", 50, 100)
        await q.world.elapse(10.0)
        return await snapshot(q)

    report = play(tmp_path, run_story(body))
    jobs = {job.name: job for job in report.jobs}
    assert jobs["runs"].started < -90
    assert jobs["runs"].ended == pytest.approx(880, abs=15)
    assert jobs["alone"].ended == pytest.approx(480, abs=20)
    assert jobs["waits"].started == jobs["alone"].ended, "50 of 100 CPUs are free only then"
    assert jobs["waits"].wait > jobs["waits"].started, "the time before the snapshot counts"
    assert {job.work for job in report.jobs} == {"state"}


def test_what_a_scenario_defines_takes_the_place_of_what_was_there(tmp_path):
    async def body(q: Queued):
        await q.queue(4)
        for name in ("a", "b", "c"):
            await submit(q, name, 4, 100)
        return await snapshot(q)

    document = run_story(body)
    queue = next(one for one in document["spec"]["items"] if one["kind"] == "ClusterQueue")
    wider = json.loads(json.dumps(queue)) | {"metadata": {"name": "cq"}}
    wider["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "12"
    now = play(tmp_path, document)
    then = play(tmp_path, document, after="---\n" + yaml.safe_dump(wider))
    assert [job.started for job in now.jobs[1:]] != [0.0, 0.0]
    assert [job.started for job in then.jobs[1:]] == [0.0, 0.0]


def test_work_may_come_to_the_jobs_of_a_state(tmp_path):
    async def body(q: Queued):
        await q.queue(4)
        await submit(q, "a", 4, 100)
        return await snapshot(q)

    work = """  state: state.yaml
  work:
  - name: more
    queue: cq
    arrivals: {burst: {at: [5], count: 1}}
    runTime: 1m
    template:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""
    first, second = play(tmp_path, run_story(body), work).jobs
    assert (first.work, second.work) == ("state", "more")
    assert second.started == first.ended


def test_a_job_of_a_state_that_is_preempted_starts_anew(tmp_path):
    async def body(q: Queued):
        await q.queue(4, preemption={"withinClusterQueue": "LowerPriority"})
        await submit(q, "a", 4, 100)
        await q.world.elapse(30.0)
        return await snapshot(q)

    work = """  state: state.yaml
  work:
  - name: urgent
    queue: cq
    priority: 10
    arrivals: {burst: {at: [5], count: 1}}
    runTime: 1m
    template:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""
    first, second = play(tmp_path, run_story(body), work).jobs
    ran = 5.0 - first.started
    assert ran > 30.0
    assert (second.started, second.ended) == (5.0, 65.0)
    assert (first.evictions, first.lost, first.ended) == (1, 4 * ran, 165.0)


@pytest.fixture(scope="module")
def waiting():
    """The state of a cluster with a job that waits for one that holds all quota."""

    async def body(q: Queued):
        await q.queue(4)
        await submit(q, "a", 4, 100)
        await submit(q, "b", 4, 100)
        return await snapshot(q)

    return run_story(body)


VARIANTS = """  state: state.yaml
  variants:
  - name: set
    set: {clusterQueues.cq.nominalQuota.cpu: 8}
  - name: merged
    manifests:
    - apiVersion: kueue.x-k8s.io/v1beta2
      kind: ClusterQueue
      metadata: {name: cq}
      spec: {stopPolicy: Hold}
  - name: deleted
    manifests:
    - {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: cq}, $patch: delete}
"""


def write_scenario(tmp_path, document, spec, after=""):
    (tmp_path / "state.yaml").write_text(yaml.dump(document, Dumper=yaml.CSafeDumper))
    (tmp_path / "scenario.yaml").write_text(SCENARIO + spec + after)
    return [str(tmp_path / "scenario.yaml")]


def find_ends(cases):
    return {run.variant: run.summary.makespan for run in simulate_all(cases).runs}


def test_assertions_name_the_work_the_users_and_the_priorities_of_a_state(tmp_path, waiting):
    for item in waiting["spec"]["items"]:
        if item["kind"] == "Workload":
            item["metadata"].setdefault("annotations", {})["muster.dev/submitted-by"] = "unix:ada"
            item["spec"]["priority"] = 3
    [scenario] = write_scenario(tmp_path, waiting, "  state: state.yaml\n")
    texts = ["count(ended, work=state) == 2", "count(ended, user=ada) == 2", "count(ended, priority=3) == 2"]
    assert all(one.holds for one in simulate(scenario, assertions=texts).verdicts)
    with pytest.raises(ScenarioError, match=r"^--assert: there is no user eve, but ada$"):
        simulate(scenario, assertions=["count(ended, user=eve) < 5"])
    with pytest.raises(ScenarioError, match=r"^--assert: no job has the priority 0: the priorities are 3$"):
        simulate(scenario, assertions=["count(ended, priority=0) < 5"])


def test_variants_and_sweeps_change_objects_of_a_state(tmp_path, waiting):
    scenario = write_scenario(tmp_path, waiting, "  state: state.yaml\n")
    swept = find_ends(list_cases(scenario, [parse_sweep("clusterQueues.cq.nominalQuota.cpu=4,8")], None))
    one_by_one, together = swept.values()
    assert (one_by_one, together) == (190.0, 100.0), "ten of the first 100 s are over at the snapshot"
    scenario = write_scenario(tmp_path, waiting, VARIANTS)
    runs = {run.variant: run for run in simulate_all(list_cases(scenario, [], None)).runs}
    assert runs["s"].summary.makespan == one_by_one
    assert runs["set"].summary.makespan == together
    assert runs["merged"].summary.total.waiting == 1, "its other fields are as in the state"
    assert runs["deleted"].never == 1


def test_a_folder_may_hold_the_scenario_and_its_snapshot(tmp_path, waiting):
    write_scenario(tmp_path, waiting, "  state: state.yaml\n")
    assert simulate(str(tmp_path)).summary.makespan == 190.0
    write_scenario(tmp_path, waiting, "  until: 1h\n")
    with pytest.raises(ScenarioError, match=r"state\.yaml: a snapshot has no effect unless spec\.state"):
        simulate(str(tmp_path))
    write_scenario(tmp_path, waiting, "  state: ./state.yaml\n")
    (tmp_path / "sunday.json").write_text(json.dumps(waiting).replace('"nominalQuota": 4', '"nominalQuota": 8'))
    states = parse_sweep("state=state.yaml,sunday.json")
    assert list(find_ends(list_cases([str(tmp_path)], [states], None)).values()) == [190.0, 100.0]


def test_the_snapshot_of_a_folder_is_parsed_once(tmp_path, waiting, monkeypatch):
    parsed = Counter[bool]()

    def count(text):
        parsed[b"Snapshot" in text] += 1
        return yaml_decode.decode(text)

    monkeypatch.setattr("muster.api.values.manifests.decode", count)
    write_scenario(tmp_path, waiting, "  state: state.yaml\n")
    find_ends(list_cases([str(tmp_path)], [parse_sweep("clusterQueues.cq.nominalQuota.cpu=4,8")], None))
    assert parsed[True] == 0, "as manifests"
    assert parsed[False] > 0


def test_a_path_may_change_what_a_scenario_defines_instead_of_its_state(tmp_path, waiting):
    queue = json.loads(json.dumps(find(waiting, "ClusterQueue", "cq"))) | {"metadata": {"name": "cq"}}
    scenario = write_scenario(tmp_path, waiting, "  state: state.yaml\n", "---\n" + yaml.safe_dump(queue))
    ends = find_ends(list_cases(scenario, [parse_sweep("clusterQueues.cq.nominalQuota.cpu=4,8")], None))
    assert len(set(ends.values())) == 2


def test_a_job_whose_local_queue_is_gone_waits(tmp_path, waiting):
    document = json.loads(json.dumps(waiting))
    document["spec"]["items"].remove(find(document, "LocalQueue", "cq"))
    report = play(tmp_path, document)
    (one,) = report.waiting
    assert (one.name, one.why, one.never) == ("b", "LocalQueue default/cq doesn't exist", True)
    assert report.jobs[0].ended is not None, "what runs holds its quota"


def test_a_variant_may_change_an_object_of_a_newer_cluster(tmp_path, waiting):
    document = json.loads(json.dumps(waiting))
    spec = find(document, "ClusterQueue", "cq")["spec"]
    spec["futureField"] = True
    document["spec"]["items"].append(find(document, "ResourceFlavor", "f") | {"metadata": {"name": "gone"}})
    flavors = spec["resourceGroups"][0]["flavors"]
    flavors.insert(0, {"name": "gone", "resources": [{"name": "cpu", "nominalQuota": "0"}]})
    flavors[1]["resources"][0]["futureQuota"] = "1"
    scenario = write_scenario(tmp_path, document, "  state: state.yaml\n")
    path = "clusterQueues.cq.nominalQuota.f.cpu"
    assert list(find_ends(list_cases(scenario, [parse_sweep(f"{path}=4,8")], None)).values()) == [190.0, 100.0]
    smaller = """  state: state.yaml
  variants:
  - name: smaller
    manifests:
    - apiVersion: kueue.x-k8s.io/v1beta2
      kind: ClusterQueue
      metadata: {name: cq}
      spec: {resourceGroups: [{coveredResources: [cpu], flavors: [%s]}]}
"""
    scenario = write_scenario(tmp_path, document, smaller % json.dumps(flavors[1]))
    assert set(find_ends(list_cases(scenario, [], None)).values()) == {190.0}, "the other flavor had no quota"
    wrong = json.dumps(flavors[1]).replace("nominalQuota", "nominal")
    scenario = write_scenario(tmp_path, document, smaller % wrong)
    with pytest.raises(ScenarioError, match=r'cq: unknown field ".*flavors\[0\]\.resources\[0\]\.nominal"'):
        simulate_all(list_cases(scenario, [], None))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("clusterQueues.c.nominalQuota.cpu", "c is the name of none of clusterQueues: there is cq"),
        ("clusterQueue.cq.nominalQuota.cpu", "do you mean clusterQueues?"),
        ("clusterQueues.cq.cohort", 'ClusterQueue cq: .*unknown field "spec.cohort"'),
    ],
)
def test_a_path_that_a_state_does_not_have_is_refused(tmp_path, waiting, path, problem):
    scenario = write_scenario(tmp_path, waiting, "  state: state.yaml\n")
    with pytest.raises(ScenarioError, match=problem):
        simulate_all(list_cases(scenario, [parse_sweep(f"{path}=8")], None))


MORE = """  state: state.yaml
  nodes:
  - {name: more, like: n, count: 0}
  variants:
  - {name: one-more, set: {nodes.more.count: 1}}
  - {name: larger, set: {nodes.n.status.allocatable: {cpu: 200, pods: 200}}}
  - {name: cordoned, set: {nodes.n.unschedulable: true, nodes.more.count: 1}}
  - {name: away, spec: {changes: [{at: 0, drain: {nodes: [n], for: 2m}}]}}
"""


def test_variants_change_the_nodes_of_a_state(tmp_path):
    async def body(q: Queued):
        await q.queue(200)
        await submit(q, "runs", 60, 1000)
        await q.world.elapse(100.0)
        await submit(q, "waits", 60, 100)
        await q.world.elapse(10.0)
        return await snapshot(q)

    document = run_story(body)
    node = find(document, "Node", "n")
    node["spec"]["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    node["spec"]["unschedulable"] = True
    cordoned = simulate_all(list_cases(write_scenario(tmp_path, document, MORE), [], None)).runs
    assert {run.variant: run.summary.total.ended for run in cordoned} == {
        "s": 1, "one-more": 2, "larger": 1, "cordoned": 2, "away": 0,
    }  # fmt: skip
    node["spec"] = {}
    ends = find_ends(list_cases(write_scenario(tmp_path, document, MORE), [], None))
    left = ends["one-more"]
    assert 860 < left < 900, "the running job has not ended, and the other starts at once"
    assert ends == {"s": left + 100, "one-more": left, "larger": left, "cordoned": left, "away": 120 + 1000 + 100}


DELETED = """  state: state.yaml
  nodes:
  - {name: more, like: n, count: 1}
  variants:
  - name: deleted
    manifests: [{apiVersion: v1, kind: Node, metadata: {name: m}, $patch: delete}]
  - {name: drained, spec: {changes: [{at: 0, drain: {nodes: [m]}}]}}
"""


def test_jobs_on_a_node_that_a_variant_deletes_start_again_elsewhere(tmp_path):
    async def body(q: Queued):
        await q.queue(200)
        await submit(q, "runs", 60, 1000)
        await submit(q, "alone", 20, 600, queue="")
        await q.world.elapse(100.0)
        return await snapshot(q)

    document = run_story(body)
    other = json.loads(json.dumps(find(document, "Node", "n")))
    other["metadata"]["name"] = "m"
    document["spec"]["items"].append(other)
    for one in document["spec"]["items"]:
        if one["kind"] == "Pod" and one["spec"].get("nodeName") == "n":
            one["spec"]["nodeName"] = "m"
    scenario = write_scenario(tmp_path, document, DELETED)
    runs = {run.variant: run.summary for run in simulate_all(list_cases(scenario, [], None)).runs}
    assert runs["s"].makespan < 950
    assert (runs["deleted"].makespan, runs["deleted"].total.interruptions) == (1000, 2)
    assert runs["deleted"].total.lost == pytest.approx(60 * 100 + 20 * 100, rel=0.1)
    assert runs["deleted"] == runs["drained"]
    document["spec"]["missing"] = {"nodes": "forbidden"}
    scenario = write_scenario(tmp_path, document, DELETED)
    unknown = {run.variant: run.summary.makespan for run in simulate_all(list_cases(scenario, [], None)).runs}
    assert unknown["deleted"] == runs["s"].makespan, "nobody knows which nodes there are"


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        ("{name: more, like: m}", r"spec.nodes\[0\].like: there is no Node m, but n"),
        (
            "{name: more, like: n, template: {kind: Node}}",
            r"spec.nodes\[0\].template: has no effect: the nodes are like",
        ),
        ("{file: nodes.csv, like: n}", r"spec.nodes\[0\].like: has no effect: the table says what the nodes are"),
        ("{name: more}", r"spec.nodes\[0\]: name and template or like are needed, or the file"),
        ("{like: n}", r"spec.nodes\[0\]: name and template or like are needed, or the file"),
    ],
)
def test_a_pool_that_is_like_no_node_is_named(tmp_path, waiting, pool, problem):
    with pytest.raises(ScenarioError, match=problem):
        play(tmp_path, waiting, f"  state: state.yaml\n  nodes: [{pool}]\n")


def find(document, kind, name):
    return next(one for one in document["spec"]["items"] if one["kind"] == kind and name in one["metadata"]["name"])


def test_a_job_that_backs_off_starts_once_it_may(tmp_path, waiting):
    document = json.loads(json.dumps(waiting))
    later = datetime.fromisoformat(document["spec"]["at"]) + timedelta(seconds=500)
    find(document, "Workload", "job-b")["status"]["requeueState"] = {"count": 1, "requeueAt": later.isoformat()}
    assert [job.started for job in play(tmp_path, document).jobs][1] == 500.0


def test_pods_of_no_job_keep_their_room(tmp_path, waiting):
    document = json.loads(json.dumps(waiting))
    pod = json.loads(json.dumps(find(document, "Pod", "a-")))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    pod["metadata"] |= {"name": "daemon", "uid": "daemon", "ownerReferences": [owner], "labels": {}}
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "96"
    document["spec"]["items"].append(pod)
    report = play(tmp_path, document)
    assert [job.ended is None for job in report.jobs] == [False, False], "96 of 100 CPUs are taken, and they need 4"
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "97"
    report = play(tmp_path, document)
    assert [job.ended is None for job in report.jobs] == [False, True]


def test_a_node_that_was_not_ready_takes_no_jobs(tmp_path, waiting):
    document = json.loads(json.dumps(waiting))
    for condition in find(document, "Node", "n")["status"]["conditions"]:
        condition["status"] = "False"
    assert [job.ended is None for job in play(tmp_path, document).jobs] == [False, True]


def test_how_long_jobs_run_may_be_drawn_and_must_be_known(tmp_path):
    async def body(q: Queued):
        await q.queue(4)
        await submit(q, "a", 4, 500, expected=False)
        await submit(q, "b", 4, 500, expected=False)
        await q.world.elapse(20.0)
        return await snapshot(q)

    document = run_story(body)
    why = "is needed, such as 10m: there is neither a time limit nor an expected duration of a"
    with pytest.raises(ScenarioError, match=re.escape(f"scenario.yaml:5: spec.state.remaining: {why}")):
        play(tmp_path, document)
    with pytest.raises(ScenarioError, match=r"spec.state.runTime: is needed, such as 10m: .* of b$"):
        play(tmp_path, document, "  state: {file: state.yaml, remaining: 1m}\n")
    report = play(tmp_path, document, "  state: {file: state.yaml, remaining: 1m, runTime: {constant: 2m}}\n")
    assert [(job.started, job.ended) for job in report.jobs[1:]] == [(60.0, 180.0)]
    assert report.jobs[0].ended == 60.0


def test_an_object_of_a_state_that_is_invalid_is_named(tmp_path):
    async def body(q: Queued):
        await q.queue(4)
        await submit(q, "a", 2, 100)
        await submit(q, "b", 2, 100, queue="")
        return await snapshot(q)

    document = run_story(body)

    def spoil(kind, change, problem):
        spoiled = json.loads(json.dumps(document))
        change(next(one for one in spoiled["spec"]["items"] if one["kind"] == kind))
        with pytest.raises(ScenarioError, match=problem):
            play(tmp_path, spoiled)

    def requests(one):
        return one["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]

    spoil("Workload", lambda one: one["spec"]["podSets"][0].update(count=-1), "Workload default/job-a-.*: has no pods")
    spoil("Workload", lambda one: one["spec"].update(podSets=[]), "Workload default/job-a-.*: has no pods")
    spoil("Workload", lambda one: requests(one).update(cpu="x"), "Workload default/job-a-.*quantities must match")
    spoil("Pod", lambda one: one["spec"].update(containers=7), r"\]: Pod default/.*: Expected `array`, got `int`")
    spoil("ClusterQueue", lambda one: one["spec"].update(queueingStrategy="x"), "ClusterQueue cq: .*Unsupported value")
    spoil("Node", lambda one: one["metadata"].update(name=""), r"spec.items\[\d+\]: Expected `str` of length >= 1")
    spoil("Node", lambda one: one.pop("metadata"), r"spec.items\[\d+\]: Object missing required field `metadata`")


def test_a_snapshot_holds_nothing_of_the_programs_of_users(tmp_path):
    async def body(q: Queued):
        await q.queue(4)
        await submit(q, "a", 2, 100)
        await submit(q, "b", 4, 100)
        await submit(q, "c", 2, 100, queue="")
        document = await snapshot(q)
        job = await q.client.get(JOB, "a", "default")
        return document, msgspec.json.encode(job).decode()

    document, job = run_story(body)
    assert job.count(SECRET) >= 4
    assert SECRET not in json.dumps(document)
    kinds = {one["kind"] for one in document["spec"]["items"]}
    assert {"Node", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload", "Job", "Pod"} <= kinds
    assert document["spec"]["exact"]


@pytest.mark.parametrize(
    ("spec", "state", "problem"),
    [
        ("  state: gone.yaml\n", {}, "gone.yaml: No such file"),
        ("  state: state.yaml\n", {}, "state.yaml: is no snapshot: Object missing required field `apiVersion`"),
        ("  state: state.yaml\n", [], "state.yaml: is no snapshot: Expected `object`"),
        ("  state: state.yaml\n  start: 2026-01-05T00:00:00Z\n", {}, "scenario.yaml:6: spec.start: has no effect"),
        ("  state: {file: state.yaml, remains: 1}\n", {}, r"spec.state.remains: there is no such field"),
        (
            "  state: state.yaml\n",
            {"apiVersion": "v1", "kind": "List", "spec": {"at": "2026-01-01T00:00:00Z", "items": []}},
            "state.yaml: is a List of v1 instead of a Snapshot",
        ),
    ],
)
def test_a_state_that_is_none_is_named(tmp_path, spec, state, problem):
    with pytest.raises(ScenarioError, match=problem):
        play(tmp_path, state, spec)


def test_a_state_that_is_no_yaml_is_named(tmp_path):
    (tmp_path / "state.yaml").write_text("a: [\n")
    (tmp_path / "scenario.yaml").write_text(SCENARIO + "  state: state.yaml\n")
    with pytest.raises(ScenarioError, match=r"state\.yaml:2: "):
        simulate(str(tmp_path / "scenario.yaml"))


TIME_OUT = """---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metadata: {name: settings}
waitForPodsReady: {timeout: 60s}
"""


def test_a_job_that_waits_for_its_pods_has_the_rest_of_its_time(tmp_path):
    """The job was admitted some seconds before the snapshot, and no node takes its pods."""

    async def body(q: Queued):
        await q.queue(4)
        await submit(q, "j", 2, 100)
        await q.world.elapse(20.0)
        return await snapshot(q)

    document = run_story(body)
    spec = document["spec"]
    spec["items"] = [one for one in spec["items"] if one["kind"] != "Pod"]
    for node in (one for one in spec["items"] if one["kind"] == "Node"):
        node["spec"] = (node.get("spec") or {}) | {"unschedulable": True}
    (workload,) = (one for one in spec["items"] if one["kind"] == "Workload")
    conditions = {condition["type"]: condition for condition in workload["status"]["conditions"]}
    conditions.pop("PodsReady", None)
    workload["status"]["conditions"] = list(conditions.values())
    admitted = datetime.fromisoformat(conditions["Admitted"]["lastTransitionTime"])
    report = play(tmp_path, document, "  state: state.yaml\n  until: 10m\n", TIME_OUT)
    since_admission = (datetime.fromisoformat(spec["at"]) - admitted).total_seconds()
    assert 20 <= since_admission < 60, "in virtual time"
    evictions = [one.at for one in report.changes if one.amount < 0]
    assert evictions[0] == 60 - since_admission
    assert report.jobs[0].evictions > 1
