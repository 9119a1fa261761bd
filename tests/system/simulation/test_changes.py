"""Scenarios in which nodes break, are drained, come and go, queues change, and the engine restarts."""

import re
from collections import Counter
from itertools import pairwise
from math import exp
from pathlib import Path

import pytest

from muster.api.config import EMBEDDED
from muster.simulation.engine.site import build_site
from muster.simulation.engine.world import World
from muster.simulation.outcome.report import write_report
from muster.simulation.scenario.changes import ACTIONS
from muster.simulation.scenario.reading import read_scenario
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "simulate" / "faults.yaml"
JOB = """
      apiVersion: batch/v1
      kind: Job
      spec:
        completionMode: Indexed
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""
QUEUE = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "%d"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q}
spec: {clusterQueue: q}
"""
HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"


def pool(count):
    return f"""  nodes:
  - name: n
    count: {count}
    template: {{metadata: {{labels: {{rack: a}}}}, status: {{allocatable: {{cpu: "1", pods: "1"}}}}}}
"""


def burst(name="w", *, count=1, run=100, size=1, queued="q", at=0, more=""):
    return f"""  - name: {name}
    queue: "{queued}"
    arrivals: {{burst: {{at: [{at}], count: {count}}}}}
    runTime: {run}
    size: {size}
{more}    template:{JOB}"""


def scenario(changes, *works, nodes=4, quota=100, until=""):
    lines = "".join(f"  - {change}\n" for change in changes)
    body = (pool(nodes) if nodes else "") + "  work:\n" + "".join(works)
    return HEAD + (f"  until: {until}\n" if until else "") + body + f"  changes:\n{lines}" + QUEUE % quota


def write(tmp_path, text):
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return str(file)


def play(tmp_path, text, **options):
    return simulate(write(tmp_path, text), **options)


def times(report):
    return [(job.started, job.ended) for job in report.jobs]


def test_the_example_loses_less_with_checkpoints(tmp_path):
    report = simulate(str(EXAMPLE))
    assert report.holds, report.verdicts
    total = report.summary.total
    assert total.interruptions > 10
    text, number = re.subn(r"    checkpoint: .*\n", "", EXAMPLE.read_text())
    assert number == 1
    assert play(tmp_path, text).summary.total.interrupted > 10 * total.interrupted > 0


