"""A resource of nodes that is probably misspelt is named, and any other one is not."""

import pytest
from tests.system.simulation.test_simulation import FLAVOR, JOB, play, queue, scenario

from muster.simulation.outcome.page import render_report
from muster.simulation.runs import list_cases, simulate_all

GPUS = JOB.replace('requests: {cpu: "1"}', 'requests: {cpu: "1"}, limits: {nvidia.com/gpu: "1"}')
BODY = """  nodes:
  - name: right
    template: {status: {allocatable: {cpu: 8, nvidia.com/gpu: 8}}}
  - name: n
    template: {status: {allocatable: {%s}}}
  work:
  - name: w
    arrivals: {burst: {at: [0], count: 1}}
    runTime: 10s
    template: %s
"""


@pytest.mark.parametrize(
    ("resources", "remarks"),
    [
        ("cpus: 4, nvidia.com/gpu: 8", ["no job or quota names cpus, but cpu: is one of the two misspelt?"]),
        (
            "cpu: 4, nvidia.com/gpus: 8",
            ["no job or quota names nvidia.com/gpus, but nvidia.com/gpu: is one of the two misspelt?"],
        ),
        ("cpu: 4, gpu: 8", ["no job or quota names gpu, but nvidia.com/gpu: is one of the two misspelt?"]),
        ("cpu: 4, memory: 8Gi, amd.com/gpu: 8, nvidia.com/mig-1g.10gb: 1, example.com/fpga: 1", []),
        ("cpu: 4, nvidia.com/gpu: 8, nvidia.com/gpu.shared: 8", []),
    ],
)
def test_a_misspelt_resource_of_a_pool_is_named(tmp_path, resources, remarks):
    report = play(tmp_path, scenario(BODY % (resources, GPUS)))
    file = tmp_path / "scenario.yaml"
    assert report.remarks == [f"{file}:8: spec.nodes[1]: {remark}" for remark in remarks]
    assert all(remark in render_report(report) for remark in remarks)
    assert list(simulate_all(list_cases([str(file)], [], None)).runs[0].remarks) == report.remarks


def test_a_resource_of_a_quota_is_not_misspelt(tmp_path):
    quotas = '[{name: cpu, nominalQuota: "8"}, {name: cpus, nominalQuota: 1}]'
    more = queue("q", 8).replace("[cpu]", "[cpu, cpus]").replace('[{name: cpu, nominalQuota: "8"}]', quotas)
    assert play(tmp_path, scenario(BODY % ("cpus: 4", GPUS), FLAVOR + more)).remarks == []


def test_a_pool_without_the_resource_of_the_jobs_is_no_mistake(tmp_path):
    only_gpus = JOB.replace('requests: {cpu: "1"}', 'limits: {nvidia.com/gpu: "1"}')
    assert play(tmp_path, scenario(BODY % ("cpu: 4, memory: 8Gi", only_gpus))).remarks == []


def test_pools_with_resources_of_several_sizes_are_no_mistake(tmp_path):
    sliced = GPUS.replace("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")
    body = BODY.replace("nvidia.com/gpu: 8", "nvidia.com/mig-1g.10gb: 8")
    assert play(tmp_path, scenario(body % ("cpu: 4, nvidia.com/mig-1g.5gb: 8", sliced))).remarks == []
