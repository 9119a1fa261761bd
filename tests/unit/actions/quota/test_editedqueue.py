"""What `muster queue edit` changes of a ClusterQueue."""

from typing import Any

import pytest

from muster.actions.quota.editedqueue import (
    UNLIMITED,
    QueueEdit,
    describe_excess,
    make_annotations,
    make_spec_patch,
    patch_quotas,
)
from muster.api.ours.teams import QUEUE_USERS, USER_LIMITS, WITHOUT_TEAM


def group(*flavors: str, **quotas: str):
    def resources():
        return [{"name": name, "nominalQuota": quantity} for name, quantity in quotas.items()]

    return {
        "coveredResources": list(quotas),
        "flavors": [{"name": flavor, "resources": resources()} for flavor in flavors],
    }


ONE = {"resourceGroups": [group("default-flavor", cpu="8", memory="32Gi")], "cohortName": "lab"}
TWO = {"resourceGroups": [group("spot", "own", cpu="8"), group("a100", gpu="4")]}


def quotas(spec):
    return [
        (flavor["name"], *one.values())
        for g in spec["resourceGroups"]
        for flavor in g["flavors"]
        for one in flavor["resources"]
    ]


def test_what_is_given_is_changed_and_nothing_else():
    assert quotas(make_spec_patch(ONE, QueueEdit({"cpu": "12"}))) == [
        ("default-flavor", "cpu", "12"), ("default-flavor", "memory", "32Gi")
    ]  # fmt: skip
    limited = make_spec_patch(ONE, QueueEdit(borrowing={"cpu": "4"}, lending={"cpu": "0"}))
    assert quotas(limited)[0] == ("default-flavor", "cpu", "8", "4", "0")
    borrows = make_spec_patch({**ONE, **limited}, QueueEdit(lending={"cpu": UNLIMITED}))
    assert quotas(borrows)[0] == ("default-flavor", "cpu", "8", "4")
    assert make_spec_patch(ONE, QueueEdit(strict=True, within="Never", weight="2")) == {
        "queueingStrategy": "StrictFIFO", "preemption": {"withinClusterQueue": "Never"}, "fairSharing": {"weight": "2"}
    }  # fmt: skip


def test_what_is_so_already_is_no_change():
    assert make_spec_patch(ONE, QueueEdit({"cpu": "8"}, cohort="lab")) == {}
    assert make_spec_patch({}, QueueEdit(cohort="")) == {}


def test_limits_go_with_the_cohort():
    limited = {**ONE, **make_spec_patch(ONE, QueueEdit(borrowing={"cpu": "4"}))}
    assert make_spec_patch(limited, QueueEdit(cohort="")) == {
        "resourceGroups": ONE["resourceGroups"],
        "cohortName": None,
    }


