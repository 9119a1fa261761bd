"""What is asked, and what answers mean."""

import base64
import json
from typing import Any

import pytest

from muster.api.meta import DeleteOptions, Preconditions
from muster.api.status import Status
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.webhooks.review import (
    ReviewError,
    make_denial,
    make_review,
    options_of,
    read_answer,
    version_for,
)
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.registry.builtin import BUILTIN
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.request.requestinfo import WriteOptions


def served(group: str, plural: str) -> Resource:
    found = BUILTIN.find(group, "v1", plural)
    assert found is not None
    return found


PODS, EVENTS, EVENTS_V1 = served("", "pods"), served("", "events"), served("events.k8s.io", "events")
USER = User("jane", frozenset({"b", "a"}), "u-1", {"scope": ("x",)})


def attempt(resource=PODS, operation="CREATE", **fields: Any) -> WriteAttempt:
    return WriteAttempt(resource, operation, "ns", "p", USER, fields.pop("document", {}), resource.view, **fields)


def test_a_question_says_all_about_the_request():
    asked = make_review(attempt(), PODS, PODS.view, {"a": 1}, None, "uid-1", "v1")
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    assert asked == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "uid-1",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "p",
            "namespace": "ns",
            "operation": "CREATE",
            "userInfo": {"username": "jane", "uid": "u-1", "groups": ["a", "b"], "extra": {"scope": ["x"]}},
            "object": {"a": 1},
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldValidation": "Warn"},
        },
    }


def test_a_question_names_the_version_that_was_asked_for_and_the_one_that_is_shown():
    asked = make_review(attempt(EVENTS), EVENTS_V1, EVENTS_V1.view, {}, None, "u", "v1beta1")["request"]
    assert (asked["resource"]["group"], asked["kind"]["group"]) == ("events.k8s.io", "events.k8s.io")
    assert (asked["requestResource"]["group"], asked["requestKind"]["group"]) == ("", "")


def test_a_namespace_is_in_itself():
    namespaces = served("", "namespaces")
    named = WriteAttempt(namespaces, "CREATE", "", "a", USER, {}, namespaces.view)
    assert make_review(named, namespaces, namespaces.view, {}, None, "u", "v1")["request"]["namespace"] == "a"


@pytest.mark.parametrize(
    ("operation", "options", "expected"),
    [
        ("CREATE", WriteOptions(dry_run=True, field_manager="m"),
         {"kind": "CreateOptions", "dryRun": ["All"], "fieldManager": "m", "fieldValidation": "Warn"}),
        ("UPDATE", WriteOptions(field_validation="Strict"), {"kind": "UpdateOptions", "fieldValidation": "Strict"}),
        ("DELETE", DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid="x")),
         {"kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "x"}}),
    ],
)  # fmt: skip
def test_options(operation, options, expected):
    assert options_of(attempt(operation=operation, options=options)) == {"apiVersion": "meta.k8s.io/v1"} | expected


def test_a_connection_has_no_options():
    assert options_of(attempt(operation="CONNECT")) is None


def answer(version="v1", kind="AdmissionReview", **response: Any) -> bytes:
    return json.dumps({"apiVersion": f"admission.k8s.io/{version}", "kind": kind, "response": response}).encode()


def patch(*operations: Any) -> str:
    return base64.b64encode(json.dumps(list(operations)).encode()).decode()


ADD = {"op": "add", "path": "/a", "value": 1}


def test_what_an_answer_says():
    body = answer(
        uid="u", allowed=True, patch=patch(ADD), patchType="JSONPatch", warnings=["w"], auditAnnotations={"k": "v"}
    )
    verdict = read_answer(body, "u", "v1", may_change=True)
    assert (verdict.allowed, verdict.operations, verdict.warnings) == (True, [ADD], ("w",))
    assert verdict.annotations == (("k", "v"),)
    assert read_answer(answer(uid="u", allowed=True), "u", "v1", may_change=True).operations is None


def test_old_answers_need_no_uid_and_no_type():
    body = answer("v1beta1", allowed=True, patch=patch(ADD))
    assert read_answer(body, "u", "v1beta1", may_change=True).operations == [ADD]
    body = json.dumps({"response": {"allowed": True}}).encode()
    assert read_answer(body, "u", "v1beta1", may_change=False).allowed


INVALID = "received invalid webhook response: "


@pytest.mark.parametrize(
    ("body", "may_change", "expected"),
    [
        (b"", True, INVALID + "Input data was truncated"),
        (b"[" * 100_000, True, INVALID),
        (b"[]", True, INVALID),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', True,
         INVALID + "webhook response was absent"),
        (answer("v1beta1", uid="u"), True, INVALID + "expected webhook response of admission.k8s.io/v1, "
         "Kind=AdmissionReview, got admission.k8s.io/v1beta1, Kind=AdmissionReview"),
        (answer(kind="Review", uid="u"), True, INVALID + "expected webhook response of"),
        (answer(allowed=True), True, INVALID + 'expected response.uid="u", got ""'),
        (answer(uid="u", allowed="yes"), True, INVALID),
        (answer(uid="u", patch=patch(ADD), allowed=True), True,
         INVALID + "webhook returned response.patch but not response.patchType"),
        (answer(uid="u", patchType="JSONPatch", allowed=True), True,
         INVALID + "webhook returned response.patchType but not response.patch"),
        (answer(uid="u", patch=patch(ADD), patchType="MergePatch", allowed=True), True,
         'unsupported patch type "MergePatch"'),
        (answer(uid="u", patch="e30=", patchType="JSONPatch", allowed=True), True,
         INVALID + "the patch is no list of operations"),
        (answer(uid="u", patch="ew==", patchType="JSONPatch", allowed=True), True,
         INVALID + "the patch cannot be read"),
        (answer(uid="u", patch=patch(ADD), patchType="JSONPatch", allowed=True), False,
         INVALID + "validating webhook may not return response.patch"),
        (answer(uid="u", patchType="JSONPatch", allowed=True), False,
         INVALID + "validating webhook may not return response.patchType"),
    ],
)  # fmt: skip
def test_answers_that_are_none(body, may_change, expected):
    with pytest.raises(ReviewError) as error:
        read_answer(body, "u", "v1", may_change=may_change)
    assert str(error.value).startswith(expected)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (None, 400, 'admission webhook "a.b.c" denied the request without explanation'),
        (Status(message="no"), 400, 'admission webhook "a.b.c" denied the request: no'),
        (Status(reason="Forbidden", code=403), 403, 'admission webhook "a.b.c" denied the request: Forbidden'),
        (Status(status="Success", code=200, message="m"), 400, 'admission webhook "a.b.c" denied the request: m'),
        (Status(code=9999, message="m"), 400, 'admission webhook "a.b.c" denied the request: m'),
    ],
)
def test_a_denial_is_a_failure(status, code, message):
    error = make_denial("a.b.c", status)
    assert (error.code, error.status.message, error.status.status) == (code, message, "Failure")


def test_versions():
    assert version_for(("v2", "v1beta1", "v1")) == "v1beta1"
    with pytest.raises(ReviewError):
        version_for(("v2",))
