"""ValidatingAdmissionPolicies: what they refuse and warn of, about which requests, with which parameters."""

from typing import Any

import pytest
from tests.system.apiserver.harness import MAPS, NAMESPACES, PODS, api, config_map, pod

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
DENIED = "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {}"


async def in_force(api, *validations: Any, binding: Any = None, rule: Any = RULE, **spec: Any) -> None:
    rules = [validation if isinstance(validation, dict) else {"expression": validation} for validation in validations]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": rules} | spec
    await api.made(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]} | (binding or {})
    await api.made(BINDINGS, {"metadata": {"name": "b"}, "spec": bound})


@pytest.mark.parametrize(
    ("validation", "code", "reason", "message"),
    [
        ("object.data.a == 'x'", 422, "Invalid", "failed expression: object.data.a == 'x'"),
        ({"expression": "object.data.a == 'x'", "message": "a is x"}, 422, "Invalid", "a is x"),
        (
            {"expression": "false", "messageExpression": "'not ' + object.data.a", "reason": "Forbidden"},
            403, "Forbidden", "not b",
        ),
        ({"expression": "false", "messageExpression": "object.x", "message": "m"}, 422, "Invalid", "m"),
        ("object.data.z == 1", 422, "Invalid", "expression 'object.data.z == 1' resulted in error: no such key: z"),
        ("request.userInfo.username == 'x' || request.operation != 'CREATE'", 422, "Invalid", "failed expression: *"),
        ("namespaceObject.metadata.name != 'default' || oldObject != null", 422, "Invalid", "failed expression: *"),
    ],
)  # fmt: skip
@api
async def test_a_broken_rule(api, validation, code, reason, message):
    await in_force(api, "object.kind == 'ConfigMap'", validation)
    answer = await api.post(MAPS, config_map(data={"a": "b"}))
    assert (answer.status, answer.json["reason"]) == (code, reason)
    if message.endswith("*"):
        assert answer.message.startswith(DENIED.format(message[:-1]))
    else:
        assert answer.message == DENIED.format(message)


@api
async def test_a_condition_that_is_no_truth_value_lets_nothing_through(api):
    await in_force(api, "true", matchConditions=[{"name": "c", "expression": "object.data.a"}])
    answer = await api.post(MAPS, config_map(data={"a": "b"}))
    assert answer.status == 422
    assert answer.message == DENIED.format("expression 'object.data.a' does not evaluate to a bool")


@pytest.mark.parametrize(
    "spec",
    [
        {"binding": {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}},
        {"binding": {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}},
        {"binding": {"matchResources": {"excludeResourceRules": [RULE]}}},
        {"rule": RULE | {"resourceNames": ["other"]}},
        {"rule": RULE | {"operations": ["UPDATE"]}},
        {"matchConditions": [{"name": "c", "expression": "has(object.data.z)"}]},
        {"failurePolicy": "Ignore", "matchConditions": [{"name": "c", "expression": "object.data.z == 1"}]},
        {"binding": {"validationActions": ["Audit"]}},
    ],
)
@api
async def test_requests_that_a_policy_is_not_about(api, spec):
    await in_force(api, "false", **spec)
    await api.made(MAPS, config_map(data={"a": "b"}))
    await api.made(PODS, pod())


@api
async def test_a_warning(api):
    await in_force(api, {"expression": "false", "message": "careful"}, binding={"validationActions": ["Warn"]})
    answer = await api.post(MAPS, config_map())
    assert answer.status == 201
    warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': careful"
    assert answer.headers["warning"] == f'299 - "{warning}"'


@api
async def test_changes_and_deletions(api):
    rule = RULE | {"operations": ["UPDATE", "DELETE"]}
    await in_force(api, "object != null && object.data == oldObject.data", rule=rule)
    await api.made(MAPS, config_map(data={"a": "b"}))
    assert (await api.merge(f"{MAPS}/m", {"metadata": {"labels": {"c": "d"}}})).status == 200
    assert (await api.merge(f"{MAPS}/m", {"data": {"a": "c"}})).status == 422
    assert (await api.delete(f"{MAPS}/m")).status == 422
    assert (await api.delete(f"{BINDINGS}/b")).status == 200
    assert (await api.delete(f"{MAPS}/m")).status == 200


@api
async def test_variables_are_worked_out_when_they_are_needed(api):
    variables = [
        {"name": "a", "expression": "object.data.a"},
        {"name": "twice", "expression": "variables.a + variables.a"},
        {"name": "bad", "expression": "object.data.nothing"},
    ]
    await in_force(api, "variables.twice == 'bb' || variables.bad == ''", variables=variables)
    assert (await api.post(MAPS, config_map(data={"a": "b"}))).status == 201
    answer = await api.post(MAPS, config_map("n", data={"a": "c"}))
    assert answer.message.endswith("resulted in error: no such key: nothing")


@api
async def test_parameters(api):
    params = {"apiVersion": "v1", "kind": "ConfigMap"}
    binding = {"paramRef": {"name": "params", "parameterNotFoundAction": "Deny"}}
    await in_force(api, "object.data.a == params.data.a", binding=binding, paramKind=params, rule=RULE | {
        "resourceNames": ["m"]})  # fmt: skip
    answer = await api.post(MAPS, config_map(data={"a": "b"}))
    assert answer.message == DENIED.format(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    await api.made(MAPS, config_map("params", data={"a": "b"}))
    assert (await api.post(MAPS, config_map(data={"a": "c"}))).status == 422
    assert (await api.post(MAPS, config_map(data={"a": "b"}))).status == 201


@api
async def test_unsound_expressions_are_refused(api):
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "object.a =="}]}
    answer = await api.post(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    assert answer.status == 422
    assert 'spec.validations[0].expression: Invalid value: "object.a ==": ' in answer.message
    assert "ERROR: <input>:1:12: Syntax error" in answer.message


@api
async def test_a_namespace_is_matched_by_its_own_labels(api):
    rule = RULE | {"resources": ["namespaces"]}
    match = {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}
    await in_force(api, "false", rule=rule, binding=match)
    assert (await api.post(NAMESPACES, {"metadata": {"name": "n"}})).status == 201
    assert (await api.post(NAMESPACES, {"metadata": {"name": "o", "labels": {"a": "b"}}})).status == 422
