"""Parts of the simulation that were built apart: what one of them does to a job, the others see."""

import pytest
from tests.system.simulation import test_multikueue as clusters
from tests.system.simulation import test_readiness as readiness
from tests.system.simulation import test_state as states
from tests.system.simulation.test_simulation import burst, scenario

from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

RESTART = "  changes:\n  - at: %s\n    restart: {for: %s}\n"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "status": {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
ALONE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    },
    "status": {"phase": "Running"},
}


def play_late(tmp_path, restart):
    """Play a job that is late each time: evicted after 60 seconds, tried again after 10, and so on."""
    text = scenario("  until: 400s\n  work:\n" + readiness.job("a", startup="61s") + restart, readiness.quota(1))
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    report = simulate(str(file), configuration=readiness.waiting())
    return [(one.at, one.amount > 0) for one in report.changes]


def test_a_restart_of_the_engine_forgets_no_back_off(tmp_path):
    assert play_late(tmp_path, RESTART % ("62s", "2s"))[:3] == [(0.0, True), (60.0, False), (70.0, True)]


def test_an_engine_that_is_stopped_evicts_nothing(tmp_path):
    assert play_late(tmp_path, RESTART % ("30s", "70s"))[:2] == [(0.0, True), (100.0, False)]


@pytest.mark.parametrize("what", ["lose", "drain"])
def test_a_pod_that_belongs_to_no_job_is_no_gang(tmp_path, what):
    document = states.run_story(states.snapshot)
    others = [one for one in document["spec"]["items"] if one["kind"] not in ("Node", "Pod")]
    node = NODE | {"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}}
    document["spec"]["items"] = [*others, node, ALONE]
    after = f"  changes:\n  - at: 5s\n    {what}: {{nodes: [n1]}}\n  until: 1h\n  work:\n" + burst(1, name="w")
    [job] = states.play(tmp_path, document, after=after).jobs
    assert (job.started, job.interruptions) == (0.0, 1)


@pytest.mark.parametrize(
    ("more", "after", "field"),
    [
        ("    checkpoint: {every: 1m}\n", "", "spec.work[0].checkpoint"),
        ("", "  changes:\n  - at: 1m\n    stop: {clusterQueue: here, policy: Hold}\n", "spec.changes"),
    ],
)
def test_what_is_not_simulated_beside_clusters_is_refused(tmp_path, more, after, field):
    with pytest.raises(ScenarioError, match=r"cannot be simulated together with spec[.]clusters") as refused:
        clusters.play(tmp_path, [clusters.cluster("east", 3)], [clusters.work(1, more=more)], after=after)
    assert field in str(refused.value)


def test_worker_clusters_with_equal_names_inside_are_told_apart(tmp_path):
    several = [clusters.cluster("east", 3, nodes=2), clusters.cluster("west", 5, nodes=3)]
    report = clusters.play(tmp_path, several, [clusters.work(4)])
    assert sorted(report.nodes.names) == ["east/n-0", "east/n-1", "west/n-0", "west/n-1", "west/n-2"]
    assert report.timeline.capacity["cpu"][0] == 5000
    quotas = {key[0]: series.nominal[0] for key, series in report.timeline.quotas.items()}
    assert (quotas["east/there"], quotas["west/there"]) == (3000, 5000)


def test_assertions_name_queues_of_worker_clusters_for_quotas_and_not_for_nodes(tmp_path):
    several = [clusters.cluster("east", 3, nodes=2), clusters.cluster("west", 5, nodes=3)]
    texts = ["max(used, queue=east/there) <= 2", "max(occupancy, queue=here) <= 100%"]
    report = clusters.play(tmp_path, several, [clusters.work(4)], assertions=texts)
    assert [verdict.value for verdict in report.verdicts] == [2.0, 0.8]
    with pytest.raises(ScenarioError, match=r"--assert: there is no queue east/there, but here$"):
        clusters.play(tmp_path, several, [clusters.work(4)], assertions=["max(occupancy, queue=east/there) > 10%"])


CLASS = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n"


def test_a_clone_that_loses_its_nodes_keeps_its_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "LOCAL", clusters.LOCAL + CLASS)
    urgent = clusters.work(1, name="h", at=60)
    urgent = urgent.replace("restartPolicy: Never", "priorityClassName: high\n            restartPolicy: Never")
    report = clusters.play(tmp_path, [clusters.cluster("east", 9, nodes=1)], [clusters.work(1, run="1h"), urgent])
    first, second = report.jobs
    assert (second.started, first.evictions, first.ended is not None) == (60.0, 1, True)
    used = [one for one in report.changes if one.queue == "east/there"]
    assert sum(one.amount for one in used) == 0
    assert [one.amount for one in used if one.at == 60.0] == [1000], "the first clone gives nothing back"


def test_the_time_out_of_a_clone_that_is_gone_comes_to_nothing(tmp_path):
    """The second job has quota and no node in the cluster; the third one takes its quota at the manager."""
    kind = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 9\n"
    label = "kind: Job\n      metadata: {labels: {kueue.x-k8s.io/priority-class: high}}\n"
    works = [clusters.work(1, run="3h"), clusters.work(1, name="v", at=30, run="3h")]
    works.append(clusters.work(1, name="h", at=60, run="3h").replace("kind: Job\n", label))
    one = [clusters.cluster("east", 9, nodes=1)]
    settings = readiness.waiting(300)
    jobs = clusters.play(tmp_path, one, works, quota=2, edit=lambda text: text + kind, configuration=settings).jobs
    assert [job.ended is not None for job in jobs] == [True, True, True]


def test_a_job_of_a_state_keeps_to_its_flavor(tmp_path):
    """Its node of zone a is lost. Zone b has room, and is of another flavor."""

    async def run(q):
        await q.queue(cpu=4)
        await states.submit(q, "j", 1, 600)
        await q.world.elapse(5.0)
        return await states.snapshot(q)

    document = states.run_story(run)
    items = document["spec"]["items"]
    [flavor] = [one for one in items if one["kind"] == "ResourceFlavor"]
    flavor["spec"] = {"nodeLabels": {"zone": "a"}}
    [pod] = [one for one in items if one["kind"] == "Pod"]
    labels = {name: {"kubernetes.io/hostname": name, "zone": zone} for name, zone in (("n1", "a"), ("n2", "b"))}
    pod["spec"]["nodeName"] = "n1"
    nodes = [NODE | {"metadata": {"name": name, "labels": each}} for name, each in labels.items()]
    document["spec"]["items"] = [*(one for one in items if one["kind"] != "Node"), *nodes]
    after = "  changes:\n  - at: 10s\n    lose: {nodes: [n1], for: 100s}\n  until: 2h\n"
    report = states.play(tmp_path, document, after=after)
    assert {report.nodes.names[node] for node in report.nodes.nodes} == {"n1"}
    assert [job.interruptions for job in report.jobs] == [1]
