"""Rules of webhook configurations and admission policies."""

from typing import Any

import msgspec
import pytest

from muster.api.server.admissionregistration import (
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from muster.api.validation.server import admissionpolicy, webhooks

META = {"name": "a"}
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
URL = {"url": "https://a.b/c"}
GOOD = {"name": "a.b.c", "clientConfig": URL, "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [RULE]}
INVALID = "Invalid value"
FORM = "; desired format: https://host[/path]"


def configuration(*hooks: Any) -> MutatingWebhookConfiguration:
    return msgspec.convert({"metadata": META, "webhooks": hooks}, MutatingWebhookConfiguration)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"name": ""}, ["name: Required value"]),
        ({"name": "a.b"},
         ['name: Invalid value: "a.b": should be a domain with at least three segments separated by dots']),
        ({"sideEffects": None}, ['sideEffects: Required value: must specify one of "None", "NoneOnDryRun"']),
        ({"sideEffects": "Some"}, ['sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
        ({"timeoutSeconds": 31},
         ["timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
        ({"failurePolicy": "Maybe"}, ['failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"']),
        ({"reinvocationPolicy": "Always"},
         ['reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"']),
        ({"matchPolicy": "Alike"},
         ['matchPolicy: Unsupported value: "Alike": supported values: "Equivalent", "Exact"']),
        ({"admissionReviewVersions": []}, ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
        ({"admissionReviewVersions": ["v2"]},
         ['admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1']),
        ({"admissionReviewVersions": ["v1", "v1"]},
         ['admissionReviewVersions[1]: Invalid value: "v1": duplicate version']),
        ({"clientConfig": {}}, ["clientConfig: Required value: exactly one of url or service is required"]),
        ({"clientConfig": URL | {"service": {}}},
         ["clientConfig: Required value: exactly one of url or service is required"]),
        ({"clientConfig": {"url": "http://a"}},
         [f"clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}"]),
        ({"clientConfig": {"url": "https://u:p@a/#f"}},
         ['clientConfig.url: Invalid value: "u": user information is not permitted in the URL',
          'clientConfig.url: Invalid value: "f": fragments are not permitted in the URL']),
        ({"clientConfig": {"url": "https:///x"}},
         [f'clientConfig.url: Invalid value: "": host must be specified{FORM}']),
        ({"clientConfig": {"url": "https://a/\r\nX: y"}},
         [f"clientConfig.url: Required value: url must be a valid URL: invalid control character in URL{FORM}"]),
        ({"clientConfig": {"url": "https://a:x/"}},
         [("clientConfig.url: Required value: url must be a valid URL: "
           f"Port could not be cast to integer value as 'x'{FORM}")]),
        ({"clientConfig": {"service": {}}},
         ["clientConfig.service.name: Required value: service name is required",
          "clientConfig.service.namespace: Required value: service namespace is required"]),
        ({"clientConfig": {"service": {"name": "a", "namespace": "b", "port": 0, "path": "x"}}},
         ["clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
          "clientConfig.service.path: Invalid value: \"x\": must start with a '/'"]),
        ({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "/a//b"}}},
         ['clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty']),
        ({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "//a"}}},
         ['clientConfig.service.path: Invalid value: "//a": segment[0] may not be empty']),
        ({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "/a//"}}},
         ['clientConfig.service.path: Invalid value: "/a//": segment[1] may not be empty']),
        ({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "//"}}},
         ['clientConfig.service.path: Invalid value: "//": segment[0] may not be empty']),
        *(
            ({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": path}}}, [])
            for path in ("", "/", "/a/")
        ),
        ({"rules": [RULE | {"operations": ["*", "CREATE"]}]},
         [f"rules[0].operations: {INVALID}: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations"]),
        ({"rules": [RULE | {"operations": ["READ"]}]},
         [('rules[0].operations[0]: Unsupported value: "READ": supported values: "CONNECT", "CREATE", "DELETE", '
          '"UPDATE", "*"')]),
        ({"rules": [RULE | {"apiGroups": []}]}, ["rules[0].apiGroups: Required value"]),
        ({"rules": [RULE | {"apiVersions": [""]}]}, ["rules[0].apiVersions[0]: Required value"]),
        ({"rules": [RULE | {"resources": ["*", "*/status", "pods/*"]}]}, []),
        ({"rules": [RULE | {"resources": ["*", "pods"]}]},
         [("rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources "
          "without subresources")]),
        ({"rules": [RULE | {"resources": ["*/*", "pods"]}]},
         [f"rules[0].resources: {INVALID}: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources"]),
        ({"rules": [RULE | {"resources": ["pods/*", "pods/log"]}]},
         ["rules[0].resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log"]),
        ({"rules": [RULE | {"resources": ["*/log", "pods/log"]}]},
         ["rules[0].resources[1]: Invalid value: \"pods/log\": if '*/log' is present, must not specify pods/log"]),
        ({"rules": [RULE | {"scope": "Here"}]},
         ['rules[0].scope: Unsupported value: "Here": supported values: "*", "Cluster", "Namespaced"']),
        ({"matchConditions": [{"name": "a", "expression": " "}, {"name": "a", "expression": "bad"}, {"name": "a b"}]},
         ["matchConditions[0].expression: Required value",
          'matchConditions[1].expression: Invalid value: "bad": because',
          'matchConditions[1].name: Duplicate value: "a"',
          "matchConditions[2].expression: Required value", "matchConditions[2].name: *"]),
        ({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
         [("objectSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
          "'NotIn'")]),
    ],
)  # fmt: skip
def test_webhooks(fields, expected):
    errors = webhooks.validate_create(configuration(GOOD | fields), lambda text: "because" if text == "bad" else "")
    found = [str(error).removeprefix("webhooks[0].") for error in errors]
    cut = [text[: len(e) - 1] + "*" if e.endswith("*") else text for text, e in zip(found, expected, strict=False)]
    assert cut + found[len(cut) :] == expected


def test_names_are_unique():
    errors = webhooks.validate_update(configuration(GOOD, GOOD), configuration(GOOD))
    assert [str(error) for error in errors] == ['webhooks[1].name: Duplicate value: "a.b.c"']


SPEC = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
        ({"validations": []}, ["spec.validations: Required value: validations or auditAnnotations must be specified"]),
        ({"validations": [{}]}, ["spec.validations[0].expression: Required value: expression is not specified"]),
        ({"paramKind": {"kind": "A"}}, ["spec.paramKind.apiVersion: Required value"]),
        ({"variables": [{"name": "a", "expression": "1"}, {"name": "a", "expression": "1"}]},
         ['spec.variables[1].name: Duplicate value: "a"']),
    ],
)  # fmt: skip
def test_policies(fields, expected):
    spec = {name: value for name, value in (SPEC | fields).items() if value is not None}
    policy = msgspec.convert({"metadata": META, "spec": spec}, ValidatingAdmissionPolicy)
    assert [str(error) for error in admissionpolicy.validate_create(policy)] == expected
    assert [str(error) for error in admissionpolicy.validate_update(policy, policy)] == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"policyName": "a", "validationActions": ["Deny"]}, []),
        ({}, ["spec.policyName: Required value",
              "spec.validationActions: Required value: at least one validation action is required"]),
        ({"policyName": "a", "validationActions": ["Deny", "Warn"]},
         [('spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the '
          "same validation failure information)")]),
        ({"policyName": "a", "validationActions": ["Deny"], "paramRef": {}},
         ["spec.paramRef.name: Required value: one of name or selector must be specified",
          "spec.paramRef.parameterNotFoundAction: Required value"]),
    ],
)  # fmt: skip
def test_bindings(spec, expected):
    binding = msgspec.convert({"metadata": META, "spec": spec}, ValidatingAdmissionPolicyBinding)
    assert [str(error) for error in admissionpolicy.validate_binding_create(binding)] == expected
    assert [str(error) for error in admissionpolicy.validate_binding_update(binding, binding)] == expected
