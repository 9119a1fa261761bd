"""What the server serves, as data: every resource with its names, rules and subresources.

A resource is looked up by the group, version and plural of a path. Two of them may share a storage: core Events and
`events.k8s.io` Events are one set of objects, seen through two views.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from muster.api.kinds import Kind
from muster.api.schema import inlined
from muster.api.status import FieldError
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields import FieldSchema
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels
from muster.cluster.apiserver.schema import Checker, Schema, compile_builtin
from muster.cluster.apiserver.tables.printer import Printer
from muster.cluster.store import Entry

# In the order of discovery documents, which is the alphabet's.
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
VIEW_VERBS = ("get", "patch", "update")  # of a subresource that is a view


def _keep(stored: Document, shown: Document) -> Document:  # noqa: ARG001  (one of many of this shape)
    return shown


def no_errors(new: Any, old: Any = None) -> Sequence[FieldError]:  # noqa: ARG001  (one of many of this shape)
    """Everything is right."""
    return ()


def _nothing(document: Document) -> None:
    """Change nothing."""


def _nothing_either(new: Document, old: Document) -> None:
    """Change nothing."""


@dataclass(frozen=True, eq=False)
class View:
    """How a stored object looks through a resource or subresource, and what a write through it may change.

    kind: what the object is seen as.
    show: the object as it is seen; None if just as it is stored.
    take: the object to store, from the stored one and the one that was written; changes neither. A new object is
        stored whole; where it is seen otherwise than it is stored, `take` makes it, from {}.
    validate_create: the rules for a new object.
    validate_update: the rules for a change: the new object, then the old one.
    validates_shown: these rules see objects as the view shows them; else as they are stored. Both times typed.
    compile: makes the checker of the form of bodies.
    printer: how it is printed, if its kind does not say.
    applied: a configuration that is applied (server-side) through the view, in the form in which it is stored: from the
        stored object and the configuration. None: what `take` takes of it.
    """

    kind: Kind[Any]
    show: Callable[[Document], Document] | None = None
    take: Callable[[Document, Document], Document] = _keep
    validate_create: Callable[[Any], Sequence[FieldError]] = no_errors
    validate_update: Callable[[Any, Any], Sequence[FieldError]] = no_errors
    validates_shown: bool = False
    compile: Callable[[Kind[Any]], Checker] = compile_builtin
    printer: Printer | None = None
    applied: Callable[[Document, Document], Document] | None = None

    @cached_property
    def checker(self) -> Checker:
        """Checks the form of a body that is written through the view."""
        return self.compile(self.kind)

    @cached_property
    def patch_schema(self) -> dict[str, Any]:
        """What a strategic merge patch goes by."""
        return inlined(self.kind)


@dataclass(frozen=True, eq=False)
class Subresource:
    """Something below an object: a view of it, or an action on it (then the pipeline knows it by name)."""

    name: str
    kind: Kind[Any]
    verbs: tuple[str, ...]
    view: View | None = None

    @cached_property
    def bodies(self) -> View:
        """What is sent to it: the view, or of an action, objects of its kind."""
        return self.view or View(self.kind)


@dataclass(frozen=True, eq=False)
class Rules:
    """What the server does about the objects of one kind, beyond what it does about all.

    default: fills in what the writer left out, in place.
    prepare_create: sets what is the server's to set in a new object, in place; its metadata is complete.
    prepare_update: the same for a change: the new object, in place, and the stored one.
    begin_deletion: marks an object whose deletion is asked for the first time, in place: from the object and the time.
    has_generation: metadata.generation counts the changes of the spec.
    create_on_update: a PUT of an object that is not there creates it.
    unconditional_update: a PUT may leave out the resource version.
    graceful: deletion first says when and leaves removing to the object's node (pods).
    propagation: what happens to dependents if a deletion does not say; None: they are never looked at.
    returns_deleted: the answer to a deletion is the object, not a Status.
    warning: goes with the answer to a creation: what will not happen to the object here.
    """

    default: Callable[[Document], None] = _nothing
    prepare_create: Callable[[Document], None] = _nothing
    prepare_update: Callable[[Document, Document], None] = _nothing_either
    begin_deletion: Callable[[Document, str], None] | None = None
    has_generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    graceful: bool = False
    propagation: Literal["Background", "Orphan"] | None = "Background"
    returns_deleted: bool = False
    warning: str = ""


class Storage(Protocol):
    """How objects are stored that a resource has in another form: in another version, or under an older schema.

    Either may take its time, in which others write.
    """

    async def load(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries with bodies as the resource has them; the very same entries where nothing is to be done."""
        ...

    async def save(self, document: Document) -> Document:
        """The object to store; the very same if it is stored as it is."""
        ...

    async def convert(self, document: Document) -> Document:
        """The object as the resource has it, from one as another version of it does. Raises `ApiError`."""
        ...


