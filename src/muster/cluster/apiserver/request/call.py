"""The parsed request on a resource, which every verb takes: its user, verb, resource, namespace and name."""

from msgspec import Struct, field

from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request.requestinfo import WriteOptions
from muster.cluster.store import Key
from muster.runtime.transport import Request

_PLAIN = WriteOptions()


class Call(Struct, frozen=True):
    """A request on a resource.

    view: the form of the bodies that the client sends and gets.
    name: the name in the URL; "" for a request on a collection.
    warnings: sentences for the `Warning` header of the response; verbs and admission append to them.
    annotations: annotations of the request's audit event; admission adds to them.
    """

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
    is_own: bool = False  # a part of the cluster itself sends the request

    @property
    def action(self) -> str:
        """The resource with its subresource, such as `pods/log`."""
        return f"{self.resource.name}/{self.subresource}" if self.subresource else self.resource.name

    @property
    def key(self) -> Key:
        """The key of the object in the store."""
        return Key(self.resource.key, self.namespace, self.name)

    def make_attempt(
        self,
        operation: str,
        document: Document,
        old: Document | None = None,
        options: WriteOptions = _PLAIN,
        *,
        name: str = "",
    ) -> WriteAttempt:
        """Return the write as input of admission.

        operation: CREATE, UPDATE, DELETE or CONNECT.
        old: the stored object; None for a new one.
        name: the name of a new object, which may be generated; "" for the name in the URL.
        """
        return WriteAttempt(
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
