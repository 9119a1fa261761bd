"""Values by their paths."""

import pytest

from muster.simulation.scenario.paths import PathError, begins_with_field, list_pools, set_field, set_in_manifest

SCENARIO = {"spec": {"nodes": [{"name": "n", "count": 1}], "work": [{"name": "w"}]}}


def flavor(name):
    resources = [{"name": "cpu", "nominalQuota": "8"}, {"name": "nvidia.com/gpu", "nominalQuota": "1"}]
    return {"name": name, "resources": resources}


def queue(name, *flavors):
    spec = {"cohortName": "all", "resourceGroups": [{"flavors": [flavor(one) for one in flavors]}]}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


NODES = [{"kind": "Node", "metadata": {"name": name}, "spec": {}} for name in ("n", "gpu-0")]
QUEUES = [queue("team.a", "x"), queue("b", "x", "y")]


def quota(documents, queue, flavor, resource):
    return documents[queue]["spec"]["resourceGroups"][0]["flavors"][flavor]["resources"][resource]


def test_a_quota_is_found_by_its_resource_or_its_flavor():
    changed = set_in_manifest(QUEUES, "clusterQueues.team.a.nominalQuota.nvidia.com/gpu", 4)
    assert quota(changed, 0, 0, 1)["nominalQuota"] == "4"
    assert changed[1] is QUEUES[1]
    changed = set_in_manifest(QUEUES, "clusterQueues.b.borrowingLimit.y.cpu", 4)
    assert quota(changed, 1, 1, 0)["borrowingLimit"] == 4
    assert quota(QUEUES, 0, 0, 1)["nominalQuota"] == "1"


@pytest.mark.parametrize("before", ["8", 8, None])
@pytest.mark.parametrize("path", ["nominalQuota.cpu", "spec.resourceGroups.0.flavors.x.resources.cpu.nominalQuota"])
def test_a_part_of_a_cpu_is_a_text_as_the_api_wants_it(path, before):
    queues = [queue("a", "x")]
    quota(queues, 0, 0, 0)["nominalQuota"] = before
    assert quota(set_in_manifest(queues, f"clusterQueues.a.{path}", 4.5), 0, 0, 0)["nominalQuota"] == "4.5"


@pytest.mark.parametrize(("before", "after"), [("1h30m", 90), ("90s", 90), (60, 90), ("60", "90"), ("main", "90")])
def test_a_number_in_place_of_a_time_span_is_one_of_seconds(before, after):
    scenario = {"spec": {"work": [{"name": "w", "runTime": before}]}}
    assert set_field(scenario, "work.w.runTime", 90)["spec"]["work"][0]["runTime"] == after


def test_of_two_names_with_which_a_path_begins_the_longer_is_meant():
    queues = [queue("team", "x"), queue("team.spec", "x")]
    changed = set_in_manifest(queues, "clusterQueues.team.spec.cohortName", "other")
    assert [one["spec"]["cohortName"] for one in changed] == ["all", "other"]


def local_queue(name, **namespace):
    return {"kind": "LocalQueue", "metadata": {"name": name, **namespace}, "spec": {"clusterQueue": "cq"}}


def test_a_name_that_two_namespaces_have_needs_the_namespace():
    queues = [local_queue("main", namespace="a"), local_queue("main", namespace="b"), local_queue("own", namespace="b")]
    with pytest.raises(PathError, match=r"several of localQueues are called main: name one of a/main, b/main$"):
        set_in_manifest(queues, "localQueues.main.stopPolicy", "Hold")
    for name, stopped in (("a/main", [0]), ("b/main", [1]), ("own", [2])):
        changed = set_in_manifest(queues, f"localQueues.{name}.stopPolicy", "Hold")
        assert [at for at, one in enumerate(changed) if "stopPolicy" in one["spec"]] == stopped


def test_a_manifest_without_a_namespace_is_of_the_default_one():
    queues = [local_queue("main"), local_queue("main", namespace="b")]
    with pytest.raises(PathError, match=r"name one of b/main, default/main$"):
        set_in_manifest(queues, "localQueues.main.stopPolicy", "Hold")
    assert set_in_manifest(queues, "localQueues.default/main.stopPolicy", "Hold")[1] is queues[1]


