# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`authentication.k8s.io/v1`: who a user is, and tokens of service accounts. Posted and answered, not stored."""

from datetime import datetime

from muster.api.kinds import Kind
from muster.api.markers import Required, Strings
from muster.api.meta import ObjectMeta, Struct

GROUP = "authentication.k8s.io"


class UserInfo(Struct):
    """A user.

    username: the name.
    uid: unique over time, where the kind of credential has such.
    groups: the groups.
    extra: what else the credential says.
    """

    username: str = ""
    uid: str = ""
    groups: Strings = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewSpec(Struct):
    """What is asked.

    token: the bearer token.
    audiences: for whom it should be; the API server if there are none.
    """

    token: str = ""
    audiences: Strings = ()


class TokenReviewStatus(Struct):
    """The answer.

    authenticated: whether the token is good.
    user: whose it is.
    audiences: those of the audiences asked for that it is good for.
    error: what is wrong with it.
    """

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: Strings = ()
    error: str = ""


class TokenReview(Struct):
    """Whose is this token?

    metadata: what every object carries.
    spec: what is asked.
    status: the answer.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[TokenReviewSpec] = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class BoundObjectReference(Struct):
    """The object with which a token ends.

    kind: Pod, Secret or Node.
    api_version: version of the kind.
    name: which one.
    uid: which one of that name; any if empty.
    """

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Struct):
    """What token is wanted.

    audiences: for whom it is; the API server if there are none.
    expiration_seconds: how long it should be good; at least 600; 3600 if absent.
    bound_object_ref: the object with which it ends.
    """

    audiences: Required[Strings] = ()
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(Struct):
    """The token.

    token: the token itself.
    expiration_timestamp: when it ends.
    """

    token: Required[str] = ""
    expiration_timestamp: Required[datetime | None] = None


class TokenRequest(Struct):
    """Asks for a token of a service account.

    metadata: what every object carries.
    spec: what token is wanted.
    status: the token.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[TokenRequestSpec] = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()


class SelfSubjectReviewStatus(Struct):
    """The answer.

    user_info: who asks.
    """

    user_info: UserInfo = UserInfo()


class SelfSubjectReview(Struct):
    """Who am I?

    metadata: what every object carries.
    status: the answer.
    """

    metadata: ObjectMeta = ObjectMeta()
    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()


TOKEN_REVIEW = Kind(GROUP, "v1", "TokenReview", "tokenreviews", TokenReview, namespaced=False)
TOKEN_REQUEST = Kind(GROUP, "v1", "TokenRequest", "tokenrequests", TokenRequest)
SELF_SUBJECT_REVIEW = Kind(GROUP, "v1", "SelfSubjectReview", "selfsubjectreviews", SelfSubjectReview, namespaced=False)
