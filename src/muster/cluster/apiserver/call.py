"""One request, understood: who wants what of which resource. What every verb gets."""

from dataclasses import dataclass, field

from muster.cluster.apiserver.registry import Resource, View
from muster.cluster.apiserver.users import User
from muster.cluster.store import Key
from muster.runtime.transport import Request


@dataclass(frozen=True, slots=True)
class Call:
    """A request on a resource, with the warnings that its answer is to carry."""

    request: Request
    user: User
    verb: str
    resource: Resource
    view: View
    namespace: str
    name: str
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def action(self) -> str:
        """`pods/log`: what it asks for, if that is neither reading nor writing."""
        return f"{self.resource.name}/{self.subresource}" if self.subresource else self.resource.name

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return Key(self.resource.key, self.namespace, self.name)