@dataclass(frozen=True, eq=False)
class Resource:
    """One served resource.

    kind: what its objects are, as this resource shows them.
    stored: what they are in the store; the same for all but second spellings.
    deprecation: a warning that goes with every answer.
    schema: of the stored objects, if their kind has no type that says it.
    storage: how they are stored, if not as the resource has them; of custom resources only.
    singular_name, list_kind: names, if they do not follow from the kind's.
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
        """What the fields of stored objects are, for their management: which lists are sets or maps."""
        return FieldSchema.of_kind(self.stored) if self.schema is None else FieldSchema.of(dict(self.schema))

    @property
    def written_version(self) -> str:
        """The version in which fields are managed: that of the documents that writes deal with."""
        return (self.stored if self.storage is None else self.kind).api_version

    @property
    def singular(self) -> str:
        """`pod`: how kubectl also calls it."""
        return self.singular_name or self.kind.kind.lower()

    @property
    def kind_of_lists(self) -> str:
        """`PodList`."""
        return self.list_kind or f"{self.kind.kind}List"

    @cached_property
    def name(self) -> str:
        """`pods`, `jobs.batch`: what messages call it."""
        return self.kind.resource

    @cached_property
    def key(self) -> str:
        """The resource of its objects' keys in the store."""
        return self.stored.resource

    @cached_property
    def _subresources(self) -> dict[str, Subresource]:
        return {subresource.name: subresource for subresource in self.subresources}

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name, if there is one."""
        return self._subresources.get(name)


class Registry:
    """All served resources: those that are built in, and what CustomResourceDefinitions add and take away.

    generation: counts the changes, so that what is made from all resources is made again when it must be.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._builtin = _by_path(resources)
        self._custom: dict[str, Sequence[Resource]] = {}
        self._served = self._builtin
        self._listeners: list[Callable[[Collection[Resource]], None]] = []
        self.generation = 0

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._served.values())

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, None if that is not served."""
        served = (resource for resource in self if resource.kind.kind == kind)
        return next((resource for resource in served if resource.kind.api_version == api_version), None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource that a path names."""
        return self._served.get((group, version, plural))

    def is_builtin(self, group: str, plural: str) -> bool:
        """Whether some version of a resource is built in: no definition of it changes how it is served."""
        return any((group, plural) == (of, name) for of, _, name in self._builtin)

    def set_custom(self, owner: str, resources: Sequence[Resource]) -> None:
        """Serve these, instead of what the same definition served before; none: it serves nothing any more.

        What is built in stays as it is.
        """
        replaced = self._custom.get(owner, ())
        if not resources and owner not in self._custom:
            return
        if resources:
            self._custom[owner] = resources
        else:
            del self._custom[owner]
        custom = _by_path(resource for each in self._custom.values() for resource in each)
        self._served = custom | self._builtin
        self.generation += 1
        for listener in self._listeners if replaced else ():
            listener(replaced)

    def on_replaced(self, listener: Callable[[Collection[Resource]], None]) -> None:
        """Call `listener` with resources that are no longer served, or not as they were: others took their place."""
        self._listeners.append(listener)


def _by_path(resources: Iterable[Resource]) -> dict[tuple[str, str, str], Resource]:
    return {(r.kind.group, r.kind.version, r.kind.plural): r for r in resources}
