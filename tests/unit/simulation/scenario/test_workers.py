from math import inf
from pathlib import Path

import pytest

from muster.simulation.scenario.draws import parse_seconds
from muster.simulation.scenario.reading import read_scenario
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.scenario.workers import read_workers

ROOT = Path(__file__).resolve().parents[4]


def read(tmp_path, clusters):
    file = tmp_path / "scenario.yaml"
    file.write_text(
        f"apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: s}}\nspec:\n  clusters:\n{clusters}"
    )
    return read_workers(read_scenario(str(file)))


def test_clusters_have_names_and_losses(tmp_path):
    one, more = read(tmp_path, "  - {name: a, lost: [{at: 1m, for: 1h}, {at: 2h}]}\n  - {name: b, count: 2}\n")
    assert (one.names, one.losses) == (["a"], [(60.0, 3660.0), (7200.0, inf)])
    assert (more.names, more.losses) == (["b-0", "b-1"], [])


def test_a_loss_of_millions_of_years_has_no_end(tmp_path):
    [one] = read(tmp_path, "  - {name: a, lost: [{at: 1m, for: 10000000000d}]}\n")
    assert one.losses == [(60.0, inf)]


def test_the_nodes_of_a_cluster_may_come_from_a_table(tmp_path):
    (tmp_path / "n.csv").write_text("host,cpus\nx,4\ny,8\n")
    columns = "{name: host, allocatable: {cpu: cpus}}"
    [one] = read(tmp_path, f"  - {{name: a, nodes: [{{file: n.csv, columns: {columns}}}]}}\n")
    assert [row.name for row in one.reading.tables[0]] == ["x", "y"]


def test_an_error_of_a_cluster_has_the_path_of_the_cluster(tmp_path):
    [one] = read(tmp_path, "  - name: a\n    nodes:\n    - {name: n, count: 1, template: {spec: {}}}\n")
    error = one.reading.source.error("spec.nodes[0].template", "is wrong")
    assert str(error) == f"{tmp_path}/scenario.yaml:8: spec.clusters[0].nodes[0].template: is wrong"


@pytest.mark.parametrize(
    ("clusters", "problem"),
    [
        ("  - {name: a}\n  - {name: a}\n", "scenario.yaml:7: spec.clusters[1].name: a is the name of another cluster"),
        ("  - {name: a-1}\n  - {name: a, count: 3}\n", "spec.clusters[1].name: a-1 is the name of another cluster"),
        ("  - {name: a, count: 1001}\n", "scenario.yaml:6: spec.clusters[0].count: must be from 1 to 1000"),
        ("  - {name: a, lost: [{at: 1, for: soon}]}\n", "spec.clusters[0].lost[0].for: invalid duration"),
        ("  - {name: a, lost: [{at: 1}, {at: 0, for: 2}]}\n", "spec.clusters[0].lost[1]: overlaps with another loss"),
        (
            "  - {name: a, nodes: [{name: n, like: m, template: {kind: Node}}]}\n",
            "spec.clusters[0].nodes[0].template: has no effect: the nodes are like another Node",
        ),
        (
            "  - {name: a, nodes: [{name: n, count: 3000000, template: {kind: Node}}]}\n",
            "scenario.yaml:6: spec.clusters[0].nodes[0].count: must be from 0 to 200000",
        ),
        ("  - {name: a, nodes: [{name: n}]}\n", "spec.clusters[0].nodes[0]: name and template or like are needed"),
        ("  - {name: a, nodes: [{file: n.csv}]}\n", "spec.clusters[0].nodes[0].columns: name is needed"),
        ("  - {name: a, manifests: [3]}\n", "scenario.yaml:6: spec.clusters[0].manifests[0]: Expected `str | object`"),
    ],
)
def test_clusters_that_are_wrong_are_refused(tmp_path, clusters, problem):
    with pytest.raises(ScenarioError) as refusal:
        read(tmp_path, clusters)
    assert problem in str(refusal.value)


def test_the_planet_has_what_its_page_says():
    reading = read_scenario(str(ROOT / "examples" / "simulate" / "planet.yaml"))
    workers = read_workers(reading)
    assert sum(len(worker.names) for worker in workers) == 50
    pools = [(len(one.names), pool.count) for one in workers for pool in one.reading.scenario.spec.nodes]
    assert sum(clusters * nodes for clusters, nodes in pools) == 100_000
    every = [work.arrivals.poisson.every for work in reading.scenario.spec.work]
    assert sum(86_400 / parse_seconds(each) for each in every) == pytest.approx(1_000_000, rel=0.01)