def test_a_new_resource_joins_the_others_of_its_flavor():
    assert quotas(make_spec_patch(ONE, QueueEdit({"gpu": "2"})))[-1] == ("default-flavor", "gpu", "2")
    assert quotas(make_spec_patch(TWO, QueueEdit({"memory": "1Gi"}, flavor="own"))) == [
        ("spot", "cpu", "8"), ("spot", "memory", "0"),
        ("own", "cpu", "8"), ("own", "memory", "1Gi"), ("a100", "gpu", "4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "edit", "words"),
    [
        (TWO, QueueEdit({"cpu": "1"}), "cpu has quotas of the flavors spot, own: name one with --flavor"),
        (TWO, QueueEdit({"cpu": "1"}, flavor="a100"), "cpu has no quota of the flavor a100; there is: spot, own"),
        (TWO, QueueEdit({"memory": "1"}), "memory has no quota so far; name its flavor"),
        ({}, QueueEdit({"cpu": "1"}), "there is none"),
        (TWO, QueueEdit(borrowing={"cpu": "1"}, flavor="own"), "only in a cohort"),
        (ONE, QueueEdit(lending={"gpu": "1"}), "a limit of gpu needs a quota of that resource"),
    ],
)
def test_what_cannot_be_is_said(spec, edit, words):
    with pytest.raises(ValueError, match=words):
        make_spec_patch(spec, edit)


def using(spec, **totals):
    resources = [{"name": name, "total": total} for name, total in totals.items()]
    return {"spec": spec, "status": {"flavorsReservation": [{"name": "f", "resources": resources}]}}


def test_a_quota_below_what_jobs_use_is_told_of():
    alone = {"resourceGroups": [group("f", cpu="500m", memory="1Gi")]}
    assert describe_excess(using(alone, cpu="1", memory="1Gi")) == [
        "jobs use 1 cpu, and the quota is 500m now: they continue, and no further job starts until they use less"
    ]
    assert describe_excess(using(alone, cpu="500m")) == []
    assert describe_excess({"spec": alone}) == []
    assert describe_excess(using({**alone, "cohortName": "lab"}, cpu="1")) == []


TEAM = {QUEUE_USERS: "ada,bob", USER_LIMITS: "jobs=4,gpus=2"}


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (QueueEdit(added=frozenset({"eve"}), removed=frozenset({"bob"})), {QUEUE_USERS: "ada,eve"}),
        (QueueEdit(users=frozenset({"zoe"})), {QUEUE_USERS: "zoe"}),
        (QueueEdit(everybody=True), {QUEUE_USERS: None}),
        (QueueEdit(added=frozenset({"ada"})), {}),
        (QueueEdit(limits={"gpus": "3", "waiting-jobs": "9"}), {USER_LIMITS: "jobs=4,gpus=3,waiting-jobs=9"}),
        (QueueEdit(limits={"gpus": UNLIMITED}), {USER_LIMITS: "jobs=4"}),
        (QueueEdit(limits={"gpus": UNLIMITED, "jobs": UNLIMITED}), {USER_LIMITS: None}),
        (QueueEdit(without_team=False), {WITHOUT_TEAM: "false"}),
        (QueueEdit({"cpu": "12"}), {}),
    ],
)
def test_users_and_their_limits_change(edit, changed):
    assert make_annotations(TEAM, edit) == changed


def test_users_are_not_added_to_a_queue_for_everybody():
    with pytest.raises(ValueError, match="the queue is for everybody; say who alone may use it with --users"):
        make_annotations({}, QueueEdit(added=frozenset({"ada"})))


def test_past_use_may_order_a_queue():
    by_usage = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    assert make_spec_patch(ONE, QueueEdit(by_usage=True)) == by_usage
    assert make_spec_patch(ONE | by_usage, QueueEdit(by_usage=False)) == {"admissionScope": None}
    assert make_spec_patch(ONE, QueueEdit(by_usage=False)) == {}


def test_quotas_of_flavors_are_set_and_nothing_else():
    spec: dict[str, Any] = {
        "cohortName": "lab",
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [
                    {"name": "a", "resources": [{"name": "cpu", "nominalQuota": "8", "borrowingLimit": "2"}]},
                    {"name": "b", "resources": [{"name": "cpu", "nominalQuota": "1"}]},
                ],
            }
        ],
    }
    [group] = patch_quotas(spec, {("a", "cpu"): "4", ("b", "cpu"): "2"})["resourceGroups"]
    assert [flavor["resources"] for flavor in group["flavors"]] == [
        [{"name": "cpu", "nominalQuota": "4", "borrowingLimit": "2"}],
        [{"name": "cpu", "nominalQuota": "2"}],
    ]
    assert spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "8"
    assert patch_quotas(spec, {("a", "cpu"): "8000m"}) == {}
    assert patch_quotas(spec, {}) == {}
    with pytest.raises(ValueError, match="cpu has no quota of the flavor c; there is: a, b"):
        patch_quotas(spec, {("c", "cpu"): "1"})
