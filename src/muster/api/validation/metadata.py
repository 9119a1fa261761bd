"""The rules of metadata (k8s.io/apimachinery/pkg/api/validation/objectmeta.go)."""

from collections.abc import Iterable, Mapping

from muster.api.meta import (
    FOREGROUND_FINALIZER,
    NAMESPACE_FINALIZER,
    ORPHAN_FINALIZER,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
)
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    forbidden,
    invalid,
    make_errors,
    required,
    too_long,
    validate_immutable,
    validate_not_negative,
)
from muster.api.validation.names import NameRule

MAX_ANNOTATIONS_BYTES = 256 * 1024

_EMPTY = ObjectMeta()
_UNQUALIFIED_FINALIZERS = frozenset({NAMESPACE_FINALIZER, ORPHAN_FINALIZER, FOREGROUND_FINALIZER})


def new_metadata(meta: ObjectMeta, rule: NameRule, *, namespaced: bool = True, custom: bool = False) -> Errors:
    """Check the metadata of a new object, whose name is already generated.

    rule: the rule of names of the kind.
    custom: whether the object is a CustomResourceDefinition or a custom resource, whose finalizers need no domain.
    """
    if meta.generate_name:
        yield from make_errors(
            "metadata.generateName", meta.generate_name, names.check_prefix(rule, meta.generate_name)
        )
    if meta.name:
        yield from make_errors("metadata.name", meta.name, rule(meta.name))
    else:
        yield required("metadata.name", "name or generateName is required")
    if not namespaced:
        if meta.namespace:
            yield forbidden("metadata.namespace", "not allowed on this type")
    elif meta.namespace:
        yield from make_errors("metadata.namespace", meta.namespace, names.dns_label(meta.namespace))
    else:
        yield required("metadata.namespace")
    yield from validate_not_negative("metadata.generation", meta.generation)
    yield from _validate_changed_values(meta, _EMPTY)
    yield from _validate_finalizers(meta.finalizers)
    if not custom:
        yield from validate_qualified_finalizers("metadata.finalizers", meta.finalizers)


def changed_metadata(new: ObjectMeta, old: ObjectMeta, *, custom: bool = False) -> Errors:
    """Check the metadata of an update, to which the server has added the fields that the client left out."""
    if old.deletion_timestamp is not None:
        added = sorted(set(new.finalizers) - set(old.finalizers))
        if added:
            shown = ", ".join(f'"{finalizer}"' for finalizer in added)
            sentence = "no new finalizers can be added if the object is being deleted, found new finalizers"
            yield forbidden("metadata.finalizers", f"{sentence} []string{{{shown}}}")
    yield from validate_not_negative("metadata.generation", new.generation)
    if new.generation < old.generation:
        yield invalid("metadata.generation", new.generation, "must not be decremented")
    yield from validate_immutable("metadata.name", new.name, old.name)
    yield from validate_immutable("metadata.namespace", new.namespace, old.namespace)
    yield from validate_immutable("metadata.uid", new.uid, old.uid)
    yield from validate_immutable("metadata.creationTimestamp", new.creation_timestamp, old.creation_timestamp)
    yield from validate_immutable("metadata.deletionTimestamp", new.deletion_timestamp, old.deletion_timestamp)
    yield from validate_immutable(
        "metadata.deletionGracePeriodSeconds", new.deletion_grace_period_seconds, old.deletion_grace_period_seconds
    )
    yield from _validate_changed_values(new, old)
    if not custom:
        yield from validate_qualified_finalizers("metadata.finalizers", new.finalizers)


def validate_labels(path: str, values: Mapping[str, str]) -> Errors:
    """Check the labels of an object, or of a selector."""
    for key, value in values.items():
        yield from validate_label_key(path, key)
        yield from make_errors(path, value, names.label_value(value))


def validate_label_key(path: str, key: str) -> Errors:
    """Yield the errors in the key of a label."""
    yield from make_errors(path, key, names.label_key(key))


def validate_annotations(path: str, values: Mapping[str, str]) -> Errors:
    """Check annotations.

    Keys follow the rules of label keys in any case, values are free, and the total size is limited.
    """
    for key in values:
        yield from make_errors(path, key, names.label_key(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > MAX_ANNOTATIONS_BYTES:
        yield too_long(path, MAX_ANNOTATIONS_BYTES)


def validate_label_selector(path: str, selector: LabelSelector | None) -> Errors:
    """Yield the errors in the selector of a manifest."""
    if selector is None:
        return
    yield from validate_labels(f"{path}.matchLabels", selector.match_labels)
    for i, expression in enumerate(selector.match_expressions):
        yield from _validate_expression(f"{path}.matchExpressions[{i}]", expression)


def validate_label(path: str, meta: ObjectMeta, key: str, value: str) -> Errors:
    """Check that a label is present and has the value.

    path: the path of the metadata.
    """
    if key not in meta.labels:
        yield required(f"{path}.labels[{key}]", f"must be '{value}'")
    elif meta.labels[key] != value:
        yield invalid(f"{path}.labels[{key}]", meta.labels, f"must be '{value}'")


def validate_qualified_finalizers(path: str, finalizers: Iterable[str]) -> Errors:
    """Check that finalizers have a domain, except Kubernetes' own."""
    for i, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in _UNQUALIFIED_FINALIZERS:
            sentence = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{path}[{i}]", finalizer, sentence)


def _validate_changed_values(meta: ObjectMeta, old: ObjectMeta) -> Errors:
    """Check the changed values. Unchanged values were checked when they were written."""
    if meta.labels != old.labels:
        yield from validate_labels("metadata.labels", meta.labels)
    if meta.annotations != old.annotations:
        yield from validate_annotations("metadata.annotations", meta.annotations)
    if meta.owner_references != old.owner_references:
        yield from _validate_owner_references("metadata.ownerReferences", meta.owner_references)


def _validate_owner_references(path: str, references: tuple[OwnerReference, ...]) -> Errors:
    controller = ""
    for reference in references:
        yield from _validate_owner_reference(path, reference)  # upstream's path has no index
        if not reference.controller:
            continue
        name = f"{reference.kind}/{reference.name}"
        if controller:
            sentence = 'Only one reference can have Controller set to true. Found "true" in references for'
            yield invalid(path, references, f"{sentence} {controller} and {name}")
        else:
            controller = name


def _validate_owner_reference(path: str, reference: OwnerReference) -> Errors:
    version = reference.api_version
    if not version or version.count("/") > 1 or version.endswith("/"):
        yield invalid(f"{path}.apiVersion", version, "version must not be empty")
    for field in ("kind", "name", "uid"):
        if not getattr(reference, field):
            yield invalid(f"{path}.{field}", "", "must not be empty")
    if (reference.api_version, reference.kind) == ("v1", "Event"):
        yield invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")


def _validate_finalizers(finalizers: tuple[str, ...]) -> Errors:
    for finalizer in finalizers:
        yield from make_errors("metadata.finalizers", finalizer, names.label_key(finalizer))
    if {ORPHAN_FINALIZER, FOREGROUND_FINALIZER} <= set(finalizers):
        sentence = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        yield invalid("metadata.finalizers", finalizers, sentence)


def _validate_expression(path: str, expression: LabelSelectorRequirement) -> Errors:
    if expression.operator in ("In", "NotIn"):
        if not expression.values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif expression.operator in ("Exists", "DoesNotExist"):
        if expression.values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(f"{path}.operator", expression.operator, "not a valid selector operator")
    yield from validate_label_key(f"{path}.key", expression.key)
    for i, value in enumerate(expression.values):
        yield from make_errors(f"{path}.values[{i}]", value, names.label_value(value))
