"""Ask the server whether the user has a right, before an action that must not fail half way."""

from typing import Any

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.server.authorization import (
    SELF_SUBJECT_ACCESS_REVIEW,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
)
from muster.runtime.client import Client

_NAMELESS = ("create", "list")  # the verbs of requests that name no object


class Right(Struct, frozen=True):
    """The right to use a verb on objects of a kind, or on one of their subresources."""

    verb: str
    kind: Kind[Any]
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource with its subresource and API group, such as `jobs.batch` or `jobs/status.batch`."""
        return ".".join(filter(None, (self.part, self.kind.group)))

    @property
    def part(self) -> str:
        """The plural of the kind with its subresource, such as `jobs` or `jobs/status`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


async def has_right(client: Client, right: Right, name: str, namespace: str) -> bool:
    """Return whether the server currently grants the user a right to an object. Raises `ApiError`.

    name: the name of the object; ignored for verbs that name no object.
    namespace: the namespace of the object; "" for a cluster-scoped kind.
    """
    attributes = ResourceAttributes(
        namespace=namespace,
        verb=right.verb,
        group=right.kind.group,
        resource=right.kind.plural,
        subresource=right.subresource,
        name="" if right.verb in _NAMELESS else name,
    )
    asked = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    return (await client.create(SELF_SUBJECT_ACCESS_REVIEW, asked)).status.allowed
