# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`authorization.k8s.io/v1`: reviews of rights, which the server answers and never stores."""

from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import LabelSelectorRequirement, ObjectMeta, Struct

GROUP = "authorization.k8s.io"


class FieldSelectorRequirement(Struct):
    """One part of a field selector."""

    key: Required[str] = ""
    operator: Required[str] = ""
    values: tuple[str, ...] = ()


class FieldSelectorAttributes(Struct):
    """A field selector that limits the access."""

    raw_selector: str = ""
    requirements: tuple[FieldSelectorRequirement, ...] = ()


class LabelSelectorAttributes(Struct):
    """A label selector that limits the access."""

    raw_selector: str = ""
    requirements: tuple[LabelSelectorRequirement, ...] = ()


class ResourceAttributes(Struct):
    """An access to a resource."""

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
    """An access to a path that is no resource."""

    path: str = ""
    verb: str = ""


class SelfSubjectAccessReviewSpec(Struct):
    """The access to review. Exactly one field is set."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SubjectAccessReviewSpec(Struct):
    """The access to review, and the user."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    uid: str = ""


class SubjectAccessReviewStatus(Struct, omit_defaults=False):
    """The answer to a review of an access: whether it is allowed, and why."""

    allowed: Required[bool] = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(Struct):
    """A request to review whether a user has an access."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SubjectAccessReviewSpec] = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class LocalSubjectAccessReview(Struct):
    """A request to review whether a user has an access in this namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SubjectAccessReviewSpec] = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReview(Struct):
    """A request to review whether the client has an access."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[SelfSubjectAccessReviewSpec] = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class ResourceRule(Struct):
    """The allowed verbs on resources."""

    verbs: Required[tuple[str, ...]] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class NonResourceRule(Struct):
    """The allowed verbs on paths."""

    verbs: Required[tuple[str, ...]] = ()
    non_resource_urls: tuple[str, ...] = ()


class SubjectRulesReviewStatus(Struct, omit_defaults=False):
    """The rights of a user in a namespace."""

    resource_rules: Required[tuple[ResourceRule, ...]] = ()
    non_resource_rules: Required[tuple[NonResourceRule, ...]] = ()
    incomplete: Required[bool] = False
    evaluation_error: str = ""


class SelfSubjectRulesReviewSpec(Struct):
    """The namespace of the rights to list."""

    namespace: str = ""


class SelfSubjectRulesReview(Struct):
    """A request to list the rights of the client in a namespace."""

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
