"""What the server asks about, what it does not, and what holds while nobody answers."""

from typing import Any

import msgspec
import pytest

from muster.api.config import DEFAULT, Configuration
from muster.api.config.frameworks import BUILT_IN
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.validation.server import webhooks as rules
from muster.cluster.apiserver.cel import all_hold
from muster.webhooks.configurations import webhook_configurations
from muster.webhooks.endpoints import UrlEndpoint, make_conversion

ENGINE = "kueue-controller-manager"


def with_frameworks(*frameworks: str) -> Configuration:
    integrations = msgspec.structs.replace(DEFAULT.integrations, frameworks=frameworks)
    return msgspec.structs.replace(DEFAULT, integrations=integrations)


WITH_ALL = with_frameworks(*BUILT_IN)
CONFIGURATIONS = webhook_configurations(WITH_ALL, service_account=ENGINE)
HOOKS: dict[str, Any] = {hook["name"]: hook for each in CONFIGURATIONS for hook in each["webhooks"]}

QUEUED = {"kueue.x-k8s.io/queue-name": "lq"}
OF_A_JOB = [{"kind": "Job", "name": "j", "controller": True}]


def concerned(hook: str, *, user: str = "alice", old: Any = None, **metadata: Any) -> bool:
    """Whether the webhook is asked, by its conditions."""
    conditions = [one["expression"] for one in HOOKS[hook].get("matchConditions", ())]
    values = {"object": {"metadata": metadata}, "oldObject": old, "request": {"userInfo": {"username": user}}}
    return all_hold(conditions, ("object", "oldObject", "request"), values)


def test_a_warning_is_asked_for_where_a_queue_is_named_on_a_kind_that_does_not_wait() -> None:
    hook = HOOKS["vunqueued.muster.dev"]
    assert (hook["failurePolicy"], concerned(hook["name"], labels=QUEUED), concerned(hook["name"])) == (
        "Ignore", True, False,
    )  # fmt: skip
    kinds = [kind for rule in hook["rules"] for kind in rule["resources"]]
    assert {"pytorchjobs", "deployments", "sparkapplications"} <= set(kinds)
    assert not {"jobs", "jobsets", "pods"} & set(kinds)


def test_a_server_takes_them() -> None:
    mutating, validating = CONFIGURATIONS
    assert rules.validate_create(MUTATING_WEBHOOK_CONFIGURATION.typed(mutating)) == []
    assert rules.validate_create(VALIDATING_WEBHOOK_CONFIGURATION.typed(validating)) == []


@pytest.mark.parametrize("name", HOOKS)
def test_none_stands_in_the_way_of_the_system_or_of_the_engine(name: str) -> None:
    hook = HOOKS[name]
    outside = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "kueue-system"],
    }
    assert outside in hook["namespaceSelector"]["matchExpressions"]
    assert (hook["sideEffects"], hook["timeoutSeconds"] <= 10) == ("None", True)
    assert not concerned(name, user=f"system:serviceaccount:kueue-system:{ENGINE}", labels=QUEUED)


@pytest.mark.parametrize(
    ("hook", "metadata", "asked"),
    [
        ("mjob.kb.io", {}, False),
        ("mjob.kb.io", {"labels": {"a": "b"}}, False),
        ("mjob.kb.io", {"labels": QUEUED}, True),
        ("mjob.default-queue.muster.dev", {"labels": QUEUED}, False),
        ("mjob.default-queue.muster.dev", {}, True),
        ("mjob.default-queue.muster.dev", {"ownerReferences": [{"kind": "JobSet", "controller": True}]}, False),
        ("mjob.default-queue.muster.dev", {"ownerReferences": [{"kind": "CronJob", "controller": True}]}, True),
        ("vjob.kb.io", {}, False),
        ("vjob.changes.muster.dev", {"old": {"metadata": {"labels": QUEUED}}}, True),
        ("vjob.changes.muster.dev", {"old": {"metadata": {}}}, False),
        ("mpod.kb.io", {}, False),
        ("mpod.kb.io", {"labels": {"a": "b"}, "annotations": {"c": "d"}}, False),
        ("mpod.kb.io", {"labels": QUEUED}, True),
        ("mpod.kb.io", {"annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"}}, True),
        ("mpodofjob.muster.dev", {"ownerReferences": OF_A_JOB}, False),
        ("mpodofjob.muster.dev", {"ownerReferences": OF_A_JOB, "labels": {"kueue.x-k8s.io/podset": "main"}}, True),
        ("mclusterqueue.kb.io", {}, True),
        ("mjobset.kb.io", {}, False),
        ("mjobset.kb.io", {"labels": QUEUED}, True),
        ("mjobset.defaults.muster.dev", {"labels": QUEUED}, False),
        ("mjobset.defaults.muster.dev", {"ownerReferences": [{"kind": "Train", "controller": True}]}, True),
        ("vjobset.kb.io", {}, False),
        ("vjobset.kb.io", {"labels": QUEUED}, True),
        ("vjobset.rules.muster.dev", {"labels": QUEUED}, False),
        ("vjobset.rules.muster.dev", {}, True),
        ("vjobset.changes.muster.dev", {}, True),
    ],
)
def test_who_does_not_queue_is_not_asked_about(hook: str, metadata: dict[str, Any], asked: bool) -> None:
    assert concerned(hook, **metadata) == asked


