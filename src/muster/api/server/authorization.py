# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`authorization.k8s.io/v1`: questions about rights. They are posted, answered and not stored."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Required, Strings
from muster.api.meta import LabelSelectorRequirement, ObjectMeta, Struct

GROUP = "authorization.k8s.io"


class FieldSelectorRequirement(Struct):
    """One part of a field selector.

    key: the field.
    operator: how its value relates to the values.
    values: for In and NotIn.
    """

    key: Required[str] = ""
    operator: Required[str] = ""
    values: Strings = ()


class FieldSelectorAttributes(Struct):
    """A field selector that limits the access.

    raw_selector: as text.
    requirements: as parts, all of which hold.
    """

    raw_selector: str = ""
    requirements: Annotated[tuple[FieldSelectorRequirement, ...], ATOMIC] = ()


class LabelSelectorAttributes(Struct):
    """A label selector that limits the access.

    raw_selector: as text.
    requirements: as parts, all of which hold.
    """

    raw_selector: str = ""
    requirements: Annotated[tuple[LabelSelectorRequirement, ...], ATOMIC] = ()


class ResourceAttributes(Struct):
    """An access to a resource.

    namespace: where; empty for cluster-wide resources, and for all namespaces.
    verb: get, list, watch, create, update, patch, delete, deletecollection, or another; `*` is all.
    group: group of the resource; `*` is all.
    version: version of the resource; `*` is all.
    resource: plural name; `*` is all.
    subresource: below an object; empty for none.
    name: of the object; empty for all.
    field_selector: what limits the access by fields.
    label_selector: what limits the access by labels.
    """

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: FieldSelectorAttributes | None = None
    label_selector: LabelSelectorAttributes | None = None


class NonResourceAttributes(Struct):
    """An access to a path that is no resource's.

    path: the path.
    verb: the HTTP method in small letters.
    """

    path: str = ""
    verb: str = ""


class SelfSubjectAccessReviewSpec(Struct):
    """What is asked; one of the two.

    resource_attributes: an access to a resource.
    non_resource_attributes: an access to a path.
    """

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SubjectAccessReviewSpec(Struct):
    """What is asked, and of whom.

    resource_attributes: an access to a resource.
    non_resource_attributes: an access to a path.
    user: the user's name.
    groups: the user's groups.
    extra: what else is known of the user.
    uid: the user's UID.
    """

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: Strings = ()
    extra: dict[str, tuple[str, ...]] = {}
    uid: str = ""


class SubjectAccessReviewStatus(Struct, omit_defaults=False):
    """The answer.

    allowed: whether the access would be granted.
    denied: whether it was refused outright, not just granted by no rule.
    reason: why.
    evaluation_error: what went wrong on the way to the answer.
    """

    allowed: Required[bool] = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(Struct):
    """May a user do something?

    metadata: what every object carries.
    spec: what is asked.
    status: the answer.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SubjectAccessReviewSpec] = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class LocalSubjectAccessReview(Struct):
    """May a user do something in this namespace?

    metadata: what every object carries.
    spec: what is asked.
    status: the answer.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SubjectAccessReviewSpec] = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReview(Struct):
    """May I do something?

    metadata: what every object carries.
    spec: what is asked.
    status: the answer.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SelfSubjectAccessReviewSpec] = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class ResourceRule(Struct):
    """What may be done to resources.

    verbs: the verbs; `*` is all.
    api_groups: groups of the resources; `*` is all.
    resources: plural names; `*` is all.
    resource_names: names of the objects; all if there are none.
    """

    verbs: Annotated[Required[tuple[str, ...]], ATOMIC] = ()
    api_groups: Strings = ()
    resources: Strings = ()
    resource_names: Strings = ()


class NonResourceRule(Struct):
    """What may be done to paths.

    verbs: HTTP methods in small letters; `*` is all.
    non_resource_urls: paths; a `*` at the end stands for the rest.
    """

    verbs: Annotated[Required[tuple[str, ...]], ATOMIC] = ()
    non_resource_urls: Strings = ()


class SubjectRulesReviewStatus(Struct, omit_defaults=False):
    """All rights of a user in a namespace.

    resource_rules: on resources.
    non_resource_rules: on paths.
    incomplete: whether there may be more.
    evaluation_error: what went wrong on the way to the answer.
    """

    resource_rules: Annotated[Required[tuple[ResourceRule, ...]], ATOMIC] = ()
    non_resource_rules: Annotated[Required[tuple[NonResourceRule, ...]], ATOMIC] = ()
    incomplete: Required[bool] = False
    evaluation_error: str = ""


class SelfSubjectRulesReviewSpec(Struct):
    """What is asked.

    namespace: where.
    """

    namespace: str = ""


class SelfSubjectRulesReview(Struct):
    """What may I do in a namespace?

    metadata: what every object carries.
    spec: where.
    status: the answer.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SelfSubjectRulesReviewSpec] = SelfSubjectRulesReviewSpec()
    status: SubjectRulesReviewStatus = SubjectRulesReviewStatus()


SUBJECT_ACCESS_REVIEW = Kind(
    GROUP, "v1", "SubjectAccessReview", "subjectaccessreviews", SubjectAccessReview, namespaced=False
)
LOCAL_SUBJECT_ACCESS_REVIEW = Kind(
    GROUP, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", LocalSubjectAccessReview
)
SELF_SUBJECT_ACCESS_REVIEW = Kind(
    GROUP, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", SelfSubjectAccessReview, namespaced=False
)
SELF_SUBJECT_RULES_REVIEW = Kind(
    GROUP, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", SelfSubjectRulesReview, namespaced=False
)
