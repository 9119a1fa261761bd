"""What of a pod placement looks at."""

import msgspec
import pytest

from muster.api.core import Pod
from muster.gang.exclusive import Hold
from muster.gang.shapes import DeviceAsk, count_shapes, guest_of, shape_of, shapes_of

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["version"]}
        ]
    }
}


def make(uid, labels, spec=None):
    return msgspec.convert(
        {"metadata": {"name": uid, "uid": uid, "namespace": "ns", "labels": labels}, "spec": spec or {}}, Pod
    )


def test_labels_that_no_other_looks_at_make_no_shapes():
    pods = [make(str(number), {"app": "a", "index": str(number)}) for number in range(10)]
    assert len(count_shapes(pods)) == 1
    assert len(count_shapes(pods, frozenset({"app"}))) == 1
    assert len(count_shapes(pods, frozenset({"index"}))) == 10
    assert shape_of(pods[0]).labels == ()


def test_pods_that_go_together_see_each_other():
    apart = make("0", {"app": "a", "version": "1", "index": "0"}, {"affinity": APART})
    plain = make("1", {"app": "b", "index": "1"})
    shapes = shapes_of([apart, plain])
    assert dict(shapes["0"].labels) == {"app": "a", "version": "1"}
    assert dict(shapes["1"].labels) == {"app": "b"}
    assert shapes["1"].namespace == "ns"


def test_terms_take_the_values_of_the_pod():
    (term,) = shape_of(make("0", {"app": "a", "version": "1"}, {"affinity": APART})).terms.anti_affinity
    assert term.namespaces == ("ns",)
    assert term.matches("ns", {"app": "a", "version": "1"}, {})
    assert not term.matches("ns", {"app": "a", "version": "2"}, {})
    assert not term.matches("other", {"app": "a", "version": "1"}, {})


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (("TCP", 80, ""), ("TCP", 80, ""), True),
        (("TCP", 80, ""), ("UDP", 80, ""), False),
        (("TCP", 80, ""), ("TCP", 81, ""), False),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.2"), False),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.1"), True),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "0.0.0.0"), True),
        (("TCP", 80, ""), ("TCP", 80, "10.0.0.1"), True),
        (("", 80, ""), ("TCP", 80, ""), True),
    ],
)
def test_ports_of_the_node_meet_by_protocol_number_and_address(one, other, conflict):
    def hold(protocol, number, address):
        port = {"hostPort": number, "containerPort": number, "protocol": protocol, "hostIP": address}
        (found,) = guest_of(make("0", {}, {"containers": [{"name": "c", "ports": [port]}]})).holds
        return found

    assert hold(*one).conflicts(hold(*other)) is conflict
    assert hold(*other).conflicts(hold(*one)) is conflict


def test_only_sidecars_among_init_containers_keep_ports():
    port = {"hostPort": 80, "containerPort": 80}
    init = {"name": "i", "ports": [port]}
    assert guest_of(make("0", {}, {"initContainers": [init]})).holds == ()
    assert len(guest_of(make("0", {}, {"initContainers": [init | {"restartPolicy": "Always"}]})).holds) == 1


@pytest.mark.parametrize(
    ("volume", "alone"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, False),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, True),
        ({"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}, True),
        ({"iscsi": {"iqn": "d", "targetPortal": "t"}}, True),
        ({"rbd": {"monitors": ["m"], "image": "d"}}, True),
    ],
)
def test_disks_that_are_written_to_are_for_one_pod_of_a_node(volume, alone):
    (hold,) = guest_of(make("0", {}, {"volumes": [{"name": "v", **volume}]})).holds
    assert hold.conflicts(hold) is alone
    assert not hold.conflicts(Hold(("port", "TCP", "80")))


def test_what_is_not_known_here_is_refused_in_words():
    pod = make("0", {}, {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})
    assert shape_of(pod).unable == "resource claims are not supported here"


def test_devices_of_claims_are_asked_for_beside_the_rest():
    pod = make("0", {"cpu": "1"}, {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]})
    shape = shape_of(pod, asking=lambda _: DeviceAsk((("devices of class x", 2),)))
    assert shape.requests == (("devices of class x", 2), ("pods", 1))
    assert guest_of(pod, (("devices of class x", 2),)).requests == shape.requests
    assert shape_of(pod, asking=lambda _: DeviceAsk(unable="not there")).unable == "not there"
    plain = make("0", {"cpu": "1"}, {})
    assert shape_of(plain, asking=lambda _: DeviceAsk(unable="not there")).unable == ""


def test_claims_are_those_that_are_named_and_those_made_for_the_pod():
    volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "ephemeral": {}}]
    assert shape_of(make("0", {}, {"volumes": volumes})).claims == ("ns/0-b", "ns/data")
