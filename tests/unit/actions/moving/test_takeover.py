"""What is left of a takeover, by what was read of the cluster."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from muster.actions.moving.clusterstate import Engine, MoveState, RunFacts
from muster.actions.moving.kueuestate import capture_state, config_map, namespace_patch, service_patch, state_in
from muster.actions.moving.steps import Install, RefusedError
from muster.actions.moving.takeover import covers, plan_takeover
from muster.api.config import load
from muster.install.options import Options, make_default_configuration

TEXT = make_default_configuration()
OPTIONS = Options(TEXT, load(TEXT))
DOCUMENT: dict[str, Any] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "m", "namespace": "n"}}
LIVE = {("ServiceAccount", "n", "m"): DOCUMENT}
RUNS = Engine("kueue-system", "kueue-controller-manager", 2, ("p",))
STOPPED = Engine("kueue-system", "kueue-controller-manager", 0)
HOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "kueue-m", "uid": "u", "resourceVersion": "1", "managedFields": [{"manager": "kubectl"}]},
    "webhooks": [],
}  # fmt: skip
OTHERS = HOOKS | {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "kueue-v"}}
STATE = capture_state(2, [HOOKS], None, {})
KEEPS = "keep in ConfigMap kueue-system/muster-takeover what the way back needs"


def texts(seen: MoveState, restarting: tuple[str, ...] = ()) -> list[str]:
    return [step.text for step in plan_takeover(seen, OPTIONS, [DOCUMENT], restarting)]


def test_all_of_it_is_in_an_order_in_which_nothing_is_lost() -> None:
    assert texts(MoveState([RUNS], webhooks=[HOOKS])) == [
        "ask the server whether it would take 1 documents of Muster's",
        "keep in ConfigMap kueue-system/muster-takeover what the way back needs",
        "stop Kueue's manager: Deployment kueue-system/kueue-controller-manager from 2 to 0 replicas",
        "wait until the pods of Kueue's manager have ended",
        "see that no engine renews the Lease",
        "delete MutatingWebhookConfiguration kueue-m",
        "install Muster: ServiceAccount m",
        "wait until Muster leads",
    ]


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        (MoveState([RUNS], webhooks=[HOOKS], kueue_state=STATE), "stop Kueue's manager"),
        (MoveState([STOPPED], webhooks=[HOOKS], kueue_state=STATE), "see that no engine renews"),
        (
            MoveState([STOPPED], webhooks=[HOOKS], kueue_state=STATE, learned=RunFacts(lease_free=True)),
            "delete Mutating",
        ),
        (MoveState([STOPPED], kueue_state=STATE, learned=RunFacts(lease_free=True)), "install Muster"),
        (
            MoveState([STOPPED], kueue_state=STATE, learned=RunFacts(lease_free=True), live=LIVE),
            "wait until Muster leads",
        ),
        (MoveState([], kueue_state=STATE, learned=RunFacts(lease_free=True)), "install Muster"),
    ],
)  # fmt: skip
def test_it_goes_on_where_the_cluster_is(seen: MoveState, first: str) -> None:
    assert texts(seen)[0].startswith(first)


def test_once_muster_leads_nothing_is_left() -> None:
    done = RunFacts(lease_free=True, muster_leads=True)
    assert texts(MoveState([STOPPED], kueue_state=STATE, live=LIVE, learned=done)) == []


def test_what_was_kept_stays_once_kueue_has_stopped_and_is_renewed_while_it_runs() -> None:
    assert KEEPS not in texts(MoveState([STOPPED], webhooks=[OTHERS], kueue_state=STATE))
    assert KEEPS in texts(MoveState([RUNS], webhooks=[OTHERS], kueue_state=STATE)), "its webhooks are others now"


def test_a_manager_that_runs_again_half_way_loses_nothing_that_was_kept() -> None:
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    before = capture_state(1, [HOOKS, OTHERS], {"spec": {"selector": {"app": "kueue"}}}, enforced)
    changed = OTHERS | {"webhooks": [{"name": "more.kb.io"}]}
    seen = MoveState([RUNS], webhooks=[changed], service={"spec": {"selector": {"app": "muster"}}}, kueue_state=before)
    (step,) = [one for one in plan_takeover(seen, OPTIONS, [DOCUMENT], ()) if one.text == KEEPS]
    assert isinstance(step, Install)
    now = state_in(step.documents[0])
    assert now == replaced(before, replicas=2, objects=capture_state(2, [HOOKS, changed], None, {}).objects)
    assert KEEPS not in texts(replace(seen, kueue_state=now)), "it is written once"


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (MoveState([RUNS, Engine("other", "kueue", 1)]), "installed more than once"),
        (
            MoveState([Engine("other", "kueue-controller-manager", 1)]),
            "in namespace other, and the Configuration says",
        ),
        (MoveState([]), "no Kueue is here to take over from"),
    ],
)  # fmt: skip
def test_a_place_that_is_not_plain_is_refused(seen: MoveState, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        texts(seen)


def test_jobs_that_would_start_anew_are_a_reason_until_kueue_has_stopped() -> None:
    with pytest.raises(RefusedError, match=r"2 Jobs that run .*: default/a, default/b; let them end first"):
        texts(MoveState([RUNS]), ("default/a", "default/b"))
    assert texts(MoveState([STOPPED], kueue_state=STATE), ("default/a",))


def test_certificates_of_another_program_are_a_reason() -> None:
    text = TEXT + "internalCertManagement: {enable: false}\n"
    with pytest.raises(RefusedError, match="another program makes the certificates"):
        plan_takeover(MoveState([RUNS]), replaced(OPTIONS, text=text, settings=load(text)), [DOCUMENT], ())


@pytest.mark.parametrize(
    ("live", "wanted", "is_covered"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": False, "b": {}, "c": [], "d": ""}, True),
        ({}, {"a": {"b": True}}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": ({"b": 1},)}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": "text"}, {"a": {"b": 1}}, False),
        (None, {"a": 1}, False),
    ],
)
def test_what_a_document_says_is_looked_for_in_the_object(live: Any, wanted: Any, is_covered: bool) -> None:
    assert covers(live, wanted) is is_covered


def test_what_is_kept_is_read_as_it_was_and_without_what_the_server_sets() -> None:
    service = {"spec": {"selector": {"app": "kueue"}, "ports": [{"port": 443}], "clusterIP": "10.0.0.1"}}
    enforced = {"pod-security.kubernetes.io/enforce": "baseline"}
    kept = capture_state(3, [HOOKS], service, {"metadata": {"labels": enforced}})
    assert state_in(config_map(kept, "kueue-system")) == kept
    assert kept.objects[0]["metadata"] == {"name": "kueue-m", "managedFields": [{"manager": "kubectl"}]}
    moved = {"spec": {"selector": {"app": "muster", "more": "x"}, "ports": [{"port": 443}]}}
    assert service_patch(kept, moved) == {
        "spec": {"selector": {"app": "kueue", "more": None}, "ports": [{"port": 443}]}
    }
    assert service_patch(kept, service) is None
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    assert namespace_patch(kept, restricted) == {"metadata": {"labels": enforced}}
    assert namespace_patch(kept, {"metadata": {"labels": enforced}}) is None
