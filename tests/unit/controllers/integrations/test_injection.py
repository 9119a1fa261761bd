import msgspec
import pytest

from muster.api.core import Toleration
from muster.api.kueue import AdmissionCheckState, ResourceFlavor, Workload
from muster.api.status import ApiError
from muster.controllers.integrations.injection import InjectionError, list_injected_values, merge_tolerations

SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
GPU = {"key": "gpu", "operator": "Equal", "value": "yes"}
FLAVORS = {
    name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceFlavor)
    for name, spec in {
        "spot": {"nodeLabels": {"type": "spot"}, "tolerations": [SPOT]},
        "gpu": {"nodeLabels": {"gpu": "a100"}, "tolerations": [GPU, SPOT]},
        "plain": {},
    }.items()
}
LABELS = {
    "kueue.x-k8s.io/podset": "main",
    "kueue.x-k8s.io/cluster-queue-name": "cq",
    "kueue.x-k8s.io/local-queue-name": "lq",
}


def workload(flavors, *, queue="cq", metadata=None, **spec):
    """Admitted, with one podset whose resources got these flavors."""
    template = {"metadata": metadata or {}, "spec": {"containers": [], **spec}}
    assigned = {"name": "main", "flavors": flavors, "count": 3}
    document = {
        "metadata": {"name": "wl"},
        "spec": {"podSets": [{"name": "main", "template": template, "count": 3}], "queueName": "lq"},
        "status": {"admission": {"clusterQueue": queue, "podSetAssignments": [assigned]}},
    }
    return msgspec.convert(document, Workload)


def checked(made, *updates, state="Ready"):
    """The workload with admission checks c0, c1, ... that ask for something."""
    checks = tuple(
        msgspec.convert(
            {"name": f"c{number}", "state": state, "message": "", "podSetUpdates": [{"name": "main", **update}]},
            AdmissionCheckState,
        )
        for number, update in enumerate(updates)
    )
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, admission_checks=checks))


def injected(made, **options):
    (info,) = list_injected_values(made, made.spec.pod_sets, FLAVORS.get, **options)
    return info


def test_a_flavor_gives_its_nodes_and_its_tolerations():
    info = injected(workload({"cpu": "spot"}))
    assert (info.name, info.count, info.node_selector) == ("main", 3, {"type": "spot"})
    assert info.tolerations == (msgspec.convert(SPOT, Toleration),)
    assert info.labels == LABELS
    assert info.annotations == {}


def test_several_flavors_give_theirs_together_each_toleration_once():
    info = injected(workload({"cpu": "spot", "memory": "spot", "nvidia.com/gpu": "gpu"}))
    assert info.node_selector == {"type": "spot", "gpu": "a100"}
    assert [one.key for one in info.tolerations] == ["spot", "gpu"]


def test_a_flavor_without_anything_gives_nothing():
    info = injected(workload({"cpu": "plain"}))
    assert (info.node_selector, info.tolerations) == ({}, ())


def test_labels_of_queues_can_be_off():
    assert injected(workload({}), queue_labels=False).labels == {"kueue.x-k8s.io/podset": "main"}


def test_the_name_of_a_queue_that_is_too_long_for_a_label_is_left_out():
    labels = injected(workload({}, queue="cq" * 50)).labels
    assert labels == {key: value for key, value in LABELS.items() if key != "kueue.x-k8s.io/cluster-queue-name"}


def test_what_ready_checks_ask_for_is_put_together():
    info = injected(
        checked(
            workload({"cpu": "spot"}),
            {"labels": {"a": "1"}, "annotations": {"b": "2"}, "nodeSelector": {"c": "3"}, "tolerations": [GPU]},
            {"labels": {"a": "1", "d": "4"}, "tolerations": [GPU, SPOT]},
        )
    )
    assert info.labels == LABELS | {"a": "1", "d": "4"}
    assert info.annotations == {"b": "2"}
    assert info.node_selector == {"type": "spot", "c": "3"}
    assert [one.key for one in info.tolerations] == ["spot", "gpu"]


def test_checks_that_are_not_ready_ask_for_nothing():
    assert injected(checked(workload({}), {"labels": {"a": "1"}}, state="Pending")).labels == LABELS


def test_pods_of_an_elastic_job_say_which_slices_they_are_of():
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    for annotations, name in ((elastic, "wl"), (elastic | {"kueue.x-k8s.io/workload-slice-name": "first"}, "first")):
        made = workload({"cpu": "plain"})
        metadata = msgspec.structs.replace(made.metadata, annotations=annotations)
        info = injected(msgspec.structs.replace(made, metadata=metadata))
        assert info.annotations == {"kueue.x-k8s.io/workload-slice-name": name}


@pytest.mark.parametrize("what", ["labels", "annotations", "nodeSelector"])
def test_pitfall_45_checks_that_contradict_each_other_are_for_ever(what):
    made = checked(workload({}), {what: {"k": "one"}}, {what: {"k": "two"}})
    with pytest.raises(InjectionError) as caught:
        injected(made)
    assert str(caught.value) == (
        f'in admission check "c1": invalid admission check PodSetUpdate: conflict for {what}: '
        "conflict for key=k, value1=one, value2=two"
    )


def test_pitfall_45_so_is_a_check_that_contradicts_the_pods():
    made = checked(workload({}, nodeSelector={"provisioning": "spot"}), {"nodeSelector": {"provisioning": "on-demand"}})
    with pytest.raises(InjectionError) as caught:
        injected(made)
    assert str(caught.value) == (
        "invalid admission check PodSetUpdate: conflict for nodeSelector: "
        "conflict for key=provisioning, value1=spot, value2=on-demand"
    )


def test_the_same_value_twice_is_no_contradiction():
    made = checked(workload({"cpu": "spot"}, nodeSelector={"type": "spot"}), {"nodeSelector": {"type": "spot"}})
    assert injected(made).node_selector == {"type": "spot"}


def test_a_flavor_that_is_not_seen_yet_is_looked_for_again():
    with pytest.raises(ApiError, match='"new" not found'):
        injected(workload({"cpu": "new"}))


def test_podsets_correspond_by_position():
    made = workload({"cpu": "spot"})
    other = msgspec.structs.replace(made.spec.pod_sets[0], name="workers")
    (info,) = list_injected_values(made, (other,), FLAVORS.get)
    assert info.name == "main"


def test_tolerations_come_once_and_the_old_ones_first():
    one, two = Toleration(key="one"), Toleration(key="two")
    assert merge_tolerations((one,), (two, one, two)) == (one, two)


@pytest.mark.parametrize(
    ("request_", "annotations"),
    [
        (None, {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}),
        ({"podIndexLabel": "i"}, {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}),
        ({"podIndexLabel": "i", "required": "rack"}, {}),
        ({"unconstrained": False}, {}),
    ],
)
def test_pods_that_ask_for_no_topology_are_marked_where_they_are_given_places(request_, annotations):
    """Kueue names the label of ranks in the request of every podset."""
    made = workload({"cpu": "plain"})
    document = msgspec.to_builtins(made)
    document["spec"]["podSets"][0]["topologyRequest"] = request_
    document["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = {"levels": ["l"], "slices": []}
    info = injected(msgspec.convert(document, Workload))
    assert info.gates == ("kueue.x-k8s.io/topology",)
    assert info.annotations == {"kueue.x-k8s.io/workload": "wl"} | annotations
