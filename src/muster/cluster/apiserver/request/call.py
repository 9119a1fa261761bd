"""One request, understood: who wants what of which resource. What every verb gets."""

from msgspec import Struct, field

from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request.requestinfo import WriteOptions
from muster.cluster.store import Key
from muster.runtime.transport import Request

_PLAIN = WriteOptions()


class Call(Struct, frozen=True):
    """A request on a resource, with the warnings that its answer is to carry, and what the audit log says of it."""

    request: Request
    user: User
    verb: str
    resource: Resource
    view: View
    namespace: str
    name: str
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    is_own: bool = False  # it comes from a part of the cluster itself

    @property
    def action(self) -> str:
        """`pods/log`: what it asks for, if that is neither reading nor writing."""
        return f"{self.resource.name}/{self.subresource}" if self.subresource else self.resource.name

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return Key(self.resource.key, self.namespace, self.name)

    def attempt(
        self,
        operation: str,
        document: Document,
        old: Document | None = None,
        options: WriteOptions = _PLAIN,
        *,
        name: str = "",
    ) -> Attempt:
        """What admission is asked about; `name` is that of a new object."""
        return Attempt(
            self.resource,
            operation,
            self.namespace,
            name or self.name,
            self.user,
            document,
            self.view,
            old,
            self.subresource,
            options,
            self.annotations,
        )
