"""Metadata of every object: names, versions, owners, conditions.

All API types are frozen `Struct`s, snake_case in Python and camelCase on the wire (`wire_name`). They describe
what we use; fields that they do not name are ignored on read, so a decoded object is never written back whole
to a server that may know more: writes are patches of the fields that we own.
"""

from datetime import datetime
from typing import Annotated, Any, dataclass_transform

import msgspec

from muster.api.markers import ATOMIC, MERGED_SET, Required, Strings, limits, merged_by, one_of

# The finalizers that Kubernetes itself knows; all others have a domain.
ORPHAN_FINALIZER = "orphan"  # dependents are let go first
FOREGROUND_FINALIZER = "foregroundDeletion"  # dependents go first
NAMESPACE_FINALIZER = "kubernetes"  # of a namespace, in its spec: it is emptied first

# Words that the Kubernetes API spells in capitals wherever they are not the first of a name.
_ACRONYMS = {
    word.lower(): word
    for word in (
        "API", "CIDR", "CIDRs", "CPU", "DNS", "FQDN", "GID", "ID", "IDs", "IO", "IP", "IPC", "IPs", "PID", "TCP", "TLS",
        "UID", "URI", "URL", "URLs", "UUID", "WWNs",
    )
}  # fmt: skip

_QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def wire_name(field: str) -> str:
    """Return the JSON name of a Python field: `pod_ip` is `podIP`, `continue_` is `continue`."""
    first, *rest = field.rstrip("_").split("_")
    return first + "".join(_ACRONYMS.get(word, word[:1].upper() + word[1:]) for word in rest)


class _KeywordOnly(msgspec.StructMeta):
    """Makes every subclass keyword-only, which msgspec does not inherit."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **({"kw_only": True} | options))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, metaclass=_KeywordOnly, frozen=True, omit_defaults=True, rename=wire_name, gc=False):
    """Base of every API type.

    A docstring line `field: text` describes a field to `kubectl explain`, where Kubernetes does not publish the schema.

    What is frozen holds no cycles: the collector, which would look at each of millions of them, is spared it.
    """


class OwnerReference(Struct):
    """Names the object that this one belongs to; it is collected once all its owners are gone.

    api_version: version of the API in which the owner's kind is meant.
    kind: kind of the owner.
    name: name of the owner, in the same namespace.
    uid: UID of the owner.
    controller: whether this owner is the one that manages the object.
    block_owner_deletion: whether a foreground deletion of the owner waits for this object.
    """

    api_version: Required[str] = ""
    kind: Required[str] = ""
    name: Required[str] = ""
    uid: Required[str] = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct):
    """What every stored object carries.

    name: unique within the namespace (or the cluster) for a kind; never changes.
    generate_name: prefix of a name that the server completes when `name` is empty.
    namespace: the space in which the name is unique; empty for cluster-wide kinds.
    self_link: not used any more.
    uid: unique in time and space, set by the server.
    resource_version: changes with every write; opaque, for optimistic concurrency and watches.
    generation: counts the changes of the desired state.
    creation_timestamp: when the server stored the object.
    deletion_timestamp: when deletion was asked for plus the grace period; set by the server.
    deletion_grace_period_seconds: seconds that the object has to end gracefully.
    labels: keys and values that selectors match.
    annotations: keys and values that selectors do not match.
    owner_references: the objects that this one depends on.
    finalizers: who must still act before the object is removed.
    managed_fields: which manager set which fields.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: Annotated[tuple[OwnerReference, ...], merged_by("uid")] = ()
    finalizers: Annotated[tuple[str, ...], MERGED_SET] = ()
    managed_fields: Annotated[tuple[dict[str, Any], ...], ATOMIC] = ()


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the owner that manages the object."""
    return next((owner for owner in meta.owner_references if owner.controller), None)


class ListMeta(Struct):
    """What every list carries: the revision it shows and, if it is a page, how to get the next."""

    resource_version: str = ""
    continue_: str = ""
    remaining_item_count: int | None = None


# Defaults of fields that are written out whatever they are; others are left out where they are as by default.
WRITTEN_ZERO: Any = msgspec.field(default_factory=int)
WRITTEN_EMPTY: Any = msgspec.field(default_factory=str)
WRITTEN_NULL: Any = msgspec.field(default_factory=lambda: None)


class Condition(Struct):
    """One observed aspect of an object's state (metav1.Condition); an empty message too is written out.

    type: what it is about, in CamelCase.
    status: True, False or Unknown.
    observed_generation: the generation of the object that it is about; if absent, whichever it is.
    last_transition_time: when the status last changed.
    reason: one word for the status, in CamelCase.
    message: a sentence for people.
    """

    type: Annotated[Required[str], limits(max_length=316, pattern=_QUALIFIED_NAME)] = WRITTEN_EMPTY
    status: Annotated[Required[str], one_of("True", "False", "Unknown")] = WRITTEN_EMPTY
    observed_generation: Annotated[int, limits(minimum=0)] = 0
    last_transition_time: Required[datetime | None] = WRITTEN_NULL
    reason: Annotated[
        Required[str], limits(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ] = WRITTEN_EMPTY
    message: Annotated[Required[str], limits(max_length=32768)] = WRITTEN_EMPTY


class PlainCondition(Struct):
    """One observed aspect of an object's state, in the older form that many built-in kinds have.

    type: what it is about, in CamelCase.
    status: True, False or Unknown.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class Object(Struct):
    """Any object, seen only as its metadata: what the garbage collector and labels need."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Preconditions(Struct):
    """What must hold for a deletion to be carried out.

    uid: the very object, not just one of that name.
    resource_version: the object is still as it was at that version.
    """

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct):
    """How to delete.

    grace_period_seconds: seconds to end gracefully; 0 is at once; the kind's default if absent.
    preconditions: what must hold for the deletion to be carried out.
    orphan_dependents: deprecated way of saying Orphan or Background.
    propagation_policy: Orphan, Background or Foreground: what happens to the objects that this one owns.
    dry_run: All: go through everything but storing it.
    """

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: Strings = ()


class LabelSelectorRequirement(Struct):
    """One requirement on a label.

    key: the label.
    operator: In, NotIn, Exists or DoesNotExist.
    values: what the operator compares with; none for Exists and DoesNotExist.
    """

    key: Required[str] = ""
    operator: Required[str] = ""
    values: Strings = ()


class LabelSelector(Struct):
    """Selects objects by labels; all parts must match, and an empty selector matches everything.

    match_labels: labels that an object must have.
    match_expressions: requirements on labels.
    """

    match_labels: dict[str, str] = {}
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], ATOMIC] = ()