def test_what_runs_and_what_is_deleted_never_waits_for_an_answer() -> None:
    blocked = {(op, name[1:]) for name, hook in HOOKS.items() for op in operations(hook) if policy(hook) == "Fail"}
    changes = {name for op, name in blocked if op == "UPDATE"}
    assert changes == {
        f"{kind}.kb.io"
        for kind in ("admissioncheck", "clusterqueue", "cohort", "localqueue", "multikueuecluster", "multikueueconfig",
                     "resourceflavor", "topology", "workload")
    }  # fmt: skip
    assert {name for op, name in blocked if op == "CREATE"} - changes == {"job.kb.io", "jobset.kb.io", "pod.kb.io"}
    assert not [hook for hook in HOOKS.values() if {"DELETE", "*"} & set(operations(hook))]


def operations(hook: Any) -> list[str]:
    found: list[str] = hook["rules"][0]["operations"]
    return found


def policy(hook: Any) -> str:
    return str(hook["failurePolicy"])


def test_jobs_without_a_queue_are_all_held_where_the_configuration_says_so() -> None:
    all_of_them = msgspec.structs.replace(WITH_ALL, manage_jobs_without_queue_name=True)
    hooks = {hook["name"]: hook for each in webhook_configurations(all_of_them) for hook in each["webhooks"]}
    assert "matchConditions" not in hooks["mjob.kb.io"]
    assert "mjob.default-queue.muster.dev" not in hooks
    assert "vjobset.rules.muster.dev" not in hooks
    assert operations(hooks["mjobset.defaults.muster.dev"]) == ["UPDATE"]
    assert "matchConditions" not in hooks["mjobset.kb.io"]


def test_no_jobset_waits_for_an_answer_where_jobsets_do_not_queue() -> None:
    found = webhook_configurations(with_frameworks("batch/job"))
    hooks = {hook["name"]: hook for each in found for hook in each["webhooks"] if "jobset" in hook["name"]}
    assert {policy(hook) for hook in hooks.values()} == {"Ignore"}
    of_new = {name for name, hook in hooks.items() if "CREATE" in operations(hook)}
    assert of_new == {"mjobset.defaults.muster.dev", "vjobset.rules.muster.dev"}, "they have defaults and rules"
    assert not [name for name in of_new if "matchConditions" in hooks[name]]


def test_what_does_not_queue_by_the_configuration_is_not_asked_about() -> None:
    names = {hook["name"] for each in webhook_configurations(DEFAULT) for hook in each["webhooks"]}
    assert {name for name in names if "pod" in name} == {"mpodofjob.muster.dev"}


def test_a_server_without_nodes_asks_at_a_url() -> None:
    endpoint = UrlEndpoint("https://127.0.0.1:9443")
    hooks = webhook_configurations(DEFAULT, endpoint=endpoint)[0]["webhooks"]
    assert {hook["clientConfig"]["url"] for hook in hooks} == {"https://127.0.0.1:9443/mutate"}
    assert make_conversion(endpoint)["webhook"]["clientConfig"] == {"url": "https://127.0.0.1:9443/convert"}
