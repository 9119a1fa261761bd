"""The parts of a request's path and query: the target, and the options of a list, watch or write.

Pure. The rules follow k8s.io/apiserver (request info, query parameter codec). The registry decides whether a
target is served: a path in the form of a resource's path names a target, even if no such resource exists.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api.status import FORBIDDEN, NOT_SUPPORTED, FieldError, bad_request, invalid, path_not_found
from muster.api.values import durations
from muster.cluster.apiserver.fields import manager_errors

# Below a namespace, these are subresources of the Namespace itself, and not resources in it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Target(Struct, frozen=True):
    """An object, a collection or a subresource, as a path names it.

    group: "" for the core group.
    namespace, name, subresource: "" if the path names none.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target | None:
    """Return the target of a resource's path; None for other paths. Raises `ApiError` (404) for an invalid path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not all(rest):
        raise path_not_found()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise path_not_found()
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, plural, namespace, name, subresource)


def replace_watch_path(path: str, query: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Return the replacement of a deprecated watch path (`/api/v1/watch/pods`): a list with `watch` in the query.

    The watch path of one object gets a field selector for its name. Any other path is returned unchanged.
    """
    if "/watch/" not in path:
        return path, query
    parts = path.strip("/").split("/")
    at = 2 if parts[0] == "api" else 3
    if parts[0] not in ("api", "apis") or len(parts) < at + 2 or parts[at] != "watch":
        return path, query
    rest = parts[at + 1 :]
    in_namespace = rest[0] == "namespaces" and len(rest) > 2
    of_one = len(rest) == (4 if in_namespace else 2)
    selected = {"fieldSelector": f"metadata.name={rest[-1]}"} if of_one else {}
    listed = "/".join(["", *parts[:at], *(rest[:-1] if of_one else rest)])
    return listed, {**query, **selected, "watch": "true"}


# Subresources of pods whose responses last as long as the client listens.
_STREAMS = ("log", "exec", "attach", "portforward", "proxy")


def is_long_running(method: str, path: str, query: Mapping[str, str]) -> bool:
    """Return whether a request is a watch, a log or a tunnel, judged by its method, path and query alone."""
    if method == "GET" and "watch" in query:
        return parse_boolean(query, "watch") or False
    # The depth tells the log of a Job from a Job named `log`.
    depth = _DEPTH_IN_CORE if path.startswith("/api/") else _DEPTH_IN_GROUP
    return path.rpartition("/")[2] in _STREAMS and path.count("/") >= depth


_DEPTH_IN_CORE = 7  # /api/v1/namespaces/default/pods/p/log
_DEPTH_IN_GROUP = 8  # /apis/batch/v1/namespaces/default/jobs/j/log


class ListOptions(Struct, frozen=True):
    """The options of a list or watch, as in upstream's ListOptions.

    bookmarks: whether a watch sends bookmarks.
    send_initial_events: whether a watch starts with the existing objects. The default is upstream's
    (SetListOptionsDefaults): true for a watch from no version or from 0.
    """

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0  # 0 is no limit
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    watch: bool = False
    bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: int | None = None


class WriteOptions(Struct, frozen=True):
    """The options of a write.

    field_manager: the name in the query; "" if it has none.
    force: whether an apply takes fields from other managers.
    """

    dry_run: bool = False
    field_validation: str = "Warn"  # Strict, Warn or Ignore
    field_manager: str = ""
    force: bool = False


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Return the options in the query of a list or watch.

    Raises `ApiError`: 400 for a value that cannot be read, 422 for values that exclude each other.
    """
    if not query:
        return _PLAIN_LIST
    options = ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=max(parse_integer(query, "limit") or 0, 0),
        continue_=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        watch=parse_boolean(query, "watch") or False,
        bookmarks=parse_boolean(query, "allowWatchBookmarks") or False,
        send_initial_events=parse_boolean(query, "sendInitialEvents"),
        timeout_seconds=parse_integer(query, "timeoutSeconds"),
    )
    if options.watch:
        options = _fill_initial_events(options)
    if errors := _find_watch_errors(options) if options.watch else _find_list_errors(options):
        raise invalid("ListOptions", "meta.k8s.io", "", errors)
    return options


def _fill_initial_events(options: ListOptions) -> ListOptions:
    """Return the options with upstream's default filled in for a watch from no version or from 0."""
    if options.send_initial_events is not None or options.resource_version_match:
        return options
    if options.resource_version not in ("", "0"):
        return options
    return replace(options, send_initial_events=True, resource_version_match="NotOlderThan")


_PLAIN_LIST = ListOptions()


