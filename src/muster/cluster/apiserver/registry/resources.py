"""The types of the registry: a `Resource` describes as data what the server serves, and a `Registry` finds it.

A lookup takes the group, version and plural of a path. Two resources may share their stored objects: core Events and
`events.k8s.io` Events are two views of the same objects. The tables of built-in resources are in `builtin`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from muster.api.kinds import Kind
from muster.api.schema import make_inlined_schema
from muster.api.status import FieldError
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields import FieldSchema
from muster.cluster.apiserver.objects import views
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels
from muster.cluster.apiserver.schema import Checker, Schema, compile_builtin
from muster.cluster.apiserver.tables.printer import Printer
from muster.cluster.store import Entry

# In the alphabetical order of discovery documents.
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
VIEW_VERBS = ("get", "patch", "update")  # the verbs of a subresource that is a view of its object, such as `status`


def no_errors(new: Any, old: Any = None) -> Sequence[FieldError]:  # noqa: ARG001  (one of many of this shape)
    """Return no errors."""
    return ()


def _change_nothing(document: Document) -> None:
    """Change nothing."""


def _change_nothing_on_update(new: Document, old: Document) -> None:
    """Change nothing."""


class View(Struct, frozen=True, eq=False, dict=True):
    """The form in which a resource or subresource shows stored objects, and the part that a write through it changes.

    kind: the kind of the shown objects.
    show: returns the shown object for a stored one; None if both are the same.
    take: returns the object to store for the stored object and a written one; changes neither. A new object is stored
    as it was written, unless the view has a `show`: then `take` makes the stored object from {}.
    validate_create: returns the errors in a new object.
    validate_update: returns the errors in a change, from the new object and the old one.
    validates_shown: whether validation gets the objects in their shown form, and not in their stored form. It gets
    typed objects in both cases.
    compile: makes the checker of bodies against the schema of the kind.
    printer: the columns of tables; None for the usual columns of the kind.
    take_config: returns the stored form of a configuration (server-side apply), from the stored object and the
    configuration; None if `take` does that.
    """

    kind: Kind[Any]
    show: Callable[[Document], Document] | None = None
    take: Callable[[Document, Document], Document] = views.take_all
    validate_create: Callable[[Any], Sequence[FieldError]] = no_errors
    validate_update: Callable[[Any, Any], Sequence[FieldError]] = no_errors
    validates_shown: bool = False
    compile: Callable[[Kind[Any]], Checker] = compile_builtin
    printer: Printer | None = None
    take_config: Callable[[Document, Document], Document] | None = None

    @cached_property
    def checker(self) -> Checker:
        """The checker of bodies that are written through the view."""
        return self.compile(self.kind)

    @cached_property
    def patch_schema(self) -> dict[str, Any]:
        """The schema that guides strategic merge patches."""
        return make_inlined_schema(self.kind)


class Subresource(Struct, frozen=True, eq=False, dict=True):
    """A subresource: a view of its object, or an action of the pipeline with this name (`view` is then None)."""

    name: str
    kind: Kind[Any]
    verbs: tuple[str, ...]
    view: View | None = None

    @cached_property
    def bodies(self) -> View:
        """The view of the bodies that clients send to the subresource."""
        return self.view or View(self.kind)


class Rules(Struct, frozen=True, eq=False):
    """The rules for writes of one kind, beyond the rules for all objects.

    default: sets the defaults of an object, in place.
    prepare_create: sets the server's own fields of a new object, in place; its metadata is complete.
    prepare_update: sets the server's own fields of a changed object, in place, from that object and the stored one.
    begin_deletion: changes an object at its first deletion request, in place, from the object and the current time as
    RFC 3339; None changes nothing.
    has_generation: whether metadata.generation counts the changes of the spec.
    create_on_update: whether a PUT of a missing object creates it.
    unconditional_update: whether a PUT may leave out the resource version.
    graceful: whether a deletion sets a deadline and leaves the removal to the object's node (pods).
    propagation: the policy for dependents if a deletion request names none; None means that deletions ignore
    dependents.
    returns_deleted: whether the response to a deletion is the object and not a Status.
    warning: the warning in the response to a creation, about effects of the object that this cluster lacks; "" for
    none.
    """

    default: Callable[[Document], None] = _change_nothing
    prepare_create: Callable[[Document], None] = _change_nothing
    prepare_update: Callable[[Document, Document], None] = _change_nothing_on_update
    begin_deletion: Callable[[Document, str], None] | None = None
    has_generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    graceful: bool = False
    propagation: Literal["Background", "Orphan"] | None = "Background"
    returns_deleted: bool = False
    warning: str = ""


class Storage(Protocol):
    """The conversion between a custom resource's objects and their stored form, of another version or older schema.

    A conversion may call a webhook, and other clients may write meanwhile.
    """

    async def load(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries in the resource's own form; an entry itself if it has this form. Raises `ApiError`."""
        ...

    async def convert_to_stored(self, document: Document) -> Document:
        """Return the object in the form to store; the object itself if it has that form. Raises `ApiError`."""
        ...

    async def convert(self, document: Document) -> Document:
        """Return an object of another version in the resource's own version. Raises `ApiError`."""
        ...