def test_the_changes_of_the_page_are_changes(tmp_path):
    page = (ROOT / "docs" / "simulate-faults.md").read_text()
    [listed] = re.findall(r"^```yaml\n(  changes:\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    before, _, after = EXAMPLE.read_text().partition("  changes:\n")
    _, _, after = after.partition("  assert:\n")
    report = play(tmp_path, before + listed + "  assert:\n" + after)
    assert report.summary.total.interruptions > 10
    assert report.summary.total.evictions > 0
    for action, fields in re.findall(r"^\| `(\w+): \{(.*?)\}` \|", page, re.MULTILINE):
        if action in ACTIONS:
            when = "" if action == "fail" else "at: 1, "
            change = f"{{{when}{action}: {{{fields}}}}}"
            text = scenario([change], burst(queued=""), until="1h").replace("name: n\n", "name: gpu\n")
            text = text.replace("rack: a", "rack: r1").replace("name: q}", "name: team}")
            play(tmp_path, text.replace("clusterQueue: q}", "clusterQueue: team}"))


# Nodes.


@pytest.mark.parametrize(
    ("change", "nodes", "ended", "lost"),
    [
        # There is another node: the gang starts whole at once.
        ("{at: 40, lose: {nodes: [n-0]}}", 3, 140.0, 80.0),
        ("{at: 40, drain: {nodes: [n-0]}}", 3, 140.0, 80.0),
        # Both nodes are needed.
        ("{at: 40, lose: {nodes: [n-0], for: 1000}}", 2, 1140.0, 80.0),
        ("{at: 40, drain: {nodes: [n-0], for: 1000}}", 2, 1140.0, 80.0),
        ("{at: 40, lose: {pool: n, for: 1000}}", 2, 1140.0, 80.0),
        ("{at: 40, lose: {labels: {rack: a}, for: 1000}}", 2, 1140.0, 80.0),
        ("{at: 40, lose: {pool: n, count: 1, for: 1000}}", 2, 1140.0, 80.0),
        ("{at: [40, 50], lose: {nodes: [n-0], for: 1000}}", 2, 1150.0, 80.0),
        ("{at: [40, 1090], lose: {nodes: [n-0], for: 1000}}", 2, 2190.0, 180.0),
        # A cordon leaves what runs alone.
        ("{at: 40, cordon: {nodes: [n-0], for: 1000}}", 2, 100.0, 0.0),
        ("{at: 40, scale: {pool: n, count: 1}}", 2, None, 80.0),
        ("{at: 40, scale: {pool: n, count: 2}}", 3, 100.0, 0.0),
        ("{at: 40, lose: {nodes: [n-2]}}", 3, 100.0, 0.0),
        # The job ends first.
        ("{at: 100, lose: {nodes: [n-0], for: 1000}}", 2, 100.0, 0.0),
    ],
)
def test_a_gang_that_loses_a_node_starts_whole_again(tmp_path, change, nodes, ended, lost):
    report = play(tmp_path, scenario([change], burst(size=2), nodes=nodes))
    [job] = report.jobs
    assert (job.started, job.ended, job.lost, job.interrupted) == (0.0, ended, lost, lost)
    assert job.evictions == 0 or ended is None, "one that waits for ever is evicted for its pods that are not ready"
    assert job.interruptions == (0 if not lost else 2 if lost > 100 else 1)


JOBSET = """
      apiVersion: jobset.x-k8s.io/v1alpha2
      kind: JobSet
      spec:
        replicatedJobs:
        - name: w
          template:
            spec:
              backoffLimit: %d
              template:
                spec:
                  restartPolicy: Never
                  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""


@pytest.mark.parametrize(
    ("template", "starts"),
    [
        # Others replace the pods that a Job lost before they start anything new.
        (JOB, {"w-0": 0.0, "v-0": 190.0}),
        (JOBSET % 6, {"w-0": 0.0, "v-0": 190.0}),
        # Its JobSet creates all pods again, which are younger than those that wait.
        (JOBSET % 0, {"w-0": 0.0, "v-0": 90.0}),
    ],
)
def test_a_job_keeps_its_other_nodes_unless_its_pods_start_together(tmp_path, template, starts):
    works = (burst(size=2).replace(JOB, template), burst("v", size=2, at=10))
    report = play(tmp_path, scenario(["{at: 40, lose: {nodes: [n-0], for: 50}}"], *works, nodes=2))
    assert {job.name: job.started for job in report.jobs} == starts
    assert {job.name: job.interruptions for job in report.jobs} == {"w-0": 1, "v-0": 0}


def test_a_gang_that_stays_broken_gives_its_nodes_back(tmp_path):
    """After five minutes, which is the default of `recoveryTimeout`. Then it waits for room for all its pods."""
    works = (burst(size=3), burst("v", at=50, run=1000))
    report = play(tmp_path, scenario(["{at: 40, lose: {nodes: [n-0], for: 900}}"], *works, nodes=3))
    assert times(report) == [(0.0, 1440.0), (340.0, 1340.0)]
    assert [(job.interruptions, job.lost) for job in report.jobs] == [(1, 120.0), (0, 0.0)]


def test_a_broken_gang_loses_more_nodes_and_is_interrupted_once(tmp_path):
    changes = [f"{{at: {40 + 10 * number}, lose: {{nodes: [n-{number}], for: 100}}}}" for number in range(3)]
    report = play(tmp_path, scenario(changes, burst(size=3), nodes=3))
    assert times(report) == [(0.0, 260.0)]
    assert [(job.interruptions, job.lost) for job in report.jobs] == [(1, 120.0)]


@pytest.mark.parametrize(
    ("template", "ended"),
    [(JOB, 150.0), (JOBSET % 0, 250.0)],  # a JobSet's Jobs are created again, and with them their limits
)
@pytest.mark.parametrize("lasts", [60, 9000])
def test_the_time_limit_of_a_job_goes_on_while_it_is_broken(tmp_path, template, ended, lasts):
    work = burst(size=2, run=500, more="    limit: 150\n").replace(JOB, template)
    change = f"{{at: 40, lose: {{nodes: [n-0], for: {lasts}}}}}"
    report = play(tmp_path, scenario([change], work, burst("v", at=60, run=1), nodes=2))
    ends = {job.name: job.ended for job in report.jobs}
    if template == JOB:
        assert ends == {"w-0": ended, "v-0": 151.0}
    else:
        assert ends == {"w-0": ended if lasts == 60 else 40 + 9000 + 150, "v-0": 61.0}


@pytest.mark.parametrize("node", ["nodes: [n-0]", "pool: n"])
@pytest.mark.parametrize("more", ["", "{at: 39, restart: {for: 5000}}"])
def test_the_time_limit_of_a_job_ends_it_while_it_waits_for_all_its_nodes(tmp_path, node, more):
    changes = [f"{{at: 40, lose: {{{node}, for: 6000}}}}", *([more] if more else [])]
    works = (burst(size=2, run=5000, more="    limit: 1000\n"), burst("v", size=2, at=7000))
    assert times(play(tmp_path, scenario(changes, *works, nodes=2))) == [(0.0, 1000.0), (7000.0, 7100.0)]


def test_a_scheduler_that_restarts_counts_from_its_start(tmp_path):
    changes = ["{at: 40, lose: {nodes: [n-0], for: 9000}}", "{at: 200, restart: {for: 100}}"]
    report = play(tmp_path, scenario(changes, burst(size=2), burst("v", at=50), nodes=2))
    assert [job.started for job in report.jobs] == [0.0, 600.0]


def test_a_broken_gang_that_is_evicted_asks_for_all_its_nodes(tmp_path):
    changes = [
        "{at: 40, lose: {nodes: [n-0], for: 100}}",
        "{at: 50, stop: {clusterQueue: q, policy: HoldAndDrain, for: 10}}",
    ]
    report = play(tmp_path, scenario(changes, burst(size=2), nodes=2))
    assert times(report) == [(0.0, 240.0)]
    assert [(job.interruptions, job.evictions, job.lost) for job in report.jobs] == [(1, 1, 80.0)]


@pytest.mark.parametrize("order", [1, -1])
def test_changes_of_one_moment_happen_in_the_order_of_the_list(tmp_path, order):
    """A gang that loses a node and its quota waits in its queue; one that has lost its quota has no nodes to lose."""
    changes = [
        "{at: 40, lose: {nodes: [n-0], for: 10}}",
        "{at: 40, stop: {clusterQueue: q, policy: HoldAndDrain, for: 500}}",
    ]
    report = play(tmp_path, scenario(changes[::order], burst(size=2), nodes=3))
    assert times(report) == [(0.0, 640.0)]
    assert (report.jobs[0].interruptions, report.jobs[0].evictions) == ((1, 1) if order == 1 else (0, 1))


def test_changes_happen_before_jobs_come(tmp_path):
    report = play(tmp_path, scenario(["{at: 50, lose: {pool: n, count: 3, for: 9}}"], burst(count=4, at=50, queued="")))
    assert [job.interruptions for job in report.jobs] == [0, 0, 0, 0]
    assert Counter(job.started for job in report.jobs) == {50.0: 1, 59.0: 3}


def test_the_time_limit_of_a_job_starts_again_with_its_quota(tmp_path):
    change = "{at: 40, stop: {clusterQueue: q, policy: HoldAndDrain, for: 10}}"
    report = play(tmp_path, scenario([change], burst(run=500, more="    limit: 150\n")))
    assert times(report) == [(0.0, 200.0)]


def test_a_pool_grows_and_shrinks(tmp_path):
    changes = ["{at: 10, scale: {pool: n, count: 3}}", "{at: 150, scale: {pool: n, count: 0}}"]
    report = play(tmp_path, scenario(changes, burst(size=3), burst("v", at=50), nodes=1))
    assert times(report) == [(10.0, 110.0), (110.0, None)]
    assert [one.never for one in report.waiting] == [True]


def test_the_report_says_how_each_node_changes(tmp_path):
    changes = [
        "{at: 10, lose: {nodes: [n-1, n-0], for: 20}}",
        "{at: 15, drain: {nodes: [n-0], for: 30}}",
        "{at: 50, scale: {pool: n, count: 1}}",
        "{at: 55, scale: {pool: n, count: 2}}",
    ]
    report = play(tmp_path, scenario(changes, burst(), nodes=2))
    assert [(one.at, one.node, one.state) for one in report.node_changes] == [
        (10.0, "n-1", "lost"),
        (10.0, "n-0", "lost"),
        (15.0, "n-0", "lost"),
        (30.0, "n-1", "ready"),
        (30.0, "n-0", "cordoned"),
        (45.0, "n-0", "ready"),
        (50.0, "n-1", "gone"),
        (55.0, "n-1", "ready"),
    ]
    write_report(report, tmp_path / "out")
    assert (tmp_path / "out" / "nodes.csv").read_text().splitlines()[:2] == ["at,node,state", "10.0,n-1,lost"]
    write_report(play(tmp_path, scenario(["{at: 10, restart: {for: 1}}"], burst())), tmp_path / "other")
    assert not (tmp_path / "other" / "nodes.csv").exists()


def test_a_node_that_is_cordoned_takes_nothing_new(tmp_path):
    report = play(
        tmp_path, scenario(["{at: 0, cordon: {nodes: [n-0], for: 500}}"], burst(count=2), burst("v"), nodes=2)
    )
    assert times(report) == [(0.0, 100.0), (100.0, 200.0), (200.0, 300.0)]


def test_a_node_with_two_causes_is_back_when_both_have_ended(tmp_path):
    changes = ["{at: 10, lose: {nodes: [n-0], for: 500}}", "{at: 20, drain: {nodes: [n-0], for: 100}}"]
    report = play(tmp_path, scenario(changes, burst(), nodes=1))
    assert times(report) == [(0.0, 610.0)]


FAILING = [
    "{fail: {pool: n, mtbf: 2h, mttr: 20m}}",
    "{arrivals: {poisson: {every: 3h}}, drain: {pool: n, count: 3, for: 30m}}",
    "{arrivals: {uniform: {every: 5h}}, cordon: {labels: {rack: a}, count: 2, for: {exponential: {mean: 10m}}}}",
    "{at: 6h, scale: {pool: n, count: 12}}",
    "{at: 12h, scale: {pool: n, count: 7}}",
    "{at: [3h, 9h], quota: {clusterQueue: q, nominalQuota: {cpu: 5}}}",
    "{at: [5h, 11h], quota: {clusterQueue: q, nominalQuota: {cpu: 9}}}",
    "{at: 8h, stop: {clusterQueue: q, policy: HoldAndDrain, for: 20m}}",
    "{arrivals: {poisson: {every: 4h}}, restart: {for: 3m}}",
]
WORK = (
    """  - name: w
    queue: q
    arrivals: {poisson: {every: 6m}}
    runTime: {exponential: {mean: 25m}}
    size: {uniform: {from: 1, to: 4}}
%s    template:"""
    + JOB
)


def failing(more=""):
    return scenario(FAILING, WORK % more, nodes=8, quota=9, until="1d")


@pytest.mark.parametrize("seed", range(4))
def test_nothing_runs_on_a_node_that_is_lost(tmp_path, seed):
    """A gang on a lost node, two on one node, and a node that was removed would each show."""
    file = write(tmp_path, failing().replace("spec:\n", f"spec:\n  seed: {seed}\n", 1))
    reading = read_scenario(file)
    world = World(reading, build_site(reading, EMBEDDED), EMBEDDED)
    moments = 0

    def check(_record):
        nonlocal moments
        moments += 1
        capacity = world.engine.machines.capacity
        for node, _guest in dict(capacity.guests.items()).values():
            index = capacity.index_of(node)
            assert index is not None, f"something runs on {node}, which is gone"
            assert capacity.traits[index].ready, f"something runs on {node}, which is lost"
        assert (capacity.free() >= 0).all()

    world.run(check)
    jobs = list(world.record.jobs())
    assert moments > 400
    assert sum(job.interruptions for job in jobs) > 30
    assert sum(job.evictions for job in jobs) > 0
    assert sum(job.ended is not None for job in jobs) > 50


@pytest.mark.parametrize("seed", range(4))
def test_no_quota_is_given_beyond_its_new_amount(tmp_path, seed):
    report = play(tmp_path, failing(), seed=seed)
    used, quota = 0, 9000
    edits = [(3 * 3600, 5000), (5 * 3600, 9000), (9 * 3600, 5000), (11 * 3600, 9000)]
    beyond = 0
    for change in report.changes:
        while edits and change.at >= edits[0][0]:
            quota = edits.pop(0)[1]
        used += change.amount
        assert change.amount < 0 or used <= quota
        beyond += used > quota
    assert not edits
    assert beyond or seed, "with seed 0, more is used than the new quota when it changes"


@pytest.mark.long
def test_the_same_seed_gives_the_same_failures(tmp_path, long):
    reports = [play(tmp_path, failing(), seed=seed) for seed in range(5 if long else 2)]
    for seed, (one, other) in enumerate(pairwise(reports)):
        same = play(tmp_path, failing(), seed=seed)
        assert list(one.jobs) == list(same.jobs)
        assert list(one.changes) == list(same.changes)
        assert list(one.jobs) != list(other.jobs)


def test_failures_do_not_depend_on_the_jobs(tmp_path):
    """Variants of a scenario can be compared: the nodes break at the same times in both."""
    fails = ["{fail: {pool: n, mtbf: 1h, mttr: 1m}}"]
    more, less = (
        play(tmp_path, scenario(fails, burst(run="9h", size=2, count=count), nodes=2, quota=2, until="8h"))
        for count in (1, 2)
    )
    assert more.jobs[0].interruptions > 2
    assert more.jobs[0] == less.jobs[0]


# Checkpoints.


@pytest.mark.parametrize(
    ("checkpoint", "ended", "lost"),
    [
        ("", 155.0, 110.0),
        ("{every: 10}", 105.0, 10.0),
        ("{every: 50}", 105.0, 10.0),
        ("{every: 60}", 155.0, 110.0),
        ("{every: 1000}", 155.0, 110.0),
        # Nine checkpoints of 1 s each: five of them are written when the gang is interrupted.
        ("{every: 10, cost: 1}", 109.0, 0.0),
        ("{every: 25, cost: 5}", 140.0, 50.0),
    ],
)
def test_a_job_loses_what_it_did_since_its_last_checkpoint(tmp_path, checkpoint, ended, lost):
    more = f"    checkpoint: {checkpoint}\n" if checkpoint else ""
    report = play(tmp_path, scenario(["{at: 55, lose: {nodes: [n-0]}}"], burst(size=2, more=more)))
    [job] = report.jobs
    assert (job.ended, job.lost) == (ended, lost)


@pytest.mark.parametrize(
    ("checkpoint", "segments"),
    [("", [2.0]), ("{every: 30m}", [0.5] * 4), ("{every: 30m, cost: 6m}", [0.6] * 3 + [0.5])],
)
def test_jobs_take_as_long_as_the_theory_of_failures_says(tmp_path, checkpoint, segments):
    """To do s hours of work without a failure, of which there are r an hour, takes (exp(rs) - 1) / r on average.

    Each job needs both nodes for two hours, and the nodes together break once an hour.
    """
    more = f"    checkpoint: {checkpoint}\n" if checkpoint else ""
    works = burst(size=2, count=400, run="2h", more=more)
    text = scenario(["{fail: {pool: n, mtbf: 2h, mttr: 1}}"], works, nodes=2, quota=2, until="400d")
    total = play(tmp_path, text).summary
    assert total.total.ended == 400
    mean = total.makespan / 3600 / 400
    assert mean == pytest.approx(sum(exp(hours) - 1 for hours in segments), rel=0.08)


def test_an_eviction_keeps_checkpoints_too(tmp_path):
    change = "{at: 55, stop: {clusterQueue: q, policy: HoldAndDrain, for: 45}}"
    report = play(tmp_path, scenario([change], burst(more="    checkpoint: {every: 10}\n"), nodes=0))
    [job] = report.jobs
    assert (job.ended, job.evictions, job.lost, job.interrupted) == (150.0, 1, 5.0, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_no_interruption_loses_more_than_an_interval(tmp_path, seed):
    report = play(tmp_path, failing("    checkpoint: {every: 3m, cost: 5s}\n"), seed=seed)
    assert report.summary.total.interruptions > 30
    for job in report.jobs:
        assert job.lost <= (job.evictions + job.interruptions) * 185 * job.pods + 1e-6
        assert job.interrupted <= job.interruptions * 185 * job.pods + 1e-6
        if job.ended is not None:
            assert job.ended - job.started >= job.run_time + (max(0, -(-job.run_time // 180) - 1)) * 5 - 1e-6


# Queues.


def test_quota_that_is_cut_takes_nothing_away(tmp_path):
    change = "{at: 10, quota: {clusterQueue: q, nominalQuota: {cpu: 1}}}"
    report = play(tmp_path, scenario([change], burst(count=6), nodes=0, quota=4))
    assert times(report) == [(0.0, 100.0)] * 4 + [(100.0, 200.0), (200.0, 300.0)]


def test_quota_that_grows_is_given_at_once(tmp_path):
    change = "{at: 10, quota: {clusterQueue: q, flavor: default, nominalQuota: {cpu: 6}}}"
    report = play(tmp_path, scenario([change], burst(count=6), nodes=0, quota=4))
    assert times(report) == [(0.0, 100.0)] * 4 + [(10.0, 110.0)] * 2


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("clusterQueue: q", [(0.0, 100.0), (500.0, 600.0)]),
        ("localQueue: q", [(0.0, 100.0), (500.0, 600.0)]),
        ("localQueue: default/q, policy: Hold", [(0.0, 100.0), (500.0, 600.0)]),
        ("clusterQueue: q, policy: HoldAndDrain", [(0.0, 600.0), (500.0, 600.0)]),
        ("localQueue: q, policy: HoldAndDrain", [(0.0, 600.0), (500.0, 600.0)]),
    ],
)
@pytest.mark.parametrize("released", [True, False])
def test_a_queue_that_is_stopped_admits_nothing_until_it_is_released(tmp_path, stop, expected, released):
    target = stop.partition(",")[0]
    changes = (
        [f"{{at: 50, stop: {{{stop}, for: 450}}}}"]
        if released
        else [f"{{at: 50, stop: {{{stop}}}}}", f"{{at: 500, stop: {{{target}, policy: None}}}}"]
    )
    text = scenario(changes, burst(), burst("v", at=60))
    report = play(tmp_path, text)
    assert times(report) == expected
    assert report.jobs[0].evictions == ("Drain" in stop)


def test_a_job_whose_queue_changes_after_the_end_does_not_wait_for_ever(tmp_path):
    changes = ["{at: 0, stop: {clusterQueue: q}}", "{at: 1d, stop: {clusterQueue: q, policy: None}}"]
    assert [one.never for one in play(tmp_path, scenario(changes, burst(), until="1h")).waiting] == [False]
    assert [one.never for one in play(tmp_path, scenario(changes[:1], burst(), until="1h")).waiting] == [True]


def test_a_change_that_sets_what_is_set_is_none(tmp_path):
    """A cluster writes nothing then, and its queues do not try their jobs again."""
    stops = ["{at: 50, stop: {clusterQueue: q, for: 40}}", "{at: 60, stop: {clusterQueue: q, for: 10}}"]
    quotas = [
        f"{{at: {at}, quota: {{clusterQueue: q, nominalQuota: {{cpu: {cpu}}}}}}}" for at, cpu in ((95, 4), (99, 5))
    ]
    file = tmp_path / "scenario.yaml"
    file.write_text(scenario([*stops, *quotas], burst(), nodes=0, quota=4))
    changes = [
        (one.at, one.definition.spec.stop_policy)
        for one in build_site(read_scenario(str(file)), EMBEDDED).redefinitions
    ]
    assert changes == [(50.0, "Hold"), (70.0, "None"), (99.0, "None")]


MANIFEST = "apiVersion: kueue.x-k8s.io/v1beta2, kind: %s, metadata: {name: %s}, spec: {%s}"


def test_a_manifest_changes_what_it_names(tmp_path):
    """A small job passes a large one, until the queue is strict."""
    change = "{at: 10, apply: {" + MANIFEST % ("ClusterQueue", "q", "queueingStrategy: StrictFIFO") + "}}"
    works = (burst(size=2), burst("large", size=3), burst("v", at=5), burst("u", at=20))
    report = play(tmp_path, scenario([change], *works, nodes=0, quota=4))
    starts = {job.name: job.started for job in report.jobs}
    assert starts == {"w-0": 0.0, "large-0": 100.0, "v-0": 5.0, "u-0": 105.0}


def test_a_cohort_lends_quota_from_a_change_on(tmp_path):
    quota = "resourceGroups: [{coveredResources: [cpu], flavors: [{name: default, resources: [%s]}]}]"
    cohort = MANIFEST % ("Cohort", "all", quota % '{name: cpu, nominalQuota: "2"}')
    changes = [
        "{at: 10, apply: {" + cohort + "}}",
        "{at: 20, apply: {" + MANIFEST % ("ClusterQueue", "q", "cohortName: all") + "}}",
        "{at: 30, quota: {cohort: all, nominalQuota: {cpu: 3}}}",
    ]
    report = play(tmp_path, scenario(changes, burst(count=5), nodes=0, quota=1))
    assert Counter(job.started for job in report.jobs) == {0.0: 1, 20.0: 2, 30.0: 1, 100.0: 1}


# The engine.


def test_an_engine_that_restarts_decides_nothing_meanwhile(tmp_path):
    """A job ends meanwhile, one comes, and one without a queue comes; a node is lost."""
    changes = ["{at: 50, restart: {for: 100}}", "{at: 60, lose: {nodes: [n-1], for: 10}}"]
    works = (burst(count=2), burst("v", at=70), burst("free", at=80, queued=""))
    report = play(tmp_path, scenario(changes, *works))
    starts = {job.name: (job.started, job.ended) for job in report.jobs}
    assert starts == {"w-0": (0.0, 100.0), "w-1": (0.0, 250.0), "v-0": (150.0, 250.0), "free-0": (150.0, 250.0)}


def test_an_engine_that_is_stopped_gives_neither_quota_nor_nodes(tmp_path):
    """Room comes free at 100: on the node for the second job, and in the queue for the third."""
    change = "{at: 50, restart: {for: 100}}"
    report = play(tmp_path, scenario([change], burst(count=3), nodes=1, quota=2))
    assert [job.started for job in report.jobs] == [0.0, 150.0, 250.0]
    assert [one.at for one in report.changes if one.amount > 0] == [0.0, 0.0, 150.0]


def test_an_engine_that_restarts_twice_at_once_is_back_after_both(tmp_path):
    changes = ["{at: 10, restart: {for: 100}}", "{at: 20, restart: {for: 20}}"]
    assert times(play(tmp_path, scenario(changes, burst(at=30))))[0][0] == 110.0


def test_a_restart_changes_nothing_of_who_comes_first(tmp_path):
    works = (burst(count=3, size=4), burst("v", count=5, size=3, at=10), burst("u", count=9, at=20))
    plain = play(tmp_path, scenario(["{at: 1d, restart: {for: 1}}"], *works))
    restarted = play(tmp_path, scenario(["{at: 50, restart: {for: 1}}"], *works))
    assert times(plain) == times(restarted)


# Ends.


def test_failures_end_with_the_last_job(tmp_path):
    report = play(tmp_path, scenario(["{fail: {pool: n, mtbf: 1d, mttr: 1m}}"], burst(), until="365d"))
    assert report.summary.seconds == 100.0


def test_failures_end_with_the_time_of_the_scenario_if_a_job_waits_for_ever(tmp_path):
    report = play(tmp_path, scenario(["{fail: {pool: n, mtbf: 1d, mttr: 1h}}"], burst(size=9), until="90d"))
    assert report.summary.seconds == 90 * 86_400
    assert [one.never for one in report.waiting] == [True]


def test_changes_after_the_last_job_do_not_count(tmp_path):
    changes = ["{at: 90d, scale: {pool: n, count: 9}}", "{at: 50, lose: {nodes: [n-3], for: 9d}}"]
    assert play(tmp_path, scenario(changes, burst())).summary.seconds == 100.0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("{at: 1}", "spec.changes[0]: exactly one of lose, fail, cordon"),
        ("{at: 1, lose: {pool: n}, drain: {pool: n}}", "spec.changes[0]: exactly one of lose, fail, cordon"),
        ("{lose: {pool: n}}", "spec.changes[0]: exactly one of at and arrivals is needed"),
        ("{at: -1, lose: {pool: n}}", "spec.changes[0].at: -1.0 is negative"),
        ("{at: [], lose: {pool: n}}", "spec.changes[0].at: holds no time"),
        ("{at: soon, lose: {pool: n}}", "spec.changes[0].at: invalid duration"),
        ("{at: 2025-12-31, lose: {pool: n}}", "spec.changes[0].at: 2025-12-31 is before the start, 2026-01-05T00:00"),
        ("{at: 1, lose: {}}", "spec.changes[0].lose: nodes, pool or labels are needed"),
        ("{at: 1, lose: {pool: m}}", "spec.changes[0].lose.pool: there is no pool m, but n"),
        ("{at: 1, lose: {nodes: [n-0, n-9]}}", "spec.changes[0].lose.nodes[1]: there is no node n-9"),
        ("{at: 1, lose: {labels: {rack: b}}}", "spec.changes[0].lose: there are no such nodes"),
        ("{at: 1, lose: {pool: n, count: 5}}", "spec.changes[0].lose.count: is more than the 4 nodes"),
        ("{at: 1, lose: {pool: n, count: 0}}", "spec.changes[0].lose.count: must be positive"),
        ("{at: 1, lose: {pool: n, for: -1}}", "spec.changes[0].lose.for: -1.0 is negative"),
        ("{at: 1, lose: {pool: n, for: {uniform: {from: 2, to: 1}}}}", "lose.for.uniform: to is less than from"),
        ("{at: 1, lose: {pool: n, hours: 3}}", "spec.changes[0].lose.hours: there is no such field"),
        ("{fail: {pool: n, mtbf: 1d, mttr: 1h}}", "spec.changes[0].fail: spec.until is needed"),
        ("{at: 1, fail: {pool: n, mtbf: 1d, mttr: 1h}}", "spec.changes[0].at: has no effect on fail"),
        ("{arrivals: {poisson: {every: 1h}}, restart: {for: 1}}", "spec.changes[0].arrivals: spec.until is needed"),
        ("{arrivals: {burst: {at: [1], count: 0}}, restart: {for: 1}}", "arrivals.burst.count: must be positive"),
        ("{arrivals: {poisson: {every: 1h}}, scale: {pool: n, count: 1}}", "arrivals: has no effect on scale"),
        ("{at: 1, scale: {pool: m, count: 1}}", "spec.changes[0].scale.pool: there is no pool m"),
        ("{at: 1, scale: {pool: n, count: 1000000}}", "spec.changes[0].scale.count: must be from 0 to 200000"),
        ("{at: 1, restart: {for: x}}", "spec.changes[0].restart.for: invalid duration"),
        ("{at: 1, stop: {}}", "spec.changes[0].stop: exactly one of clusterQueue and localQueue"),
        ("{at: 1, stop: {clusterQueue: x}}", "spec.changes[0].stop: no manifest defines the ClusterQueue x"),
        ("{at: 1, stop: {localQueue: a/q}}", "spec.changes[0].stop: no manifest defines the LocalQueue a/q"),
        ("{at: 1, stop: {clusterQueue: q, policy: Drain}}", "spec.changes[0].stop.policy: Invalid enum value"),
        ("{at: 1, stop: {clusterQueue: q, for: x}}", "spec.changes[0].stop.for: invalid duration"),
        ("{at: 1, quota: {clusterQueue: q}}", "spec.changes[0].quota: nominalQuota, borrowingLimit or lendingLimit"),
        ("{at: 1, quota: {nominalQuota: {cpu: 1}}}", "spec.changes[0].quota: exactly one of clusterQueue and cohort"),
        ("{at: 1, quota: {clusterQueue: q, nominalQuota: {gpu: 1}}}", "nominalQuota.gpu: there is no quota of gpu"),
        (
            "{at: 1, quota: {clusterQueue: q, nominalQuota: {cpu: -1}}}",
            "spec.changes[0].quota.nominalQuota.cpu: must be",
        ),
        ("{at: 1, quota: {clusterQueue: q, nominalQuota: {cpu: x}}}", "spec.changes[0].quota.nominalQuota.cpu: quant"),
        ("{at: 1, quota: {clusterQueue: q, flavor: f, nominalQuota: {cpu: 1}}}", "no quota of cpu in the flavor f"),
        (
            "{at: 1, quota: {clusterQueue: q, nominalQuota: {nvidia.com/gpu: 2.5}}}",
            "spec.changes[0].quota.nominalQuota.nvidia.com/gpu: must be an integer: 2.5",
        ),
        ("{at: 1, quota: {cohort: c, nominalQuota: {cpu: 1}}}", "no manifest defines the Cohort c"),
        ("{at: 1, apply: {kind: Node}}", "spec.changes[0].apply: is none of ClusterQueue of kueue.x-k8s.io/v1beta2"),
        ("{at: 1, apply: {" + MANIFEST % ("ClusterQueue", "x", "") + "}}", "no manifest defines the ClusterQueue x"),
        ("{at: 1, apply: {" + MANIFEST % ("ClusterQueue", "q", "stopPolicies: Hold") + "}}", "unknown field"),
        ("{at: 1, apply: {" + MANIFEST % ("LocalQueue", "q", "clusterQueue: r") + "}}", "spec.changes[0].apply: "),
        ("{at: 1, apply: {" + MANIFEST % ("Cohort", "../x", "") + "}}", "spec.changes[0].apply: invalid resource name"),
        (
            "{at: 1, apply: {" + MANIFEST % ("Cohort", "c", "") + ", status: {}}}",
            "spec.changes[0].apply.status: has no effect",
        ),
        (
            "{at: 1, apply: {apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort}}",
            "spec.changes[0].apply.metadata.name: is needed",
        ),
    ],
)
def test_a_change_that_is_wrong_is_told_where(tmp_path, change, problem):
    text = scenario([change], burst())
    with pytest.raises(ScenarioError) as refusal:
        play(tmp_path, text)
    assert problem in str(refusal.value)
    line = 1 + text[: text.index(f"  - {change}")].count("\n")
    assert f"scenario.yaml:{line}: " in str(refusal.value)


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        ("{every: 0}", "spec.work[0].checkpoint.every: must be at least 1s"),
        ("{every: 1.0e-300}", "spec.work[0].checkpoint.every: must be at least 1s"),
        ("{every: x}", "spec.work[0].checkpoint.every: invalid duration"),
        ("{every: 1, cost: -1}", "spec.work[0].checkpoint.cost: -1.0 is negative"),
        ("{cost: 1}", "spec.work[0].checkpoint"),
    ],
)
def test_a_checkpoint_that_is_wrong_is_told_where(tmp_path, checkpoint, problem):
    with pytest.raises(ScenarioError, match=re.escape(problem)):
        play(tmp_path, scenario([], burst(more=f"    checkpoint: {checkpoint}\n")).replace("  changes:\n", ""))


def test_changes_of_nodes_need_nodes(tmp_path):
    with pytest.raises(ScenarioError, match=re.escape("spec.changes[0].lose: there are no such nodes")):
        play(tmp_path, scenario(["{at: 1, lose: {labels: {rack: a}}}"], burst(), nodes=0))
