from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from muster.api.validation import names
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label, validate_label_selector

GOOD = ObjectMeta(name="a", namespace="default", resource_version="1")
OWNER = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def change(**fields: Any) -> Any:
    return msgspec.structs.replace(GOOD, **fields)


def test_good_metadata() -> None:
    meta = change(
        labels={"a": "b", "example.com/a": ""},
        annotations={"EXAMPLE.com/A": "any thing"},
        owner_references=(OWNER,),
        finalizers=("foregroundDeletion", "example.com/f"),
        generate_name="a-",
    )
    assert list(new_metadata(meta, names.dns_subdomain)) == []


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (change(name=""), ["metadata.name: Required value: name or generateName is required"]),
        (change(name="a.b"), ['metadata.name: Invalid value: "a.b": must not contain dots']),
        (change(generate_name="a.b-"), ['metadata.generateName: Invalid value: "a.b-": must not contain dots']),
        (change(namespace=""), ["metadata.namespace: Required value"]),
        (change(namespace="a.b"), ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
        (change(generation=-1), ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (change(labels={"a" * 64: "b"}),
         [f'metadata.labels: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes']),
        (change(labels={"a": "b" * 64}),
         [f'metadata.labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes']),
        (change(annotations={"a" * 64: ""}),
         [f'metadata.annotations: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes']),
        (change(annotations={"a": "b" * 262144}),
         ["metadata.annotations: Too long: may not be more than 262144 bytes"]),
        (change(finalizers=("mine",)),
         [('metadata.finalizers[0]: Invalid value: "mine": '
          "name is neither a standard finalizer name nor is it fully qualified")]),
        (change(finalizers=("orphan", "foregroundDeletion")),
         [('metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
          "finalizer orphan and foregroundDeletion cannot be both set")]),
        (change(owner_references=(OwnerReference(),)),
         [f'metadata.ownerReferences.{field}: Invalid value: "": {what}must not be empty'
          for field, what in (("apiVersion", "version "), ("kind", ""), ("name", ""), ("uid", ""))]),
        (change(owner_references=(msgspec.structs.replace(OWNER, api_version="a/b/c"),)),
         ['metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty']),
        (change(owner_references=(msgspec.structs.replace(OWNER, api_version="v1", kind="Event"),)),
         [('metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"j","uid":"u"}: '
          "/v1, Kind=Event is disallowed from being an owner")]),
        (change(owner_references=tuple(msgspec.structs.replace(OWNER, controller=True, name=n) for n in "ab")),
         [('metadata.ownerReferences: Invalid value: [{"apiVersion":"batch/v1","kind":"Job","name":"a","uid":"u",'
          '"controller":true},{"apiVersion":"batch/v1","kind":"Job","name":"b","uid":"u","controller":true}]: '
          'Only one reference can have Controller set to true. Found "true" in references for Job/a and Job/b')]),
    ],
)  # fmt: skip
def test_new_metadata(meta: Any, expected: Any, sentences: Any) -> None:
    assert sentences(new_metadata(meta, names.dns_label)) == expected


def test_finalizers_of_what_users_define_need_no_domain(sentences: Any) -> None:
    meta = change(finalizers=("mine", "resources.example.com"))
    assert sentences(new_metadata(meta, names.dns_label, custom=True)) == []
    assert sentences(changed_metadata(meta, meta, custom=True)) == []


def test_cluster_wide_kinds_have_no_namespace(sentences: Any) -> None:
    errors = new_metadata(GOOD, names.dns_label, namespaced=False)
    assert sentences(errors) == ["metadata.namespace: Forbidden: not allowed on this type"]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (change(labels={"a": "b"}), GOOD, []),
        (change(name="b"), GOOD, ['metadata.name: Invalid value: "b": field is immutable']),
        (change(uid="b"), change(uid="a"), ['metadata.uid: Invalid value: "b": field is immutable']),
        (change(generation=1), change(generation=2),
         ["metadata.generation: Invalid value: 1: must not be decremented"]),
        (change(creation_timestamp=NOW), GOOD,
         ['metadata.creationTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable']),
        (change(deletion_grace_period_seconds=0), GOOD,
         ["metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable"]),
        (change(deletion_timestamp=NOW, finalizers=("a/b", "a/c")), change(deletion_timestamp=NOW, finalizers=("a/b",)),
         [("metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
          'found new finalizers []string{"a/c"}')]),
        (change(deletion_timestamp=NOW), change(deletion_timestamp=NOW, finalizers=("a/b",)), []),
    ],
)  # fmt: skip
def test_changed_metadata(new: Any, old: Any, expected: Any, sentences: Any) -> None:
    assert sentences(changed_metadata(new, old)) == expected


@pytest.mark.parametrize(
    "bad", [{"labels": {"a b": ""}}, {"annotations": {"a b": ""}}, {"owner_references": (OwnerReference(),)}]
)
def test_only_what_changed_is_looked_at(bad: Any, sentences: Any) -> None:
    assert sentences(changed_metadata(change(**bad), GOOD)) != []
    assert sentences(changed_metadata(change(**bad), change(**bad))) == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, []),
        (LabelSelector(), []),
        (LabelSelector(match_labels={"a": "b" * 64}),
         [f's.matchLabels: Invalid value: "{"b" * 64}": must be no more than 63 bytes']),
        (LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="In"),)),
         ["s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"]),
        (LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Exists", values=("b",)),)),
         [("s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
          "'DoesNotExist'")]),
        (LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator=""),)),
         ['s.matchExpressions[0].operator: Invalid value: "": not a valid selector operator']),
        (LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="In", values=("b" * 64,)),)),
         [f's.matchExpressions[0].values[0]: Invalid value: "{"b" * 64}": must be no more than 63 bytes']),
    ],
)  # fmt: skip
def test_label_selector(selector: Any, expected: Any, sentences: Any) -> None:
    assert sentences(validate_label_selector("s", selector)) == expected


def test_validate_label(sentences: Any) -> None:
    meta = ObjectMeta(labels={"b": "2", "a": "1"})
    assert sentences(validate_label("m", meta, "a", "1")) == []
    assert sentences(validate_label("m", meta, "c", "3")) == ["m.labels[c]: Required value: must be '3'"]
    assert sentences(validate_label("m", meta, "a", "3")) == [
        'm.labels[a]: Invalid value: {"a":"1","b":"2"}: must be \'3\''
    ]
