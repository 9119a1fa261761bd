"""Plain pods that queue: their roles, what holds them, and the rules. Roles are golden: Kueue has written them."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.core import Pod, PodSpec
from muster.api.managed.podgroup import group_name
from muster.api.managed.pods import (
    controls_queueing,
    group_size,
    hash_of_shape,
    hold,
    is_held,
    is_managed,
    is_to_be_held,
    role_hash,
    role_of,
    validate_create,
    validate_update,
    waits_for_place,
)
from muster.api.managed.surroundings import Settings
from muster.api.meta import LabelSelector, ObjectMeta, OwnerReference
from muster.api.values.selectors import label_matcher

KUEUE = "kueue.x-k8s.io"
QUEUE = f"{KUEUE}/queue-name"
GROUP = f"{KUEUE}/pod-group-name"
COUNT = f"{KUEUE}/pod-group-total-count"

ABSENT = dict.fromkeys(
    (
        "affinity",
        "containers",
        "initContainers",
        "nodeSelector",
        "overhead",
        "priority",
        "resourceClaims",
        "runtimeClassName",
        "tolerations",
        "topologySpreadConstraints",
    ),
    "null",
)


def spec(**fields: Any) -> PodSpec:
    return msgspec.convert(fields, PodSpec)


def containers(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": f"c{n}", "resources": {"requests": request}} for n, request in enumerate(requests)]


def pod(labels: Any = None, annotations: Any = None, **more: Any) -> Pod:
    document = {"metadata": {"name": "p", "labels": labels or {}, "annotations": annotations or {}}, **more}
    return msgspec.convert(document, Pod)


# The role.


# What Kueue's GenerateRoleHash says of these pods, with the types of k8s.io/api 0.36.
KUEUES = json.loads((Path(__file__).parent / "role_hashes.json").read_text())


@pytest.mark.parametrize("case", KUEUES.values(), ids=KUEUES)
def test_roles_are_those_of_kueue(case: dict[str, Any]) -> None:
    assert role_hash(spec(**case["spec"])) == case["hash"]


def test_a_map_that_is_there_and_empty_makes_another_role() -> None:
    # What only a Go program can make.
    shape = dict.fromkeys(ABSENT) | {"containers": [{"ports": None, "resources": {"requests": {}}}]}
    assert hash_of_shape(shape) == "a9f06f3a"


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"nodeSelector": {"z": "1", "a": "<&>"}},
            {"nodeSelector": r'{"a":"\u003c\u0026\u003e","z":"1"}'},
            id="maps by key, and safe in HTML",
        ),
        pytest.param(
            {"tolerations": [{"effect": "NoExecute", "key": "k", "operator": "Exists", "tolerationSeconds": 0}]},
            {"tolerations": '[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":0}]'},
            id="structs by field, and zero is not absent",
        ),
        pytest.param(
            {
                "initContainers": containers({"memory": "1024Mi", "cpu": "0.5"}),
                "priority": 0,
                "overhead": {"cpu": "0.1"},
            },
            {
                "initContainers": '[{"ports":null,"resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]',
                "priority": "0",
                "overhead": '{"cpu":"100m"}',
            },
            id="quantities in their canonical form",
        ),
        pytest.param(
            {"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}]}]},
            {
                "containers": '[{"ports":[{"name":"http","containerPort":80,"protocol":"TCP"}],'
                '"resources":{"requests":null}}]'
            },
            id="ports",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}},
            {"resources": '{"cpu":"2"}'},
            id="of the pod as a whole, if there are any",
        ),
    ],
)
def test_the_shape_is_written_as_go_writes_it(fields: dict[str, Any], written: dict[str, str]) -> None:
    members = ",".join(f'"{name}":{text}' for name, text in sorted((ABSENT | written).items()))
    assert role_hash(spec(**fields)) == sha256(f'{{"spec":{{{members}}}}}'.encode()).hexdigest()[:8]


def test_what_does_not_count_for_admission_makes_no_other_role() -> None:
    one = spec(containers=[{"name": "c", "image": "a", "command": ["x"]}], volumes=[{"name": "v"}])
    other = spec(containers=[{"name": "d", "image": "b", "env": [{"name": "E", "value": "1"}]}])
    assert role_hash(one) == role_hash(other)


def test_the_role_that_a_pod_was_made_with_is_its_role() -> None:
    assert role_of(pod(annotations={f"{KUEUE}/role-hash": "leader"})) == "leader"
    assert role_of(pod()) == role_hash(spec())


# Holding.


def test_a_held_pod_has_a_gate_a_label_a_finalizer_and_its_role() -> None:
    document: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": containers({"cpu": "1"})}}
    hold(document, places=True)
    once = msgspec.json.encode(document)
    hold(document, places=True)
    assert msgspec.json.encode(document) == once
    held = msgspec.convert(document, Pod)
    assert is_held(held)
    assert waits_for_place(held)
    assert is_managed(held.metadata)
    assert held.metadata.finalizers == (f"{KUEUE}/managed",)
    assert held.metadata.annotations == {f"{KUEUE}/role-hash": "dc85db45"}


def test_a_pod_that_is_given_no_place_waits_at_one_gate() -> None:
    """The settings turn topology-aware scheduling off."""
    document: dict[str, Any] = {"metadata": {}, "spec": {"containers": []}}
    hold(document, places=False)
    held = msgspec.convert(document, Pod)
    assert (is_held(held), waits_for_place(held)) == (True, False)


def test_a_pod_that_its_parent_suspends_is_only_gated() -> None:
    parent = {f"{KUEUE}/pod-suspending-parent": "statefulset"}
    document: dict[str, Any] = {"metadata": {"annotations": parent}, "spec": {"containers": []}}
    hold(document, places=True)
    held = msgspec.convert(document, Pod)
    assert is_held(held)
    assert not is_managed(held.metadata)
    assert held.metadata.finalizers == ()


class Around:
    """A namespace with labels, and one Job that queues."""

    def __init__(self, job_queue: str = "q") -> None:
        self.job = ObjectMeta(name="j", uid="u", labels={QUEUE: job_queue} if job_queue else {})

    def local_queue(self, namespace: str, name: str) -> None:
        return None

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        return {"kubernetes.io/metadata.name": namespace}

    def owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        return self.job if reference.kind == "Job" else None

    def has_priority_class(self, name: str) -> bool:
        return False

    def goes_elsewhere(self, cluster_queue: str) -> bool:
        return False


OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]
ONLY_X = label_matcher(LabelSelector(match_labels={"kubernetes.io/metadata.name": "x"}))


@pytest.mark.parametrize(
    ("metadata", "around", "settings", "held"),
    [
        pytest.param({"labels": {QUEUE: "q"}}, Around(), Settings(), True, id="names a queue"),
        pytest.param({}, Around(), Settings(), False, id="names none"),
        pytest.param({}, Around(), Settings(without_queue=True), True, id="needs none"),
        pytest.param({"labels": {QUEUE: "q"}}, Around(), Settings(selects=ONLY_X), False, id="another namespace"),
        pytest.param({"labels": {QUEUE: "q"}, "ownerReferences": OWNED}, Around(), Settings(), False, id="of a job"),
        pytest.param(
            {"labels": {QUEUE: "q"}, "ownerReferences": OWNED},
            Around(""),
            Settings(),
            True,
            id="of a job without queue",
        ),
        pytest.param(
            {"annotations": {f"{KUEUE}/pod-suspending-parent": "x"}, "ownerReferences": OWNED},
            Around(),
            Settings(),
            True,
            id="suspended with its parent",
        ),
    ],
)
def test_which_pods_are_held(metadata: dict[str, Any], around: Around, settings: Settings, held: bool) -> None:
    meta = msgspec.convert({"namespace": "default", **metadata}, ObjectMeta)
    assert is_to_be_held(meta, around, settings) is held


def test_most_pods_have_nothing_to_say() -> None:
    assert not controls_queueing({"name": "p", "labels": {"app": "x"}, "annotations": None})
    assert controls_queueing({"labels": {QUEUE: "q"}})
    assert controls_queueing({"annotations": {COUNT: "2"}})


# Groups.


def test_the_annotation_with_the_name_of_a_group_counts_before_the_label() -> None:
    assert group_name(pod({GROUP: "label"}).metadata) == "label"
    assert group_name(pod({GROUP: "label"}, {GROUP: "annotation"}).metadata) == "annotation"


@pytest.mark.parametrize(
    ("text", "size"), [("3", 3), ("+3", 3), ("-3", 0), ("0", 0), ("", 0), ("3.0", 0), ("²", 0), ("9" * 40, 0)]
)
def test_sizes_are_read_with_care(text: str, size: int) -> None:
    assert group_size(pod(annotations={COUNT: text}).metadata) == size


# Rules.

BOTH = f"both the '{COUNT}' annotation and the '{GROUP}' label should be set"
BOTH_ANNOTATIONS = f"both the '{COUNT}' annotation and the '{GROUP}' annotation should be set"


@pytest.mark.parametrize(
    ("labels", "annotations", "errors"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({GROUP: "g"}, {COUNT: "3"}, [], id="a group"),
        pytest.param({}, {GROUP: "g", COUNT: "3"}, [], id="a group by annotations"),
        pytest.param({GROUP: "g", f"{KUEUE}/prebuilt-workload-name": "g"}, {COUNT: "3"}, [], id="prebuilt"),
        pytest.param(
            {f"{KUEUE}/managed": "no"},
            {},
            [f"metadata.labels[{KUEUE}/managed]: Forbidden: managed label value can only be 'true'"],
            id="managed",
        ),
        pytest.param(
            {GROUP: "g"}, {}, [f"metadata.annotations[{COUNT}]: Required value: {BOTH}"], id="a name without a size"
        ),
        pytest.param(
            {},
            {GROUP: "g"},
            [f"metadata.annotations[{COUNT}]: Required value: {BOTH_ANNOTATIONS}"],
            id="an annotation without a size",
        ),
        pytest.param(
            {}, {COUNT: "3"}, [f"metadata.labels[{GROUP}]: Required value: {BOTH}"], id="a size without a name"
        ),
        pytest.param(
            {GROUP: "g"},
            {COUNT: "0"},
            [
                (
                    f"metadata.annotations[{COUNT}]: Invalid value: \"0\": incorrect annotation value '{COUNT}=0': "
                    "group total count should be greater than zero"
                )
            ],
            id="none",
        ),
        pytest.param(
            {GROUP: "g"},
            {COUNT: ""},
            [f'metadata.annotations[{COUNT}]: Invalid value: "": strconv.Atoi: parsing "": invalid syntax'],
            id="no number",
        ),
        pytest.param(
            {GROUP: "g", f"{KUEUE}/prebuilt-workload-name": "w"},
            {COUNT: "3"},
            [
                (
                    f'metadata.labels[{KUEUE}/prebuilt-workload-name]: Invalid value: "w": '
                    "prebuilt workload and pod group should be equal"
                )
            ],
            id="another prebuilt",
        ),
    ],
)
def test_rules_for_new_pods(labels: Any, annotations: Any, errors: list[str]) -> None:
    assert [str(error) for error in validate_create(pod(labels, annotations))] == errors


def test_the_name_of_a_group_is_the_name_of_a_workload() -> None:
    (error,) = validate_create(pod({GROUP: "notAdns1123Subdomain*"}, {COUNT: "2"}))
    assert error.path == f"metadata.labels[{GROUP}]"


GATED = {"spec": {"schedulingGates": [{"name": f"{KUEUE}/admission"}]}}
FINAL = {f"{KUEUE}/retriable-in-group": "false"}


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        pytest.param(({QUEUE: "a"}, {}, GATED), ({QUEUE: "b"}, {}, GATED), [], id="another queue while it waits"),
        pytest.param(({QUEUE: "a"}, {}, {}), ({QUEUE: "b"}, {}, {}), [f"metadata.labels[{QUEUE}]"], id="another queue"),
        pytest.param(
            ({GROUP: "g"}, {COUNT: "2"}, {}),
            ({GROUP: "h"}, {COUNT: "2"}, {}),
            [f"metadata.labels[{GROUP}]"],
            id="another group",
        ),
        pytest.param(
            ({}, {GROUP: "g", COUNT: "2"}, {}),
            ({}, {GROUP: "h", COUNT: "2"}, {}),
            [f"metadata.annotations[{GROUP}]"],
            id="another group by annotation",
        ),
        pytest.param(
            ({GROUP: "g"}, {COUNT: "2"}, {}), ({}, {GROUP: "g", COUNT: "2"}, {}), [], id="the name in another place"
        ),
        pytest.param(
            ({GROUP: "g"}, {COUNT: "2", **FINAL}, {}),
            ({GROUP: "g"}, {COUNT: "2"}, {}),
            [f"metadata.annotations[{KUEUE}/retriable-in-group]"],
            id="retriable again",
        ),
        pytest.param(
            ({GROUP: "g"}, {COUNT: "2"}, {}), ({GROUP: "g"}, {COUNT: "2", **FINAL}, {}), [], id="not retriable any more"
        ),
    ],
)
def test_rules_for_changes(old: Any, new: Any, fields: list[str]) -> None:
    (labels, annotations, rest), (old_labels, old_annotations, old_rest) = new, old
    before, after = pod(old_labels, old_annotations, **old_rest), pod(labels, annotations, **rest)
    assert [error.path for error in validate_update(after, before, Around())] == fields
