# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`authentication.k8s.io/v1`: reviews of users and tokens, and tokens of service accounts, which are never stored."""

from datetime import datetime

from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import ObjectMeta, Struct

GROUP = "authentication.k8s.io"


class UserInfo(Struct):
    """A user of the API."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewSpec(Struct):
    """The token to review."""

    token: str = ""
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(Struct):
    """The answer to a TokenReview: whether the token is valid, and its user."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(Struct):
    """A request to find the user of a token."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[TokenReviewSpec] = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class BoundObjectReference(Struct):
    """A reference to the object whose deletion invalidates a token."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Struct):
    """The desired properties of a token."""

    audiences: Required[tuple[str, ...]] = ()
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(Struct):
    """The token and its expiry."""

    token: Required[str] = ""
    expiration_timestamp: Required[datetime | None] = None


class TokenRequest(Struct):
    """A request for a token of a service account."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[TokenRequestSpec] = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()


class SelfSubjectReviewStatus(Struct):
    """The answer to a SelfSubjectReview: the user of the client."""

    user_info: UserInfo = UserInfo()


class SelfSubjectReview(Struct):
    """A request to find the user of the client."""

    metadata: ObjectMeta = ObjectMeta()
    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()


TOKEN_REVIEW = Kind(GROUP, "v1", "TokenReview", "tokenreviews", TokenReview, namespaced=False)
TOKEN_REQUEST = Kind(GROUP, "v1", "TokenRequest", "tokenrequests", TokenRequest)
SELF_SUBJECT_REVIEW = Kind(GROUP, "v1", "SelfSubjectReview", "selfsubjectreviews", SelfSubjectReview, namespaced=False)
