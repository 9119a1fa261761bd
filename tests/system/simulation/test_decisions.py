"""The record of what a simulation decided, and why."""

from collections import Counter

import msgspec
from tests.system.simulation import test_changes as changes
from tests.system.simulation import test_multikueue as multikueue
from tests.system.simulation.test_simulation import FLAVOR, JOB, NODES, play, queue, scenario

from muster.api.ours.decisions import Decision
from muster.simulation.outcome.report import DECISIONS, write_report

TWO_TEAMS = scenario(
    (NODES % 16)
    + f"""  work:
  - name: a
    queue: a
    arrivals: {{burst: {{at: [0], count: 20}}}}
    runTime: 10m
    template:{JOB}
  - name: b
    queue: b
    arrivals: {{burst: {{at: [1m], count: 1}}}}
    runTime: 5m
    size: 4
    template:{JOB}
""",
    FLAVOR + queue("a", 8) + queue("b", 8),
)


def test_a_simulation_records_what_it_decided_and_the_numbers(tmp_path):
    report = play(tmp_path, TWO_TEAMS, decisions=1_000)
    of_b = [one for one in report.decisions if one.job == "default/b-0"]
    assert [one.what for one in of_b] == ["Preempting", "Waiting", "QuotaReserved", "Placed"]
    preempting, waiting, reserved, placed = of_b
    assert [(one.rule, one.job.startswith("default/a-")) for one in preempting.others] == [
        ("InCohortReclamation", True)
    ] * 4
    assert waiting.rule == "WaitingForPreemptedWorkloads"
    assert [(one.asked, one.nominal, one.used, one.available) for one in reserved.amounts] == [(4_000, 8_000, 4_000, 0)]
    assert sum(placed.nodes.values()) == placed.pods == 4
    victims = [one for one in report.decisions if one.what == "Preempted"]
    assert {one.job for one in victims} == {one.job for one in preempting.others}
    assert {victim.others[0].job for victim in victims} == {"default/b-0"}


def test_the_record_agrees_with_the_outcome(tmp_path):
    report = play(tmp_path, TWO_TEAMS, decisions=1_000)
    counts = Counter(one.what for one in report.decisions)
    assert counts["Preempted"] == sum(job.evictions for job in report.jobs)
    assert counts["Placed"] == counts["QuotaReserved"] == len(report.jobs) + counts["Preempted"]
    first: dict[str, float] = {}
    for one in report.decisions:
        if one.what == "Placed":
            first.setdefault(one.name, (one.at - report.decisions[0].at).total_seconds())
    assert first == {job.name: job.started for job in report.jobs}


def test_a_gang_without_room_on_the_nodes_says_so_once(tmp_path):
    body = f"""  work:
  - name: j
    arrivals: {{burst: {{at: [0], count: 3}}}}
    runTime: 10m
    size: 2
    template:{JOB}
"""
    report = play(tmp_path, scenario((NODES % 2) + body), decisions=1_000)
    assert [(one.name, one.what, one.rule) for one in report.decisions] == [
        ("j-0", "Placed", "start"),
        ("j-1", "Unplaced", "NoRoom"),
        ("j-2", "Unplaced", "NoRoom"),
        ("j-1", "Placed", "start"),
        ("j-2", "Placed", "start"),
    ]
    assert report.decisions[1].because.startswith("0/2 nodes are available")


def test_the_report_has_the_newest_decisions_only_and_the_outcome_is_the_same(tmp_path):
    none, few = play(tmp_path, TWO_TEAMS), play(tmp_path, TWO_TEAMS, decisions=5)
    assert (list(none.decisions), none.decided) == ([], 0)
    assert list(none.jobs) == list(few.jobs)
    all_of_them = play(tmp_path, TWO_TEAMS, decisions=1_000)
    assert list(few.decisions) == list(all_of_them.decisions)[-5:]
    assert few.decided == all_of_them.decided == len(all_of_them.decisions)


def test_the_folder_of_a_report_has_the_decisions_line_by_line(tmp_path):
    report = play(tmp_path, TWO_TEAMS, decisions=1_000)
    write_report(report, tmp_path / "out")
    lines = (tmp_path / "out" / DECISIONS).read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Decision) for line in lines] == list(report.decisions)


def tell(report):
    return [(one.what, one.rule, sorted(one.nodes.items())) for one in report.decisions]


def test_a_queue_that_is_drained_evicts_and_says_so(tmp_path):
    stop = "{at: 50, stop: {clusterQueue: q, policy: HoldAndDrain, for: 450}}"
    report = changes.play(tmp_path, changes.scenario([stop], changes.burst()), decisions=1_000)
    assert [(what, rule) for what, rule, _ in tell(report) if what != "Waiting"] == [
        ("QuotaReserved", ""),
        ("Placed", "start"),
        ("Evicted", "ClusterQueueStopped"),
        ("QuotaReserved", ""),
        ("Placed", "start"),
    ]


def test_a_gang_that_lost_a_node_is_placed_for_repair(tmp_path):
    lose = "{at: 50, lose: {nodes: [n-0]}}"
    report = changes.play(tmp_path, changes.scenario([lose], changes.burst(size=2), nodes=3), decisions=1_000)
    assert tell(report)[1:] == [
        ("Placed", "start", [("n-0", 1), ("n-1", 1)]),
        ("Interrupted", "NodeLost", []),
        ("Placed", "repair", [("n-2", 1)]),
    ]


def test_a_manager_records_where_it_sends_a_job_and_what_a_lost_cluster_does(tmp_path):
    east = multikueue.cluster("east", 1, more=multikueue.LOST % ", for: 2h")
    report = multikueue.play(tmp_path, [east], [multikueue.work(1, run="1h")], decisions=1_000)
    assert [(one.what, one.rule, one.queue, one.clusters) for one in report.decisions if one.what != "Waiting"] == [
        ("QuotaReserved", "", "here", ()),
        ("Nominated", "east", "here", ("east",)),
        ("Dispatched", "", "here", ("east",)),
        ("Evicted", "AdmissionCheck", "here", ()),
        ("Recalled", "ClusterLost", "here", ("east",)),
        ("QuotaReserved", "", "here", ()),
        ("Nominated", "east", "here", ("east",)),
        ("Dispatched", "", "here", ("east",)),
    ]


def test_a_gang_that_loses_a_node_for_good_gives_the_other_back(tmp_path):
    body = f"""  until: 1h
  changes:
  - {{at: 60, lose: {{nodes: [n-1]}}}}
  work:
  - name: j
    arrivals: {{burst: {{at: [0], count: 1}}}}
    runTime: 10m
    size: 2
    template:{JOB}
"""
    report = play(tmp_path, scenario((NODES % 2) + body), decisions=1_000)
    began = report.decisions[0].at
    told = [((one.at - began).total_seconds(), one.what, one.rule, one.because) for one in report.decisions]
    assert [one for one in told if one[1] in ("Interrupted", "GaveBack")] == [
        (60.0, "Interrupted", "NodeLost", "it lost its pods on node n-1"),
        (360.0, "GaveBack", "RecoveryTimeout", "found no room for 1 of its pods within 5m0s"),
    ]
