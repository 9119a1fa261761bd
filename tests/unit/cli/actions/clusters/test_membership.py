"""What makes a worker cluster one of a manager's, by example."""

import msgspec
import pytest

from muster.api.kueue import AdmissionCheck, ClusterQueue, MultiKueueCluster, MultiKueueConfig
from muster.cli.actions.clusters import membership
from muster.cli.actions.clusters.membership import MembershipError


def made(kind, document):
    return msgspec.convert(document, kind)


def config(*clusters):
    return made(MultiKueueConfig, {"metadata": {"name": "c"}, "spec": {"clusters": clusters}}) if clusters else None


@pytest.mark.parametrize(
    ("before", "joined", "left"),
    [
        ((), ["b"], None),
        (("a",), ["a", "b"], None),
        (("a", "b"), None, ["a"]),
        (("b",), None, []),
        (("b", "a"), None, ["a"]),
    ],
)
def test_a_cluster_comes_last_and_is_there_once(before, joined, left):
    assert membership.with_cluster(config(*before), "b") == joined
    assert membership.remove_cluster_name(config(*before), "b") == left


def test_what_is_made_is_what_is_known_again():
    check = made(AdmissionCheck, membership.make_admission_check())
    assert membership.config_name(check) == membership.config_name(None) == "multikueue"
    membership.require_free("b", made(MultiKueueCluster, membership.make_member("b")))
    membership.require_free("b", None)
    assert membership.make_secret("b", "text")["data"] == {"kubeconfig": "dGV4dA=="}


def test_the_configuration_is_the_checks_own():
    check = membership.make_admission_check()
    check["spec"]["parameters"]["name"] = "mine"
    assert membership.config_name(made(AdmissionCheck, check)) == "mine"


@pytest.mark.parametrize(
    "spec",
    [
        {"controllerName": "kueue.x-k8s.io/provisioning-request"},
        {"controllerName": "kueue.x-k8s.io/multikueue"},
    ],
)
def test_a_check_of_that_name_that_is_another_is_not_touched(spec):
    with pytest.raises(MembershipError, match="that is not MultiKueue's"):
        membership.config_name(made(AdmissionCheck, {"metadata": {"name": "multikueue"}, "spec": spec}))


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ({"kubeConfig": {"location": "/etc/multikueue/kubeconfigs/b", "locationType": "Path"}}, "Path /etc"),
        ({"kubeConfig": {"location": "mine", "locationType": "Secret"}}, "Secret mine"),
        ({"clusterProfileRef": {"name": "p"}}, "a ClusterProfile"),
    ],
)
def test_a_cluster_of_that_name_that_another_user_made_is_not_touched(source, where):
    found = made(MultiKueueCluster, {"metadata": {"name": "b"}, "spec": {"clusterSource": source}})
    with pytest.raises(MembershipError, match=where):
        membership.require_free("b", found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [{"name": "multikueue"}]),
        ([{"name": "mine", "onFlavors": ["f"]}], [{"name": "mine", "onFlavors": ("f",)}, {"name": "multikueue"}]),
        ([{"name": "multikueue"}], None),
    ],
)
def test_a_queue_keeps_the_checks_that_it_has(before, after):
    strategy = {"admissionChecksStrategy": {"admissionChecks": before}} if before else {}
    queue = made(ClusterQueue, {"metadata": {"name": "q"}, "spec": strategy})
    patch = membership.with_check(queue)
    assert membership.has_check(queue) == (after is None)
    assert patch == (after and {"spec": {"admissionChecksStrategy": {"admissionChecks": after}}})


def test_a_check_that_is_going_is_not_built_on():
    going = {"name": "multikueue", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    with pytest.raises(MembershipError, match="is being deleted, and stays while ClusterQueues name it"):
        membership.config_name(
            made(AdmissionCheck, {"metadata": going, "spec": membership.make_admission_check()["spec"]})
        )
