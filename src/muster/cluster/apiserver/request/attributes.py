"""Find the verb, the access and the resource of a request, like the request attributes of kube-apiserver. Pure.

The module takes a request and its parsed `Target`. It returns the API verb, the `Access` for authorization to check,
and the served `Resource`. It does not decide whether the user has the access.
"""

from muster.api.status import method_not_allowed, path_not_found
from muster.api.values.selectors import SelectorError, parse_field_selector
from muster.cluster.apiserver.identity.users import Access, User
from muster.cluster.apiserver.registry.resources import Registry, Resource
from muster.cluster.apiserver.request.requestinfo import Target, parse_boolean
from muster.runtime.transport import Request

_WRITE_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_METHODS = frozenset({"GET", *_WRITE_VERBS})
# Verbs that work on the objects of all namespaces at once.
_ACROSS_NAMESPACES = frozenset({"list", "watch"})
_SELECTING = frozenset({"list", "watch", "deletecollection"})
_ON_COLLECTIONS = _SELECTING | {"create"}


def find_resource(registry: Registry, target: Target, verb: str) -> Resource:
    """Return the resource that a target names. Raises `ApiError` (404, 405) if the target or verb does not fit it."""
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
    """Return the access that a request needs. target: None for a path that belongs to no resource."""
    if target is None:
        return Access(user, verb, path=request.path)
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    name = target.name
    if verb in _SELECTING:
        name = _find_selected_name(request.query.get("fieldSelector", ""))
    # A Namespace counts as being in itself, so rights in a namespace apply to its own object.
    namespace = target.namespace or (target.name if target.plural == "namespaces" else "")
    return Access(user, verb, target.group, resource, namespace, name)


def _find_selected_name(fields: str) -> str:
    """Return the only name that a field selector allows; "" if it allows several or is invalid.

    For a list of a single name, rights to that object suffice.
    """
    if "metadata.name" not in fields:
        return ""
    try:
        return parse_field_selector(fields).exact("metadata.name") or ""
    except SelectorError:
        return ""  # the list itself refuses a bad selector


def verb_of(request: Request, target: Target | None) -> str:
    """Return the API verb of a request on a resource. For any other path, return the method in lower case.

    An unknown method is "other" on such a path, and raises `ApiError` (405) on a resource.
    """
    if target is None:
        return request.method.lower() if request.method in _METHODS else "other"
    if request.method == "GET":
        if target.name:
            return "get"
        return "watch" if parse_boolean(request.query, "watch") else "list"
    verb = _WRITE_VERBS.get(request.method)
    if verb is None:
        raise method_not_allowed()
    return "deletecollection" if verb == "delete" and not target.name else verb