def test_fields_of_the_scenario_and_of_manifests():
    scenario = set_field(SCENARIO, "nodes.n.count", 5)
    assert scenario["spec"]["nodes"] == [{"name": "n", "count": 5}]
    scenario = set_field(SCENARIO, "until", "1d")
    assert scenario["spec"]["until"] == "1d"
    scenario = set_field(SCENARIO, "work.w.arrivals.poisson.every", "5m")
    assert scenario["spec"]["work"] == [{"name": "w", "arrivals": {"poisson": {"every": "5m"}}}]
    changed = set_in_manifest(QUEUES, "clusterQueues.b.fairSharing.weight", 3)
    assert changed[1]["spec"] == QUEUES[1]["spec"] | {"fairSharing": {"weight": 3}}
    changed = set_in_manifest(QUEUES, "clusterQueues.b.cohortName", "other")
    assert changed[1]["spec"]["cohortName"] == "other"


def set_somewhere(path):
    if begins_with_field(path, SCENARIO):
        set_field(SCENARIO, path, 1)
    else:
        set_in_manifest([*QUEUES, *NODES], path, 1, list_pools(SCENARIO))


def test_a_path_to_nodes_names_a_pool_or_else_a_node():
    paths = {"nodes": True, "nodes.n.count": True, "nodes.0.count": True, "nodes.gpu-0.unschedulable": False}
    assert {path: begins_with_field(path, SCENARIO) for path in paths} == paths
    changed = set_in_manifest(NODES, "nodes.gpu-0.unschedulable", True)
    assert [one["spec"] for one in changed] == [{}, {"unschedulable": True}]


def test_a_new_step_with_a_domain_has_dots_in_its_name():
    pool = {"name": "n", "template": {"status": {"allocatable": {"cpu": 8}}}}
    scenario = {"spec": {"nodes": [pool]}}
    path = "nodes.n.template.status.allocatable.nvidia.com/gpu"
    template = set_field(scenario, path, 8)["spec"]["nodes"][0]["template"]
    assert template["status"] == {"allocatable": {"cpu": 8, "nvidia.com/gpu": 8}}
    template = set_field(scenario, "nodes.n.template.metadata.labels.a.b/zone", "z")["spec"]["nodes"][0]["template"]
    assert template["metadata"] == {"labels": {"a.b/zone": "z"}}


def test_a_field_that_the_kind_has_is_none_that_is_misspelt():
    checked = queue("q", "x")
    checked["spec"] |= {"admissionChecks": ["c"], "preemption": {"reclaimWithinCohort": "Any"}}
    for path in ("admissionScope.admissionMode", "preemption.borrowWithinCohort.policy"):
        [changed] = set_in_manifest([checked], f"clusterQueues.q.{path}", "v")
        *parents, last = path.split(".")
        node = changed["spec"]
        for one in parents:
            node = node[one]
        assert node == {last: "v"}
    with pytest.raises(PathError, match=r"admissionCheck is no field there: do you mean admissionChecks\?"):
        set_in_manifest([checked], "clusterQueues.q.admissionCheck.more", "v")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("clusterQueue.b.cohortName", "neither a field of the scenario nor a kind of manifests: do you mean cluster"),
        ("clusterQueues.c.cohortName", "the name of none of clusterQueues: there is b, team.a"),
        ("clusterQueues.b", "the field of b is missing"),
        ("clusterQueues.b.nominalQuota.cpu", "several flavors have cpu: name one of nominalQuota.x.cpu, nominal"),
        ("clusterQueues.b.nominalQuota.memory", "memory is none of cpu, nvidia.com/gpu"),
        ("clusterQueues.b.nominalQuot.cpu", "nominalQuot is no field there: do you mean nominalQuota"),
        ("clusterQueues.b.nominalQuota", "a resource has to follow: cpu, nvidia.com/gpu"),
        ("nodes.m.count", "m is the name of none of nodes: there is gpu-0, n"),
        ("nodes.gpu-O.unschedulable", r"gpu-O is the name of none of nodes: do you mean gpu-0\?"),
        ("work.v.count", "v is no item of the list: there is w"),
        ("nodes.n.count.more", "more leads on from a value that has no fields"),
        ("work.w.nam.poisson", r"nam is no field there: do you mean name\?"),
        ("work.w.arrivals..every", "an empty step is no field there"),
        ("seed", "neither a field of the scenario"),
        ("", "an empty step"),
    ],
)
def test_a_path_that_leads_nowhere_is_told_what_is_known(path, problem):
    with pytest.raises(PathError, match=problem):
        set_somewhere(path)
