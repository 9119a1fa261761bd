"""Jobs that ask for a topology start where admission places them, and wait while there is no place."""

import pytest
from tests.system.simulation.test_simulation import JOB, burst, play, queue, scenario

# Two racks of two hosts with two CPUs each.
NODES = "".join(
    f"""
---
apiVersion: v1
kind: Node
metadata: {{name: n-{rack}{host}, labels: {{pool: gpu, rack: {rack}, kubernetes.io/hostname: h-{rack}{host}}}}}
status: {{allocatable: {{cpu: "2"}}}}
"""
    for rack in "ab"
    for host in "12"
)
FLAVOR = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
spec: {nodeLabels: {%s}, topologyName: t}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: t}
spec: {levels: [%s]}
"""
HOSTS = FLAVOR % ("pool: gpu", "{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}")
RACKS = FLAVOR % ("pool: gpu", "{nodeLabel: rack}")


def asking(how):
    return JOB.replace(
        "          spec:", f"          metadata: {{annotations: {{kueue.x-k8s.io/podset-{how}}}}}\n          spec:"
    )


def work(name, at, size, how, *, run="100s", queued="q", cpus=1):
    job = (asking(how) if how else JOB).replace('cpu: "1"', f'cpu: "{cpus}"')
    job = job.replace("parallelism: 1", f"parallelism: {size}").replace("completions: 1", f"completions: {size}")
    text = burst(1, name=name, queued=queued, run=run, job=job)
    return text.replace("at: [0]", f"at: [{at}]")


def starts(report):
    return {job.name.removesuffix("-0"): job.started for job in report.jobs}


@pytest.mark.parametrize("topology", [HOSTS, RACKS])
@pytest.mark.parametrize(
    ("how", "started"),
    [
        ("required-topology: rack", 100.0),
        ("preferred-topology: rack", 1.0),
        ('unconstrained-topology: "true"', 1.0),
    ],
)
def test_a_job_waits_for_one_rack_only_if_it_requires_that(tmp_path, topology, how, started):
    """One CPU of each rack is taken: the quota of four is there, and a rack for four is not."""
    works = [
        work("x", 0, 3, "required-topology: rack"),
        work("y", 0, 3, "required-topology: rack", run="200s"),
        work("z", 1, 2, how),
    ]
    report = play(tmp_path, scenario("  work:\n" + "".join(works), topology + queue("q", 8) + NODES))
    assert starts(report) == {"x": 0.0, "y": 0.0, "z": started}


@pytest.mark.parametrize("topology", [HOSTS, RACKS])
@pytest.mark.parametrize("other", ["q", "r"])
def test_the_forecast_of_a_job_that_requires_one_rack_waits_for_it(tmp_path, topology, other):
    """The quota is there from the start. other: the queue of the job that stays longest, also one of another Cohort."""
    works = [
        work("x", 0, 3, "required-topology: rack"),
        work("y", 0, 3, "required-topology: rack", run="200s", queued=other),
        work("z", 1, 2, "required-topology: rack"),
    ]
    works = [one.replace("    runTime: ", "    limit: 300s\n    runTime: ") for one in works]
    text = scenario(
        "  forecasts: all\n  work:\n" + "".join(works), topology + queue("q", 8) + queue("r", 8, cohort="alone") + NODES
    )
    job = next(job for job in play(tmp_path, text).jobs if job.name == "z-0")
    assert (job.wait, job.forecast) == (99.0, 299.0), "the first rack is expected to be free after the limit"


def test_a_job_that_fits_on_no_rack_is_told_why(tmp_path):
    works = [work("big", 0, 5, "required-topology: rack"), work("small", 0, 4, "required-topology: rack")]
    report = play(tmp_path, scenario("  work:\n" + "".join(works), HOSTS + queue("q", 8) + NODES))
    assert starts(report) == {"big": None, "small": 0.0}
    [waiting] = report.waiting
    assert waiting.name == "big-0"
    assert waiting.why.startswith("couldn't assign flavors to pod set main: topology")
    assert waiting.never


def test_pods_without_a_place_take_room_of_those_that_need_one(tmp_path):
    """A job without a queue is on one host of each rack."""
    works = [work("other", 0, 2, "", queued="", cpus=2), work("z", 1, 4, "required-topology: rack")]
    report = play(tmp_path, scenario("  work:\n" + "".join(works), HOSTS + queue("q", 8) + NODES))
    assert starts(report) == {"other": 0.0, "z": 1.0}, "the other job fills one rack"
    works = [work("other", 0, 3, "", queued="", cpus=2), work("z", 1, 4, "required-topology: rack")]
    report = play(tmp_path, scenario("  work:\n" + "".join(works), HOSTS + queue("q", 8) + NODES))
    assert starts(report) == {"other": 0.0, "z": 100.0}, "it needs the second rack, too"


def test_an_evicted_job_gives_its_places_back(tmp_path):
    """The queue of `own` reclaims its quota, and the rack with it."""
    quotas = queue("own", 4) + queue("lent", 4)
    works = [
        work("a", 0, 4, "required-topology: rack", queued="lent"),
        work("b", 0, 4, "required-topology: rack", queued="lent"),
        work("c", 5, 4, "required-topology: rack", queued="own"),
    ]
    report = play(tmp_path, scenario("  work:\n" + "".join(works), HOSTS + quotas + NODES))
    assert starts(report)["c"] == 5.0
    assert sum(job.evictions for job in report.jobs) == 1
    assert sorted(job.ended for job in report.jobs) == [100.0, 105.0, 200.0]


def test_slices_stay_together(tmp_path):
    """Slices of two pods need a host each: three hosts with one free CPU take none."""
    slices = "required-topology: rack, kueue.x-k8s.io/podset-slice-required-topology: kubernetes.io/hostname, "
    slices += 'kueue.x-k8s.io/podset-slice-size: "2"'
    works = [
        work("one", 0, 1, "required-topology: rack"),
        work("pairs", 1, 4, slices),
        work("late", 2, 4, slices),
    ]
    report = play(tmp_path, scenario("  work:\n" + "".join(works), HOSTS + queue("q", 8) + NODES))
    assert starts(report) == {"one": 0.0, "pairs": 1.0, "late": 100.0}


LOSE = "  changes:\n  - {at: 50, lose: {nodes: [n-a1]}}\n  work:\n"


@pytest.mark.parametrize(
    ("how", "evictions"),
    [("required-topology: rack", 1), ("preferred-topology: rack", 0)],
    ids=["required", "preferred"],
)
def test_a_lost_node_is_replaced_where_its_job_may_go(tmp_path, how, evictions):
    """Two of three pods are lost, and the rack has room for one of them: another rack takes both, or all three."""
    works = work("a", 0, 3, how)
    report = play(tmp_path, scenario(LOSE + works, HOSTS + queue("q", 8) + NODES))
    [job] = report.jobs
    assert (job.interruptions, job.evictions, job.ended) == (1, evictions, 150.0)
    log, stays = report.nodes, range(len(report.nodes))
    before, after = (
        {log.names[log.nodes[stay]]: log.pods[stay] for stay in stays if log.starts[stay] == at} for at in (0.0, 50.0)
    )
    assert before == {"n-a1": 2, "n-a2": 1}
    assert after == ({"n-b1": 2, "n-b2": 1} if evictions else {"n-a2": 1, "n-b1": 2})


def test_a_job_that_loses_several_nodes_is_admitted_again(tmp_path):
    both = LOSE.replace("[n-a1]", "[n-a1, n-a2]")
    report = play(tmp_path, scenario(both + work("a", 0, 4, "preferred-topology: rack"), HOSTS + queue("q", 8) + NODES))
    [job] = report.jobs
    assert (job.interruptions, job.evictions, job.ended) == (1, 1, 150.0)


def test_a_job_in_a_rack_keeps_its_place_and_its_other_nodes(tmp_path):
    """Where racks are the lowest level, no single node is chosen, and none is replaced."""
    report = play(tmp_path, scenario(LOSE + work("a", 0, 2, "required-topology: rack"), RACKS + queue("q", 8) + NODES))
    [job] = report.jobs
    assert (job.interruptions, job.evictions, job.ended) == (1, 0, 150.0)
