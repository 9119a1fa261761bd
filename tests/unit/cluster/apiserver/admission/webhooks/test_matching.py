"""Who is concerned by a request."""

from typing import Any

import msgspec
import pytest

from muster.api.server.admissionregistration import RuleWithOperations, ValidatingWebhook
from muster.cluster.apiserver.admission.webhooks.matching import Hook, find_concerned, is_selected, rule_matches
from muster.cluster.apiserver.registry.builtin import BUILTIN
from muster.cluster.apiserver.registry.resources import Resource


def served(group: str, plural: str) -> Resource:
    found = BUILTIN.find(group, "v1", plural)
    assert found is not None
    return found


PODS = served("", "pods")
JOBS = served("batch", "jobs")
NAMESPACES = served("", "namespaces")
EVENTS = served("", "events")
EVENTS_V1 = served("events.k8s.io", "events")


def rule(operations="CREATE", groups="*", versions="*", resources="*", scope: str | None = None) -> RuleWithOperations:
    return RuleWithOperations(
        operations=tuple(operations.split()),
        api_groups=tuple("" if group == "core" else group for group in groups.split()),
        api_versions=tuple(versions.split()),
        resources=tuple(resources.split()),
        scope=scope,
    )


def hook(name: str = "a.b.c", **fields: Any) -> Hook:
    return Hook.of(msgspec.convert({"name": name} | fields, ValidatingWebhook))


@pytest.mark.parametrize(
    ("given", "resource", "subresource", "operation", "expected"),
    [
        (rule(), PODS, "", "CREATE", True),
        (rule(), PODS, "", "UPDATE", False),
        (rule("*"), PODS, "", "DELETE", True),
        (rule("UPDATE CREATE"), PODS, "", "UPDATE", True),
        (rule(groups="core"), PODS, "", "CREATE", True),
        (rule(groups="core"), JOBS, "", "CREATE", False),
        (rule(groups="core batch"), JOBS, "", "CREATE", True),
        (rule(versions="v1"), JOBS, "", "CREATE", True),
        (rule(versions="v2"), JOBS, "", "CREATE", False),
        (rule(resources="pods"), PODS, "", "CREATE", True),
        (rule(resources="jobs"), PODS, "", "CREATE", False),
        (rule("*", resources="pods"), PODS, "status", "UPDATE", False),
        (rule("*", resources="*"), PODS, "status", "UPDATE", False),
        (rule("*", resources="pods/status"), PODS, "status", "UPDATE", True),
        (rule("*", resources="pods/*"), PODS, "status", "UPDATE", True),
        (rule("*", resources="pods/*"), PODS, "", "UPDATE", True),
        (rule("*", resources="*/status"), JOBS, "status", "UPDATE", True),
        (rule("*", resources="*/scale"), JOBS, "status", "UPDATE", False),
        (rule("*", resources="*/*"), PODS, "exec", "CONNECT", True),
        (rule(scope="*"), NAMESPACES, "", "CREATE", True),
        (rule(scope="Cluster"), NAMESPACES, "", "CREATE", True),
        (rule(scope="Namespaced"), NAMESPACES, "", "CREATE", False),
        (rule(scope="Cluster"), PODS, "", "CREATE", False),
        (rule(scope="Namespaced"), PODS, "", "CREATE", True),
    ],
)
def test_rules(given, resource, subresource, operation, expected):
    assert rule_matches(given, resource, subresource, operation) is expected


def test_the_same_objects_in_another_version_are_meant_too():
    one = {"operations": ["CREATE"], "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"]}
    same, exact = hook(rules=[one], matchPolicy="Equivalent"), hook(rules=[one], matchPolicy="Exact")
    found = find_concerned([same, exact], EVENTS, "", "CREATE", BUILTIN)
    assert [(concern.hook, concern.resource) for concern in found] == [(same, EVENTS_V1)]
    found = find_concerned([same, exact], EVENTS_V1, "", "CREATE", BUILTIN)
    assert [(concern.hook, concern.resource) for concern in found] == [(same, EVENTS_V1), (exact, EVENTS_V1)]


def test_who_guards_is_not_asked_about_guards():
    everything = hook(rules=[{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}])
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies"):
        resource = served("admissionregistration.k8s.io", plural)
        assert find_concerned([everything], resource, "", "UPDATE", BUILTIN) == []
    assert find_concerned([everything], PODS, "", "UPDATE", BUILTIN)


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


OF_A = {"matchLabels": {"a": "1"}}
NOT_A = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}


@pytest.mark.parametrize(
    ("fields", "resource", "operation", "new", "old", "namespace", "expected"),
    [
        ({}, PODS, "CREATE", {}, None, {}, True),
        ({"namespaceSelector": OF_A}, PODS, "CREATE", {}, None, {"a": "1"}, True),
        ({"namespaceSelector": OF_A}, PODS, "CREATE", {}, None, {}, False),
        ({"namespaceSelector": NOT_A}, PODS, "CREATE", {}, None, {"a": "1"}, False),
        # What is in no namespace is always meant, but for namespaces: they go by their own labels.
        ({"namespaceSelector": OF_A}, served("", "nodes"), "CREATE", {}, None, None, True),
        ({"namespaceSelector": OF_A}, NAMESPACES, "CREATE", labelled(a="1"), None, None, True),
        ({"namespaceSelector": OF_A}, NAMESPACES, "UPDATE", labelled(a="2"), labelled(a="1"), None, False),
        ({"namespaceSelector": OF_A}, NAMESPACES, "DELETE", None, labelled(a="1"), None, True),
        ({"objectSelector": OF_A}, PODS, "CREATE", labelled(a="1"), None, {}, True),
        ({"objectSelector": OF_A}, PODS, "CREATE", {}, None, {}, False),
        ({"objectSelector": OF_A}, PODS, "UPDATE", {}, labelled(a="1"), {}, True),
        ({"objectSelector": OF_A}, PODS, "DELETE", None, labelled(a="1"), {}, True),
        ({"objectSelector": NOT_A}, PODS, "CREATE", {"metadata": {"labels": None}}, None, {}, True),
    ],
)
def test_selectors(fields, resource, operation, new, old, namespace, expected):
    everything: dict[str, Any] = {"namespaceSelector": {}, "objectSelector": {}}
    assert is_selected(hook(**(everything | fields)), resource, "", operation, new, old, namespace) is expected