def _find_list_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    if match := options.resource_version_match:
        field = "resourceVersionMatch"
        if not options.resource_version:
            errors.append(_make_forbidden_error(field, f"{field} is forbidden unless resourceVersion is provided"))
        if options.continue_:
            errors.append(_make_forbidden_error(field, f"{field} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(_make_unsupported_error(field, match, "Exact", "NotOlderThan", ""))
        if match == "Exact" and options.resource_version == "0":
            errors.append(_make_forbidden_error(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(_make_forbidden_error("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _find_watch_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    field, match = "resourceVersionMatch", options.resource_version_match
    if options.send_initial_events is not None and match != "NotOlderThan":
        errors.append(_make_forbidden_error(field, f"sendInitialEvents requires setting {field} to NotOlderThan"))
    if match:
        if options.send_initial_events is None:
            errors.append(
                _make_forbidden_error(field, f"{field} is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != "NotOlderThan":
            errors.append(_make_unsupported_error(field, match, "NotOlderThan"))
        if options.continue_:
            errors.append(_make_forbidden_error(field, f"{field} is forbidden when continue is provided"))
    return errors


def write_options(query: Mapping[str, str], kind: str, *, applies: bool = False) -> WriteOptions:
    """Return the options in the query of a write. Raises `ApiError` (422).

    kind: CreateOptions, UpdateOptions or PatchOptions, for the error.
    applies: whether the write is a server-side apply, which must name its field manager.
    """
    if not query and not applies:
        return _PLAIN_WRITE
    manager = query.get("fieldManager", "")
    errors = manager_errors(manager, required=applies)
    if "force" in query and kind == "PatchOptions" and not applies:
        errors.append(_make_forbidden_error("force", "may not be specified for non-apply patch"))
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        errors.append(_make_unsupported_error("dryRun", dry_run, "All"))
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        errors.append(_make_unsupported_error("fieldValidation", validation, "", "Ignore", "Strict", "Warn"))
    if errors:
        raise invalid(kind, "meta.k8s.io", "", errors)
    return WriteOptions(dry_run == "All", validation, manager, parse_boolean(query, "force") or False)


_PLAIN_WRITE = WriteOptions()


def parse_integer(query: Mapping[str, str], name: str) -> int | None:
    """Return a signed 64-bit integer from a query; None if it is missing or empty. Raises `ApiError` (400)."""
    text = query.get(name)
    if text is None or text == "":
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise bad_request(f"{name}: {_explain_parse_error('ParseInt', text, 'invalid syntax')}")
    if len(digits) > 19 or not -(2**63) <= (value := int(text)) < 2**63:
        raise bad_request(f"{name}: {_explain_parse_error('ParseInt', text, 'value out of range')}")
    return value


def parse_boolean(query: Mapping[str, str], name: str) -> bool | None:
    """Return a boolean from a query; None if it is missing.

    As upstream, all values except `false` (in any case) and `0` are true, also "".
    """
    text = query.get(name)
    return None if text is None else text.lower() not in ("false", "0")


def parse_revision(text: str, resource: str) -> int:
    """Return the resource version at which a watch starts; "" means 0. Raises `ApiError` (422)."""
    parsed = _parse_revision(text)
    if isinstance(parsed, FieldError):
        plural, _, group = resource.partition(".")
        raise invalid(plural, group, "", [parsed])
    return parsed


def revision_of_list(text: str) -> int:
    """Return the resource version of a get or list; "" means 0. Raises `ApiError` (400), as upstream does."""
    parsed = _parse_revision(text)
    if isinstance(parsed, FieldError):
        raise bad_request(f"invalid resource version: {parsed}")
    return parsed


def _parse_revision(text: str) -> int | FieldError:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        return _make_revision_error(text, "invalid syntax")
    if len(text) > 20 or (value := int(text)) >= 2**64:
        return _make_revision_error(text, "value out of range")
    return value


def _make_revision_error(text: str, why: str) -> FieldError:
    return FieldError("resourceVersion", "Invalid value", text[:100], _explain_parse_error("ParseUint", text, why))


def _explain_parse_error(function: str, text: str, why: str) -> str:
    return f'strconv.{function}: parsing "{text[:100]}": {why}'


def _make_forbidden_error(field: str, detail: str) -> FieldError:
    return FieldError(field, FORBIDDEN, None, detail)


def _make_unsupported_error(field: str, value: str, *supported: str) -> FieldError:
    return FieldError(field, NOT_SUPPORTED, value[:100], "supported values: " + ", ".join(f'"{s}"' for s in supported))


def parse_timeout(query: Mapping[str, str], most: float) -> float:
    """Return the seconds that a request may take: the `timeout` in its query if that is positive, but at most `most`.

    Raises `ApiError` (400) for a `timeout` that is no duration.
    """
    text = query.get("timeout", "")
    if not text:
        return most
    try:
        seconds = durations.parse_seconds(text)
    except durations.DurationError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return min(seconds, most) if seconds > 0 else most