class Resource(Struct, frozen=True, eq=False, dict=True):
    """A served resource in one version.

    kind: the kind of the objects that the resource shows.
    stored: the kind of the stored objects; it differs only for a second version or group of the same objects.
    deprecation: the warning in every response; "" for none.
    schema: the schema of the stored objects, for kinds without a type.
    storage: the conversion to and from the stored form, for custom resources; None if objects need no conversion.
    singular_name, list_kind: names that do not follow from the kind; "" for the usual names.
    """

    kind: Kind[Any]
    stored: Kind[Any]
    view: View
    rules: Rules = field(default_factory=Rules)
    verbs: tuple[str, ...] = VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: FieldLabels = NO_FIELDS
    subresources: tuple[Subresource, ...] = ()
    deprecation: str = ""
    schema: Schema | None = None
    storage: Storage | None = None
    singular_name: str = ""
    list_kind: str = ""

    @cached_property
    def field_schema(self) -> FieldSchema:
        """The schema for field management. It defines which lists of stored objects are sets or maps."""
        return FieldSchema.of_kind(self.stored) if self.schema is None else FieldSchema.of(dict(self.schema))

    @property
    def written_version(self) -> str:
        """The API version in which field management names the fields of written documents."""
        return (self.stored if self.storage is None else self.kind).api_version

    @property
    def singular(self) -> str:
        """The singular name, such as `pod`, which kubectl accepts, too."""
        return self.singular_name or self.kind.kind.lower()

    @property
    def kind_of_lists(self) -> str:
        """The kind of the resource's lists, such as `PodList`."""
        return self.list_kind or f"{self.kind.kind}List"

    @cached_property
    def name(self) -> str:
        """The name in messages, such as `pods` or `jobs.batch`."""
        return self.kind.resource

    @cached_property
    def key(self) -> str:
        """The `resource` part of the objects' keys in the store."""
        return self.stored.resource

    @cached_property
    def _subresources(self) -> dict[str, Subresource]:
        return {subresource.name: subresource for subresource in self.subresources}

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of this name; None if there is none."""
        return self._subresources.get(name)


class Registry:
    """All served resources: the built-in resources, and the resources that CustomResourceDefinitions add.

    generation: the number of changes so far, by which caches over all resources detect that they are stale.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._builtin = _map_by_path(resources)
        self._custom: dict[str, Sequence[Resource]] = {}
        self._served = self._builtin
        self._listeners: list[Callable[[Collection[Resource]], None]] = []
        self.generation = 0

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._served.values())

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind; None if the kind is not served."""
        served = (resource for resource in self if resource.kind.kind == kind)
        return next((resource for resource in served if resource.kind.api_version == api_version), None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource that a path names; None if it is not served."""
        return self._served.get((group, version, plural))

    def is_builtin(self, group: str, plural: str) -> bool:
        """Return whether some version of a resource is built in, so that no definition changes how it is served."""
        return any((group, plural) == (of, name) for of, _, name in self._builtin)

    def set_custom(self, owner: str, resources: Sequence[Resource]) -> None:
        """Serve these resources instead of the previous resources of the same owner (a definition).

        An empty sequence removes the owner's resources. Built-in resources stay as they are. The listeners of
        `on_replaced` are called with the previous resources.
        """
        replaced = self._custom.get(owner, ())
        if not resources and owner not in self._custom:
            return
        if resources:
            self._custom[owner] = resources
        else:
            del self._custom[owner]
        custom = _map_by_path(resource for each in self._custom.values() for resource in each)
        self._served = custom | self._builtin
        self.generation += 1
        for listener in self._listeners if replaced else ():
            listener(replaced)

    def on_replaced(self, listener: Callable[[Collection[Resource]], None]) -> None:
        """Call `listener` with the old resources whenever an owner's resources are replaced or removed."""
        self._listeners.append(listener)


def _map_by_path(resources: Iterable[Resource]) -> dict[tuple[str, str, str], Resource]:
    return {(r.kind.group, r.kind.version, r.kind.plural): r for r in resources}
