"""The paths of a resource and their operations, independent of the version of OpenAPI.

`paths_of` takes a resource and returns its paths. `documents` renders them as OpenAPI v2 or v3.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from muster.api.kinds import Kind
from muster.api.schema import read_documentation
from muster.cluster.apiserver.openapi.schemas import DELETE_OPTIONS, PATCH, STATUS, component_of, list_name
from muster.cluster.apiserver.registry.resources import Resource, Subresource

_CUSTOM_PATCH_TYPES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
PATCH_TYPES = (*_CUSTOM_PATCH_TYPES, "application/strategic-merge-patch+json")


class Parameter(Struct, frozen=True):
    """A parameter of an operation or a path.

    type: the JSON type of the value.
    """

    name: str
    where: str  # query or path
    type: str
    description: str


def _make_query(name: str, type_: str, description: str) -> Parameter:
    return Parameter(name, "query", type_, description)


NAMESPACE = Parameter("namespace", "path", "string", "Name of the namespace.")
NAME = Parameter("name", "path", "string", "Name of the object.")
_PRETTY = _make_query("pretty", "string", "Whether the answer is laid out for people.")
_DRY_RUN = _make_query("dryRun", "string", "All: do everything but store the result.")
_WRITING = (
    _DRY_RUN,
    _make_query("fieldManager", "string", "Name of who makes the change."),
    _make_query("fieldValidation", "string", "What to do about unknown and repeated fields: Ignore, Warn or Strict."),
)
_FORCE = _make_query("force", "boolean", "For server-side apply: whether to take over fields of other managers.")
_LISTING = (
    _make_query("allowWatchBookmarks", "boolean", "Whether a watch sends bookmarks."),
    _make_query("continue", "string", "Where the next page begins, from the last one."),
    _make_query("fieldSelector", "string", "Only objects with these fields."),
    _make_query("labelSelector", "string", "Only objects with these labels."),
    _make_query("limit", "integer", "How many objects a page holds at most."),
    _make_query("resourceVersion", "string", "The version to list at or to watch from."),
    _make_query("resourceVersionMatch", "string", "Exact or NotOlderThan: how resourceVersion is meant."),
    _make_query("sendInitialEvents", "boolean", "Whether a watch begins with the objects that are there."),
    _make_query("timeoutSeconds", "integer", "How long to list or watch."),
    _make_query("watch", "boolean", "Whether to send changes instead of a list."),
)
_DELETING = (
    _DRY_RUN,
    _make_query("gracePeriodSeconds", "integer", "Seconds that the object has to end."),
    _make_query("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    _make_query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
)
_LOG = (
    _make_query("container", "string", "The container; needed if there are several."),
    _make_query("follow", "boolean", "Whether to go on with what is written from now on."),
    _make_query("limitBytes", "integer", "How many bytes to send at most."),
    _make_query("previous", "boolean", "The container's last run instead of this one."),
    _make_query("sinceSeconds", "integer", "Only what is not older."),
    _make_query("sinceTime", "string", "Only what is not older."),
    _make_query("tailLines", "integer", "Only so many lines from the end."),
    _make_query("timestamps", "boolean", "Whether lines begin with their time."),
)


_PENDING = (
    _make_query("limit", "integer", "How many workloads at most."),
    _make_query("offset", "integer", "How many to leave out at the beginning."),
)


class Operation(Struct, frozen=True):
    """An operation: one method at one path.

    action: upstream's word for the operation (`x-kubernetes-action`).
    id: the identifier of the operation, unique among all operations.
    kind: the kind on which the operation acts.
    result: the component of the response; "" for text.
    body: the component of the request body; "" if there is none.
    body_types: the media types of the body.
    """

    method: str
    action: str
    id: str
    description: str
    kind: Kind[Any]
    result: str
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    body_types: tuple[str, ...] = ("*/*",)


class PathItem(Struct, frozen=True):
    """A path and its operations.

    parameters: the parameters that all operations of the path share.
    """

    path: str
    parameters: tuple[Parameter, ...]
    operations: list[Operation] = field(default_factory=list)


def paths_of(resource: Resource) -> Iterator[PathItem]:
    """Return the paths of a resource and its subresources that have at least one operation."""
    return (item for item in _list_paths(resource) if item.operations)


def _list_paths(resource: Resource) -> Iterator[PathItem]:
    kind = resource.kind
    verbs = set(resource.verbs)
    scope = (NAMESPACE,) if kind.namespaced else ()
    where = "Namespaced" if kind.namespaced else ""
    yield _make_collection_path(resource, PathItem(kind.path("{namespace}"), (*scope, _PRETTY)), where)
    single = PathItem(kind.path("{namespace}", "{name}"), (NAME, *scope, _PRETTY))
    single.operations.extend(_list_object_operations(kind, verbs, where, kind.kind, ""))
    yield single
    for sub in resource.subresources:
        item = PathItem(kind.path("{namespace}", "{name}", sub.name), (NAME, *scope, _PRETTY))
        item.operations.extend(_list_subresource_operations(resource, sub))
        yield item
    if kind.namespaced and "list" in verbs:
        everywhere = PathItem(kind.path(), (*_LISTING, _PRETTY))
        everywhere.operations.append(
            _make_list_operation(resource, f"list{_spell_group_version(kind)}{kind.kind}ForAllNamespaces", ())
        )
        yield everywhere


def _make_collection_path(resource: Resource, item: PathItem, scope: str) -> PathItem:
    kind, verbs = resource.kind, resource.verbs
    own = component_of(kind)
    where = f"{_spell_group_version(kind)}{scope}{kind.kind}"
    if "list" in verbs:
        item.operations.append(_make_list_operation(resource, f"list{where}", _LISTING))
    if "create" in verbs:
        item.operations.append(
            Operation("post", "post", f"create{where}", f"create a {kind.kind}", kind, own, _WRITING, own)
        )
    if "deletecollection" in verbs:
        name = f"delete{_spell_group_version(kind)}Collection{scope}{kind.kind}"
        parameters = tuple(dict.fromkeys((*_LISTING, *_DELETING)))
        text = f"delete collection of {kind.kind}"
        item.operations.append(
            Operation("delete", "deletecollection", name, text, kind, STATUS, parameters, DELETE_OPTIONS)
        )
    return item


def _make_list_operation(resource: Resource, id_: str, parameters: tuple[Parameter, ...]) -> Operation:
    text = f"list or watch objects of kind {resource.kind.kind}"
    return Operation("get", "list", id_, text, resource.kind, list_name(resource), parameters)


def _list_object_operations(
    kind: Kind[Any], verbs: set[str], scope: str, name: str, suffix: str
) -> Iterator[Operation]:
    """Yield the operations on one object, or on a subresource of it.

    kind: the kind of the bodies: the object's, or the subresource's.
    scope: "Namespaced" for a namespaced object, else "". It becomes a part of the operations' IDs.
    name: the kind of the object.
    suffix: the capitalized name of the subresource; "" for the object itself.
    """
    own = component_of(kind)
    where = f"{_spell_group_version(kind)}{scope}{name}{suffix}"
    what = f"{suffix.lower()} of the specified {name}" if suffix else f"the specified {name}"
    if "get" in verbs:
        yield Operation("get", "get", f"read{where}", f"read {what}", kind, own)
    if "update" in verbs:
        yield Operation("put", "put", f"replace{where}", f"replace {what}", kind, own, _WRITING, own)
    if "patch" in verbs:
        parameters, types = (*_WRITING, _FORCE), PATCH_TYPES if kind.type is not dict else _CUSTOM_PATCH_TYPES
        text = f"partially update {what}"
        yield Operation("patch", "patch", f"patch{where}", text, kind, own, parameters, PATCH, types)
    if "delete" in verbs:
        yield Operation("delete", "delete", f"delete{where}", f"delete {what}", kind, STATUS, _DELETING, DELETE_OPTIONS)
    if "create" in verbs and suffix:
        yield Operation("post", "post", f"create{where}", f"create {what}", kind, own, _WRITING, own)


def _list_subresource_operations(resource: Resource, sub: Subresource) -> Iterator[Operation]:
    scope = "Namespaced" if resource.kind.namespaced else ""
    name, suffix = resource.kind.kind, sub.name.capitalize()
    if sub.kind.kind.endswith("Options"):
        yield from _list_connect_operations(resource.kind, sub)
    elif sub.view is None and "get" in sub.verbs:
        id_ = f"read{_spell_group_version(resource.kind)}{scope}{name}{suffix}"
        is_text = sub.kind == resource.kind  # only the subresource `log` returns text
        result, parameters = ("", _LOG) if is_text else (component_of(sub.kind), _PENDING)
        yield Operation("get", "get", id_, f"read {sub.name} of the specified {name}", sub.kind, result, parameters)
    else:
        yield from _list_object_operations(sub.kind, set(sub.verbs), scope, name, suffix)


def _list_connect_operations(kind: Kind[Any], sub: Subresource) -> Iterator[Operation]:
    """Yield the operations that connect to a pod. The fields of the options are the parameters of the query."""
    name = f"{kind.kind}{sub.name.capitalize()}"
    options: type = sub.kind.type
    _, docs = read_documentation(options)
    parameters = tuple(
        _make_query(field.encode_name, _QUERY_TYPES.get(field.type, "string"), docs.get(field.name, ""))
        for field in msgspec.structs.fields(options)
    )
    for method in ("get", "post"):
        id_ = f"connect{_spell_group_version(kind)}{method.capitalize()}Namespaced{name}"
        text = f"connect {method.upper()} requests to {sub.name} of {kind.kind}"
        yield Operation(method, "connect", id_, text, sub.kind, "", parameters)


_QUERY_TYPES: dict[Any, str] = {bool: "boolean", int: "integer"}


def _spell_group_version(kind: Kind[Any]) -> str:
    """Return the group version of a kind as it appears in the IDs of operations.

    Examples are `CoreV1`, `RbacAuthorizationV1` and `KueueXK8sIoV1beta2`.
    """
    words = re.split(r"[.-]", kind.group.removesuffix(".k8s.io") or "core")
    return "".join(word.capitalize() for word in (*words, kind.version))
