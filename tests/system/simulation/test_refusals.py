"""What a simulation would ignore is refused before anything runs."""

import pytest
from tests.system.simulation.test_simulation import FLAVOR, JOB, burst, play, queue, scenario

from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

CHECK = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: c}
spec: {controllerName: kueue.x-k8s.io/%s}
"""


def checked(controller):
    text = queue("q", 1).replace("spec:\n", "spec:\n  admissionChecksStrategy: {admissionChecks: [{name: c}]}\n", 1)
    return scenario("  work:\n" + burst(1, queued="q"), FLAVOR + text + (CHECK % controller if controller else ""))


@pytest.mark.parametrize("controller", ["provisioning-request", ""])
def test_a_check_that_nobody_answers_is_refused(tmp_path, controller):
    with pytest.raises(ScenarioError, match="ClusterQueue q: AdmissionCheck c cannot be simulated: leave it out"):
        play(tmp_path, checked(controller))


LABELLED = FLAVOR + "spec: {nodeLabels: {gpu: %s}}\n"
NODES = "  nodes:\n  - {name: n, count: 1, template: {metadata: {labels: {gpu: a}}, status: {allocatable: {cpu: 1}}}}\n"
CIRCLE = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: a}
spec: {parentName: b}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: b}
spec: {parentName: a}
"""
IDLE = {
    "a circle of Cohorts": (
        "",
        FLAVOR + queue("q", 1, cohort="a") + CIRCLE,
        r"yaml:\d+: ClusterQueue q: spec.cohortName: Can't admit .*: its cohorts name each other in a circle$",
    ),
    "no flavor": (
        "",
        queue("q", 1),
        r"ClusterQueue q: spec.resourceGroups: Can't admit .*: references missing ResourceFlavor\(s\): default$",
    ),
    "no ClusterQueue": (
        "",
        FLAVOR + queue("q", 1).replace("clusterQueue: q", "clusterQueue: p"),
        "LocalQueue q: spec.clusterQueue: no manifest defines the ClusterQueue p$",
    ),
    "no nodes": (
        NODES,
        LABELLED % "b" + queue("q", 1),
        "ClusterQueue q: spec.resourceGroups: no node has the labels of ResourceFlavor default$",
    ),
}


@pytest.mark.parametrize("case", IDLE)
def test_a_queue_that_can_never_admit_is_refused(tmp_path, case):
    nodes, manifests, why = IDLE[case]
    with pytest.raises(ScenarioError, match=why):
        play(tmp_path, scenario(nodes + "  work:\n" + burst(1, queued="q"), manifests))


GPUS = """
      apiVersion: %s
      spec: %s
"""
POD = (
    "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {x.com/gpu: 1}}}]}}"
)
KINDS = {
    "batch/v1\n      kind: Job": f"{{{POD}}}",
    "jobset.x-k8s.io/v1alpha2\n      kind: JobSet": f"{{replicatedJobs: [{{name: r, template: {{spec: {{{POD}}}}}}}]}}",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_of_gpus_needs_a_limit(tmp_path, kind):
    job = GPUS % (kind, KINDS[kind])
    where = (
        r"yaml:\d+: spec\.work\[0\]\.template\.spec\..*containers\[0\]\.resources\.limits: Required value: Limit must"
    )
    with pytest.raises(ScenarioError, match=where + ".*: write an amount such as that of nvidia.com/gpu as a limit"):
        play(tmp_path, scenario("  work:\n" + burst(1, job=job)))
    report = play(tmp_path, scenario("  work:\n" + burst(1, job=job.replace("requests", "limits"))))
    assert [one.started for one in report.jobs] == [0.0]


def test_sizes_of_a_file_are_whole_numbers(tmp_path):
    (tmp_path / "sizes.txt").write_text("2\n2.5\n")
    with pytest.raises(ScenarioError, match=r"sizes\.txt:2: 2\.5 is no whole number"):
        play(tmp_path, scenario("  work:\n" + burst(1, more="    size: {empirical: sizes.txt}\n")))


def test_a_file_of_sizes_that_is_missing_is_named_with_its_field(tmp_path):
    with pytest.raises(ScenarioError, match=r"yaml:\d+: spec.work\[0\].size.empirical: .*no.txt: No such file"):
        play(tmp_path, scenario("  work:\n" + burst(1, more="    size: {empirical: no.txt}\n")))


def test_a_queue_is_taken_that_a_change_releases_or_gives_nodes(tmp_path):
    more = NODES.replace("count: 1", "count: 0") + "  changes:\n  - {at: 5s, scale: {pool: n, count: 1}}\n"
    stop = "  - {at: 0, stop: {clusterQueue: q, policy: Hold, for: 10s}}\n  work:\n"
    report = play(tmp_path, scenario(more + stop + burst(1, queued="q"), LABELLED % "a" + queue("q", 1)))
    assert [job.started for job in report.jobs] == [10.0]


def test_a_job_is_named_that_the_nodes_of_its_flavor_can_never_run(tmp_path):
    nodes = NODES + NODES.partition("\n")[2].replace("name: n", "name: m").replace("gpu: a", "gpu: b").replace(
        "cpu: 1", "cpu: 9"
    )
    job = JOB.replace('cpu: "1"', 'cpu: "2"')
    report = play(
        tmp_path, scenario(nodes + "  work:\n" + burst(1, queued="q", job=job), LABELLED % "a" + queue("q", 9))
    )
    [one] = report.waiting
    assert one.never
    assert one.why.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match")


def test_a_device_is_no_scenario():
    with pytest.raises(ScenarioError, match=r"^/dev/zero: is a device, not a file$"):
        simulate("/dev/zero")


@pytest.mark.parametrize("folder", [False, True])
def test_a_file_that_is_broken_before_it_names_its_kind_is_refused_as_such(tmp_path, folder):
    file = tmp_path / "scenario.yaml"
    file.write_text("apiVersion: [1\nmetadata: 2\n")
    with pytest.raises(ScenarioError, match=r"scenario\.yaml: yaml: .* at line 2, column 9$"):
        simulate(str(tmp_path if folder else file))


@pytest.mark.parametrize("field", ["manifests", "state"])
def test_a_missing_file_is_named_with_its_field(tmp_path, field):
    value = "[no.yaml]" if field == "manifests" else "no.yaml"
    with pytest.raises(ScenarioError, match=rf"yaml:\d+: spec.{field}(\[0\])?: .*no.yaml: No such file"):
        play(tmp_path, scenario(f"  {field}: {value}\n  work:\n" + burst(1)))
