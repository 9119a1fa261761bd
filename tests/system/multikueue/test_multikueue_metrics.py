"""What is counted of workloads that run in other clusters, under upstream's names."""

from tests.metrics import read_families
from tests.system.multikueue.federation import Federation, federated


def counted(f: Federation, name: str) -> dict[tuple[str, str], float]:
    """By ClusterQueue and cluster."""
    families = read_families(f.dispatch.registry.text().decode(), "multikueue_")
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    assert all(sample.labels["replica_role"] == "standalone" for sample in samples)
    return {(sample.labels["cluster_queue"], sample.labels["cluster"]): sample.value for sample in samples}


@federated()
async def test_clones_that_are_made_and_admissions_that_count(f: Federation) -> None:
    await f.queues(a=4, b=1)
    await f.job("j", 2)
    await f.job("k", 2)
    await f.settle()
    assert await f.where("j") == await f.where("k") == {"a": 2}
    assert counted(f, "multikueue_workloads_dispatched_total") == {("cq", "a"): 2}
    await f.job("l", 2)  # both are asked, for there is room in neither
    await f.settle()
    assert counted(f, "multikueue_workloads_dispatched_total") == {("cq", "a"): 3, ("cq", "b"): 1}
    assert counted(f, "multikueue_workloads_admitted_total") == {("cq", "a"): 2}
