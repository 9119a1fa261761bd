"""What is left of a handback, by what was read of the cluster."""

from typing import Any

import pytest

from muster.actions.moving.clusterstate import Engine, MoveState, RunFacts, identify_object
from muster.actions.moving.handback import include_extras, plan_handback, remove_our_managers
from muster.actions.moving.kueuestate import capture_state
from muster.actions.moving.steps import RefusedError
from muster.api.config import load
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration

TEXT = make_default_configuration()
OPTIONS = Options(TEXT, load(TEXT))
KUEUE = Engine("kueue-system", "kueue-controller-manager", 0)
KUEUE_RUNS = Engine("kueue-system", "kueue-controller-manager", 2, ("p",))
MUSTER = Engine("kueue-system", "muster-controller-manager", 2, ("q",))
ACCOUNT: dict[str, Any] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "m", "namespace": "n"}}
ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
    "metadata": {"name": "kueue-batch-admin-role", "managedFields": [{"manager": "muster"}, {"manager": "kubectl"}]},
}  # fmt: skip
DOCUMENTS = [ACCOUNT, ROLE]
LIVE = {identify_object(each): each for each in DOCUMENTS}
HOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "kueue-m"}, "webhooks": [],
}  # fmt: skip
OURS = HOOKS | {"metadata": {"name": "muster-mutating-webhook-configuration"}}
STATE = capture_state(2, [HOOKS], None, {})


def texts(seen: MoveState, left: tuple[str, ...] = ()) -> list[str]:
    return [step.text for step in plan_handback(seen, OPTIONS, DOCUMENTS, left)]


def test_all_of_it_is_in_an_order_in_which_nothing_is_lost() -> None:
    assert texts(MoveState([KUEUE], MUSTER, own_webhooks=[OURS], kueue_state=STATE, live=LIVE)) == [
        "delete MutatingWebhookConfiguration muster-mutating-webhook-configuration",
        "delete Deployment kueue-system/muster-controller-manager",
        "wait until the pods of Muster have ended",
        "give back to Kueue what Muster has admitted",
        "delete ServiceAccount n/m",
        "create MutatingWebhookConfiguration kueue-m again",
        "give up what Muster manages of 1 objects of Kueue's",
        "start Kueue's manager: Deployment kueue-system/kueue-controller-manager from 0 to 2 replicas",
        "wait until Kueue's manager leads",
        "delete ConfigMap kueue-system/muster-takeover",
    ]


def test_nothing_is_given_back_while_kueue_runs_already() -> None:
    assert texts(MoveState([KUEUE_RUNS], kueue_state=STATE, webhooks=[HOOKS])) == [
        "wait until Kueue's manager leads", "delete ConfigMap kueue-system/muster-takeover",
    ]  # fmt: skip
    assert texts(MoveState([KUEUE_RUNS])) == []


def test_what_cert_manager_and_prometheus_were_given_goes_where_it_is_there() -> None:
    extras = [
        one
        for one in make_documents(include_extras(OPTIONS))
        if identify_object(one) not in map(identify_object, make_documents(OPTIONS))
    ]
    steps = plan_handback(
        MoveState([KUEUE], kueue_state=STATE, live={identify_object(one): one for one in extras}),
        OPTIONS,
        extras,
        (),
    )
    assert [step.text for step in steps if step.text.startswith("delete")] == [
        "delete ConfigMap kueue-system/muster-grafana-dashboard",
        "delete PrometheusRule kueue-system/muster-alerts",
        "delete ServiceMonitor kueue-system/muster-controller-manager",
        "delete RoleBinding kueue-system/muster-metrics-discovery",
        "delete Role kueue-system/muster-metrics-discovery",
        "delete ClusterRoleBinding muster-metrics-reader",
        "delete ClusterRole muster-metrics-reader",
        "delete Deployment kueue-system/muster-dashboard",
        "delete Service kueue-system/muster-dashboard",
        "delete ConfigMap kueue-system/muster-dashboard",
        "delete ServiceAccount kueue-system/muster-dashboard",
        "delete Certificate kueue-system/muster-serving-cert",
        "delete Issuer kueue-system/muster-selfsigned-issuer",
        "delete ConfigMap kueue-system/muster-takeover",
    ]


@pytest.mark.parametrize("seen", [MoveState([], kueue_state=STATE), MoveState([KUEUE], live=LIVE)])
def test_kueue_is_not_started_without_its_manager_or_its_webhooks(seen: MoveState) -> None:
    found = texts(seen)
    assert found[0] == "give back to Kueue what Muster has admitted"
    assert not [text for text in found if "start" in text or "create" in text]


def test_a_deployment_that_is_being_deleted_is_waited_for() -> None:
    deleting = Engine("kueue-system", "muster-controller-manager", 2, ("q",), deleting=True)
    assert texts(MoveState([KUEUE], deleting, kueue_state=STATE))[0] == "wait until the pods of Muster have ended"


def test_what_only_muster_runs_is_a_reason() -> None:
    with pytest.raises(RefusedError, match="nothing would run these once Muster is stopped: jobset default/s;"):
        texts(MoveState([KUEUE], MUSTER, kueue_state=STATE), ("jobset default/s",))


def test_where_nothing_of_musters_is_there_is_nothing_to_hand_back() -> None:
    with pytest.raises(RefusedError, match="Muster is not installed here"):
        texts(MoveState([KUEUE]))


def test_two_engines_that_are_to_run_are_a_reason() -> None:
    with pytest.raises(RefusedError, match="are both to run"):
        texts(MoveState([KUEUE_RUNS], MUSTER, kueue_state=STATE))


def test_who_manages_what_is_as_before_muster() -> None:
    ours, theirs, earlier = {"manager": "muster"}, {"manager": "kubectl"}, {"manager": "helm"}
    assert remove_our_managers([theirs], [earlier]) is None
    assert remove_our_managers([ours, theirs], ()) == [theirs]
    assert remove_our_managers([ours], [earlier, ours]) == [earlier]
    assert remove_our_managers([ours], ()) == [{}]


def test_given_back_once_is_enough() -> None:
    found = texts(MoveState([KUEUE], kueue_state=STATE, learned=RunFacts(given_back=True)))
    assert "give back to Kueue what Muster has admitted" not in found
