"""Which groups get a disruption budget, and which of their pods it selects, dialect by dialect."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.groups import scheduling_v1alpha2 as native
from muster.api.meta import ObjectMeta
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.values.selectors import label_matcher
from muster.jobs.podgroup.budget import budget_of, is_of, labels_of, needs_budget
from muster.jobs.podgroup.record import read

ASKED = {"muster.dev/disruption-budget": "true"}


def group(type_: Any, spec: Any, name="g", annotations=ASKED):
    meta = {"name": name, "namespace": "n", "uid": "u", "annotations": annotations}
    return read(msgspec.convert({"metadata": meta, "spec": spec}, type_))


def pod(spec=None, **meta):
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n", **meta}, "spec": spec or {}}, Pod)


BY_ANNOTATION = pod(annotations={"scheduling.k8s.io/group-name": "g"})
BY_LABEL = pod(labels={"scheduling.x-k8s.io/pod-group": "g"})
BY_FIELD = pod({"schedulingGroup": {"podGroupName": "g"}})


@pytest.mark.parametrize(
    ("type_", "spec", "member", "others"),
    [
        pytest.param(kep.PodGroup, {"minMembers": 3}, BY_ANNOTATION, [BY_LABEL, BY_FIELD], id="KEP-34"),
        pytest.param(kubebatch.PodGroup, {"minMember": 3}, BY_ANNOTATION, [BY_LABEL, BY_FIELD], id="kube-batch"),
        pytest.param(sigs.PodGroup, {"minMember": 3}, BY_ANNOTATION, [BY_LABEL, BY_FIELD], id="kube-batch, later"),
        pytest.param(
            volcano.PodGroup,
            {"minMember": 3},
            pod(annotations={"scheduling.volcano.sh/group-name": "g"}),
            [BY_LABEL, BY_FIELD],
            id="Volcano",
        ),
        pytest.param(coscheduling.PodGroup, {"minMember": 3}, BY_LABEL, [BY_ANNOTATION, BY_FIELD], id="coscheduling"),
        pytest.param(
            native.PodGroup,
            {"schedulingPolicy": {"gang": {"minCount": 3}}},
            BY_FIELD,
            [BY_ANNOTATION, BY_LABEL],
            id="Kubernetes' own",
        ),
    ],
)
def test_3_28_a_budget_keeps_the_minimum_of_its_own_pods(type_, spec, member, others):
    one = group(type_, spec)
    budget = budget_of(one)
    selects = label_matcher(budget.spec.selector)
    assert (needs_budget(one), is_of(budget, one), budget.spec.min_available) == (True, True, 3)
    assert selects.matches(labels_of(member))
    stranger = pod(annotations={"scheduling.k8s.io/group-name": "h"}, labels={})
    assert not any(selects.matches(labels_of(other)) for other in [*others, stranger, pod()])


def test_a_budget_is_of_the_group_that_controls_it_whoever_else_owns_it():
    one, other = (replace(group(kep.PodGroup, {"minMembers": 3}), meta=ObjectMeta(name="g", uid=uid)) for uid in "uv")
    budget, theirs = budget_of(one), budget_of(other)
    owners = (*budget.metadata.owner_references, replace(theirs.metadata.owner_references[0], controller=False))
    shared = replace(budget, metadata=replace(budget.metadata, owner_references=owners))
    assert (is_of(shared, one), is_of(shared, other)) == (True, False)


@pytest.mark.parametrize(
    ("name", "annotations"),
    [("g", {}), ("g", {"muster.dev/disruption-budget": "false"}), ("g" * 64, ASKED)],
    ids=["not asked", "not any more", "a name that no label can have"],
)
def test_groups_without_a_budget(name, annotations):
    assert not needs_budget(group(kep.PodGroup, {"minMembers": 3}, name, annotations))


@pytest.mark.parametrize(
    "subject",
    [
        pod(),
        pod(annotations={"scheduling.k8s.io/group-name": ""}),
        pod(annotations={"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/group-name": "h"}),
        pod(annotations={"scheduling.k8s.io/group-name": "g" * 64}),
    ],
    ids=["no group", "an empty name", "two groups", "a name that no label can have"],
)
def test_pods_without_a_label(subject):
    assert labels_of(subject) == {}
