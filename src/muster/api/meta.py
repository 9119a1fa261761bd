"""The metadata of every object: names, versions, owners, conditions.

All API types are frozen `Struct`s, snake_case in Python and camelCase on the wire (`wire_name`). The types have the
fields that Muster uses, and the decoder ignores all others. So Muster never writes a decoded object back as a whole:
writes are patches of the fields that Muster owns.
"""

from datetime import datetime
from typing import Annotated, Any, dataclass_transform

import msgspec

from muster.api.markers import ATOMIC, MERGED_SET, Format, Required, Strings, limits, merged_by, one_of

# The finalizers that Kubernetes itself defines. All others have a domain.
ORPHAN_FINALIZER = "orphan"  # orphans the dependents first
FOREGROUND_FINALIZER = "foregroundDeletion"  # deletes the dependents first
NAMESPACE_FINALIZER = "kubernetes"  # in the spec of a namespace: deletes its objects first

# The words that the Kubernetes API spells in capitals unless a name begins with them.
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
    """A base that makes every subclass keyword-only, because msgspec does not inherit this option."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **({"kw_only": True} | options))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, metaclass=_KeywordOnly, frozen=True, omit_defaults=True, rename=wire_name, gc=False):
    """The base of every API type.

    A docstring line `field: text` is the description of a field in `kubectl explain`, unless Kubernetes publishes the
    schema. The objects are frozen and have no reference cycles, so Python's garbage collector does not track them.
    """


class OwnerReference(Struct):
    """A reference to an owner of the object. The object is deleted once all its owners are deleted.

    api_version: the API version of the owner's kind.
    kind: the kind of the owner.
    name: the name of the owner, in the same namespace.
    uid: the UID of the owner.
    controller: whether this owner manages the object.
    block_owner_deletion: whether a foreground deletion of the owner waits for this object.
    """

    api_version: Required[str] = ""
    kind: Required[str] = ""
    name: Required[str] = ""
    uid: Required[str] = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class UnreadManager(msgspec.Struct, frozen=True, gc=False):
    """An entry of managedFields. The decoder skips its content, which takes four times as long as the rest of a pod."""


class ObjectMeta(Struct):
    """The metadata of every stored object.

    name: the name, unique within the namespace (or the cluster) for a kind; never changes.
    generate_name: the prefix of a name that the server completes if `name` is empty.
    namespace: the namespace of the object; empty for cluster-wide kinds.
    self_link: no longer used.
    uid: an identifier that is unique in time and space, set by the server.
    resource_version: an opaque version that changes with every write, for optimistic concurrency and watches.
    generation: the number of changes of the desired state.
    creation_timestamp: when the server stored the object.
    deletion_timestamp: the time of the deletion request plus the grace period; set by the server.
    deletion_grace_period_seconds: seconds that the object has to end gracefully.
    labels: keys and values that selectors match.
    annotations: keys and values that selectors do not match.
    owner_references: the owners of the object.
    finalizers: the steps to take before the object is removed.
    managed_fields: the fields that each manager set.
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
    managed_fields: Annotated[tuple[Annotated[UnreadManager, Format("object")], ...], ATOMIC] = ()


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the owner that manages the object; None if there is none."""
    for owner in meta.owner_references:  # a generator would take twice as long in this hot function
        if owner.controller:
            return owner
    return None


class ListMeta(Struct):
    """The metadata of a list: its revision and, for a page, the token of the next page."""

    resource_version: str = ""
    continue_: str = ""
    remaining_item_count: int | None = None


# The defaults of fields that are always encoded. Other fields are omitted if they have their default value.
WRITTEN_ZERO: Any = msgspec.field(default_factory=int)
WRITTEN_EMPTY: Any = msgspec.field(default_factory=str)
WRITTEN_NULL: Any = msgspec.field(default_factory=lambda: None)


class Condition(Struct):
    """One observed aspect of an object's state (metav1.Condition). Its message is encoded even if it is empty.

    type: the type of the condition, in CamelCase.
    status: True, False or Unknown.
    observed_generation: the generation of the object that was observed; if absent, any generation.
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
    """One observed aspect of an object's state, in the older form of many built-in kinds.

    type: the type of the condition, in CamelCase.
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
    """An object of any kind with its metadata only, as the garbage collector and selectors need it."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Preconditions(Struct):
    """The preconditions of a deletion.

    uid: the UID that the object must have.
    resource_version: the version that the object must have.
    """

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct):
    """The options of a deletion.

    grace_period_seconds: the seconds to end gracefully; 0 means at once; the kind's default if absent.
    preconditions: the preconditions of the deletion.
    orphan_dependents: the deprecated form of propagation_policy: Orphan or Background.
    propagation_policy: what happens to the dependents: Orphan, Background or Foreground.
    dry_run: All: process the request without storing its result.
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
    values: the values that the operator compares; none for Exists and DoesNotExist.
    """

    key: Required[str] = ""
    operator: Required[str] = ""
    values: Strings = ()


class LabelSelector(Struct):
    """A selector of objects by labels. All parts must match, and an empty selector matches everything.

    match_labels: the labels that an object must have.
    match_expressions: requirements on labels.
    """

    match_labels: dict[str, str] = {}
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], ATOMIC] = ()
