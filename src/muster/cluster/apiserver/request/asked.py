"""What a request is about to do: the verb, the access that it takes, and the resource that it means."""

from muster.api.status import method_not_allowed, path_not_found
from muster.api.values.selectors import SelectorError, parse_field_selector
from muster.cluster.apiserver.identity.users import Access, User
from muster.cluster.apiserver.registry.resources import Registry, Resource
from muster.cluster.apiserver.request.requestinfo import Target, boolean
from muster.runtime.transport import Request

_WRITE_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_METHODS = frozenset({"GET", *_WRITE_VERBS})
# Verbs that work on a collection of namespaces at once.
_ACROSS_NAMESPACES = frozenset({"list", "watch"})
_SELECTING = frozenset({"list", "watch", "deletecollection"})
_ON_COLLECTIONS = _SELECTING | {"create"}


def found(registry: Registry, target: Target, verb: str) -> Resource:
    """The resource, if the target makes sense for it. Raises `ApiError` (404, 405)."""
    resource = registry.find(target.group, target.version, target.plural)
    if resource is None:
        raise path_not_found()
    namespaced = resource.kind.namespaced
    if target.namespace and not namespaced:
        raise path_not_found()
    if namespaced and not target.namespace and (target.name or target.subresource):
        raise path_not_found()
    if not target.subresource:
        misplaced = bool(target.name) == (verb in _ON_COLLECTIONS)
        across = namespaced and not target.namespace and verb not in _ACROSS_NAMESPACES
        if misplaced or across or verb not in resource.verbs:
            raise method_not_allowed()
    return resource


def access_of(request: Request, user: User, target: Target | None, verb: str) -> Access:
    """What the user is about to do."""
    if target is None:
        return Access(user, verb, path=request.path)
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    name = target.name
    if verb in _SELECTING:
        name = _selected_name(request.query.get("fieldSelector", ""))
    # A namespace is taken to be in itself: rights in it are rights to it.
    namespace = target.namespace or (target.name if target.plural == "namespaces" else "")
    return Access(user, verb, target.group, resource, namespace, name)


def _selected_name(fields: str) -> str:
    """The one object that a field selector leaves of a collection: who may read that one may list it so."""
    if "metadata.name" not in fields:
        return ""
    try:
        return parse_field_selector(fields).exact("metadata.name") or ""
    except SelectorError:
        return ""  # it is refused where it is read


def verb_of(request: Request, target: Target | None) -> str:
    """What a request does: an API verb on a resource, the method in small letters on any other path."""
    if target is None:
        return request.method.lower() if request.method in _METHODS else "other"
    if request.method == "GET":
        if target.name:
            return "get"
        return "watch" if boolean(request.query, "watch") else "list"
    verb = _WRITE_VERBS.get(request.method)
    if verb is None:
        raise method_not_allowed()
    return "deletecollection" if verb == "delete" and not target.name else verb
