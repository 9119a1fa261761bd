"""What a worker grants to a manager."""

import pytest

from muster.api.kueue import LocalQueue
from muster.api.meta import ObjectMeta
from muster.cli.actions.clusters.invitation import Invitation, choose_namespaces
from muster.cli.actions.clusters.inviting import list_remarks
from muster.jobs.podgroup.record import KINDS

SEE = {"get", "list", "watch"}
MAKE = {"create", "delete", "patch", "update"}


def granted(invitation):
    """Verbs by namespace ("" for all) and resource, with an object's name, as a server would add them up."""
    roles: dict[str, list[dict[str, list[str]]]] = {}
    found: dict[tuple[str, str], set[str]] = {}
    for kind, document in invitation.manifests():
        meta = document["metadata"]
        if kind.kind == "ClusterRole":
            roles[meta["name"]] = document["rules"]
    for kind, document in invitation.manifests():
        if not kind.kind.endswith("Binding"):
            continue
        [subject] = document["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": invitation.name, "namespace": invitation.home}
        for rule in roles[document["roleRef"]["name"]]:
            [group] = rule["apiGroups"]
            for resource in rule["resources"]:
                words = " ".join([f"{resource}.{group}".rstrip("."), *rule.get("resourceNames", [])])
                found.setdefault((document["metadata"].get("namespace", ""), words), set()).update(rule["verbs"])
    return found


def test_everywhere():
    assert granted(Invitation("multikueue", "kueue-system")) == {
        ("", "workloads.kueue.x-k8s.io"): SEE | MAKE,
        ("", "workloads/status.kueue.x-k8s.io"): {"get", "patch", "update"},
        ("", "clusterqueues.kueue.x-k8s.io"): SEE,
        ("", "localqueues.kueue.x-k8s.io"): SEE,
        ("", "jobs.batch"): SEE | MAKE,
        ("", "jobsets.jobset.x-k8s.io"): SEE | MAKE,
        ("", "pods"): SEE | MAKE,
        ("", "pods/log"): {"get"},
        ("", "pods/exec"): {"create", "get"},
        ("", "jobs/log.batch"): {"get"},
        ("", "jobsets/log.jobset.x-k8s.io"): {"get"},
        ("", "namespaces kube-system"): {"get"},
    } | {("", f"podgroups.{kind.group}"): {"create", "get", "patch"} for kind in KINDS}


def test_confined_to_namespaces_it_sees_its_kinds_everywhere_and_no_more():
    found = granted(Invitation("m", "kueue-system", namespaces=("lab", "default")))
    assert {key: verbs for key, verbs in found.items() if not key[0]} == {
        ("", "workloads.kueue.x-k8s.io"): SEE,
        ("", "clusterqueues.kueue.x-k8s.io"): SEE,
        ("", "localqueues.kueue.x-k8s.io"): SEE,
        ("", "jobs.batch"): SEE,
        ("", "jobsets.jobset.x-k8s.io"): SEE,
        ("", "pods"): SEE,
        ("", "namespaces kube-system"): {"get"},
    }
    for namespace in ("lab", "default"):
        assert found[namespace, "jobs.batch"] == MAKE
        assert found[namespace, "pods"] == SEE | MAKE
        assert found[namespace, "pods/log"] == {"get"}
    assert {key[0] for key in found} == {"", "lab", "default"}


def test_kinds_that_are_asked_for_come_on_top_and_commands_may_be_left_out():
    plain = granted(Invitation("m", "s"))
    assert granted(Invitation("m", "s", kinds=("rayjobs.ray.io",))) == plain | {("", "rayjobs.ray.io"): SEE | MAKE}
    assert plain.pop(("", "pods/exec"))
    assert granted(Invitation("m", "s", exec=False)) == plain


def test_unless_it_is_said_jobs_may_run_where_there_are_queues_and_never_with_the_system():
    spaces = ("lab", "kube-system", "default", "lab", "kueue-system", "kube-public")
    queues = [LocalQueue(metadata=ObjectMeta(name="q", namespace=space)) for space in spaces]
    assert choose_namespaces(queues, "kueue-system") == ("default", "lab")
    assert choose_namespaces([], "kueue-system") == ()


def test_nothing_of_the_cluster_itself_is_granted():
    everything = granted(Invitation("m", "s", kinds=("rayjobs.ray.io",), exec=True))
    resources = {resource.partition(".")[0] for _, resource in everything}
    assert not resources & {"secrets", "configmaps", "nodes", "namespaces", "serviceaccounts", "clusterroles", "*"}
    assert all("*" not in verbs for verbs in everything.values())


@pytest.mark.parametrize(
    ("server", "lines"),
    [
        ("https://box2:6443", 2),
        ("https://10.0.0.5:6443", 2),
        ("https://127.0.0.1:6443", 3),
        ("https://[::1]:6443", 3),
        ("https://localhost:6443", 3),
    ],
)
def test_what_is_said_of_it(server, lines):
    said = list_remarks(Invitation("m", "kueue-system", namespaces=("lab",)), server, embedded=True)
    assert len(said) == lines
    assert "in namespace lab:" in said[0]
    assert "kubectl delete serviceaccount -n kueue-system m" in said[1]


@pytest.mark.parametrize(("embedded", "advice"), [(True, "muster up --listen ADDRESS"), (False, "by --server URL")])
def test_how_others_reach_it_depends_on_whose_cluster_it_is(embedded, advice):
    *_, said = list_remarks(Invitation("m", "kueue-system"), "https://127.0.0.1:6443", embedded=embedded)
    assert advice in said
    assert ("muster up" in said) == embedded
