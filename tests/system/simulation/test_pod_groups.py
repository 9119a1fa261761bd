"""The pods of a job whose PodGroup asks for a level of a topology run in one domain of it, or the job waits."""

import pytest
from tests.system.simulation.test_simulation import play, scenario

from muster.simulation.scenario.source import ScenarioError

RACK = "example.com/rack"
COSCHEDULING = "apiVersion: scheduling.x-k8s.io/v1alpha1"


def rack(name, count):
    template = f'{{metadata: {{labels: {{{RACK}: {name}}}}}, status: {{allocatable: {{cpu: "2"}}}}}}'
    return f"\n  - {{name: {name}, count: {count}, template: {template}}}"


RACKS = f"  nodes:{rack('left', 2)}{rack('right', 2)}\n"


def job(name, at, pods, seconds, group=""):
    return f"""
  - name: {name}
    arrivals: {{burst: {{at: [{at}], count: 1}}}}
    runTime: {seconds}
    {f"podGroup: {group}" if group else ""}
    template:
      apiVersion: batch/v1
      kind: Job
      spec:
        completionMode: Indexed
        parallelism: {pods}
        completions: {pods}
        template:
          spec:
            restartPolicy: Never
            containers: [{{name: c, image: i, resources: {{requests: {{cpu: "1"}}}}}}]
"""


def group(how="required", level=RACK, spec="{}"):
    annotation = f"kueue.x-k8s.io/podset-{how}-topology: {level}"
    return f"{{{COSCHEDULING}, kind: PodGroup, metadata: {{annotations: {{{annotation}}}}}, spec: {spec}}}"


def run(tmp_path, works, *, spec=""):
    report = play(tmp_path, scenario(f"{spec}{RACKS}  work:{''.join(works)}"))
    return report, {one.name.rpartition("-")[0]: one for one in report.jobs}


@pytest.mark.parametrize(("how", "starts"), [("required", 100), ("preferred", 0)])
def test_a_job_waits_for_a_rack_that_it_requires(tmp_path, how, starts):
    """Each rack has two free processors, until the first two jobs end."""
    works = [job("a", 0, 2, 100, group()), job("b", 0, 3, 100, group()), job("gang", 0, 3, 10, group(how))]
    _, jobs = run(tmp_path, works)
    assert jobs["gang"].started == starts


def test_without_a_group_its_pods_may_be_in_two_racks(tmp_path):
    works = [job("a", 0, 2, 100, group()), job("b", 0, 3, 100, group()), job("gang", 0, 3, 10)]
    assert run(tmp_path, works)[1]["gang"].started == 0


def test_a_job_that_no_rack_takes_is_named(tmp_path):
    report, jobs = run(tmp_path, [job("gang", 0, 5, 10, group())])
    assert jobs["gang"].started is None
    assert [one.never for one in report.waiting] == [True]


def test_a_lost_pod_comes_back_where_the_others_run(tmp_path):
    """The other rack has room, but the other pods of the job keep their node in their rack until they give it back."""
    lost = "  changes:\n  - {at: 10, lose: {nodes: [left-1], for: 60}}\n"
    _, jobs = run(tmp_path, [job("gang", 0, 4, 100, group())], spec=lost)
    assert jobs["gang"].interruptions == 1
    assert jobs["gang"].ended == 70 + 100


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("{apiVersion: batch/v1, kind: Job}", r"podGroup\.kind: must be a PodGroup"),
        (group(spec="{minMember: 2}"), r"podGroup\.spec: its minimum is 2, but a job of a simulation starts with all"),
        (group(spec="{minMembers: many}"), "minMembers"),
    ],
)
def test_what_a_group_cannot_be_is_an_error(tmp_path, manifest, why):
    with pytest.raises(ScenarioError, match=why):
        run(tmp_path, [job("gang", 0, 4, 10, manifest)])
