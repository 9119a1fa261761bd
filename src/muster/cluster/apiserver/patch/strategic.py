"""Strategic merge patch: a merge patch that merges the lists that are sets or maps.

`apply` takes a document, a patch and the schema of the kind, and returns the patched document. The schema of a field
decides how the field is merged, by `x-kubernetes-patch-strategy` (`merge`, `replace`, `retainKeys`) and
`x-kubernetes-patch-merge-key`. By default objects are merged and lists are replaced. Directives inside the patch refine
the merge:

    $patch: replace | delete | merge      in an object, or in an item of a merged list
    $deleteFromPrimitiveList/FIELD        the values to remove from a merged list of scalars
    $setElementOrder/FIELD                the order of the items in the result
    $retainKeys                           the only members that the object may keep

The rules and errors follow k8s.io/apimachinery/pkg/util/strategicpatch. Four points differ, in which that package
loses or leaks something:

- `$patch: merge` is accepted, because it names the default.
- `$patch: replace` also creates an absent object.
- Directives never reach the result.
- Errors that are internal errors in that package have the code 422.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.api.patch.limits import shorten_text, unprocessable
from muster.api.status import ApiError, bad_request

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM_LIST = "$deleteFromPrimitiveList"
_SET_ORDER = "$setElementOrder"

_NAMES = {
    _RETAIN_KEYS: "retainKeys",
    _DELETE_FROM_LIST: "primitive list",
    _SET_ORDER: "setElementOrder list",
}

Schema = Mapping[str, Any]


class _Field(NamedTuple):
    """The merge rules of one member of an object.

    schema: the schema of the member, or of its items if it is a list.
    """

    schema: Schema
    merges_lists: bool
    replaces: bool
    merge_key: str


def apply(document: dict[str, Any], patch: Any, schema: Schema) -> dict[str, Any]:
    """Return the document with the patch merged into it. The document does not change.

    Raises `ApiError`: 400 if the patch is malformed, 422 if it does not fit the document.

    patch: a patch that nests no deeper than `decode` allows for bodies.
    schema: the OpenAPI schema of the kind, without references.
    """
    if not isinstance(patch, dict):
        raise bad_request("invalid JSON document")
    return _merge_object(document, patch, schema)


def _merge_object(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "replace":
        return _make_fresh_members(patch)
    if directive == "delete":
        return {}
    if directive != "merge":
        raise unprocessable(f"unknown patch type: {shorten_text(str(directive))} in map")
    result = _retain_keys(original, patch)
    ordered = _apply_orders(result, patch, schema)
    for key, value in patch.items():
        if key in ordered or key in (_DIRECTIVE, _RETAIN_KEYS) or _read_directive_field(key, _SET_ORDER):
            continue
        if field := _read_directive_field(key, _DELETE_FROM_LIST):
            _delete_scalars(result, field, value)
        elif value is None:
            result.pop(key, None)
        else:
            _merge_member(result, key, value, schema)
    return result


def _merge_member(result: dict[str, Any], key: str, value: Any, schema: Schema) -> None:
    """Merge one member of a patch into the resulting object, in place."""
    current = result.get(key)
    if isinstance(current, dict) and isinstance(value, dict):
        field = _get_field(schema, key)
        result[key] = _make_fresh_members(value) if field.replaces else _merge_object(current, value, field.schema)
    elif isinstance(current, list) and isinstance(value, list):
        result[key] = _merge_lists(current, value, _get_field(schema, key))
    elif isinstance(value, dict) and value.get(_DIRECTIVE) == "delete":
        result.pop(key, None)
    else:
        result[key] = _make_fresh_value(value)


def _merge_lists(current: list[Any], patch: list[Any], field: _Field) -> list[Any]:
    if not field.merges_lists:
        return _make_fresh_items(patch)
    if not current and not patch:
        return current
    key = _find_merge_key(field, current, patch)
    if not key:
        return _sort_items([*current, *patch], patch, current, "")
    remaining, added = _apply_special_items(current, patch, key)
    items = _merge_items(remaining, added, field)
    return _sort_items(items, added, current, key)


def _apply_special_items(current: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply the items of the patch that have a `$patch`. Return the remaining items of the list and of the patch.

    Raises `ApiError` (422) for an unknown `$patch`.
    """
    plain: list[Any] = []
    deleted: set[Any] = set()
    replace = False
    for item in patch:
        match item.get(_DIRECTIVE):
            case None:
                plain.append(item)
            case "delete":
                deleted.add(_identify_item(item, key))
            case "replace":
                replace = True
            case "merge":
                raise unprocessable("merging lists cannot yet be specified in the patch")
            case other:
                raise unprocessable(f"unknown patch type: {shorten_text(str(other))} in map")
    if replace:
        return [], plain
    return [item for item in current if _identify_item(item, key) not in deleted], plain


def _merge_items(current: list[Any], patch: list[Any], field: _Field) -> list[Any]:
    """Return the current items, with each item of the patch merged into the item with its key, or appended."""
    items = list(current)
    positions: dict[Any, int] = {}
    for position, item in enumerate(items):
        positions.setdefault(_identify_item(item, field.merge_key), position)
    for item in patch:
        identity = _identify_item(item, field.merge_key)
        if identity in positions:
            place = positions[identity]
            items[place] = _merge_object(items[place], item, field.schema)
        else:
            positions[identity] = len(items)
            items.append(_make_fresh_members(item))
    return items


def _apply_orders(result: dict[str, Any], patch: dict[str, Any], schema: Schema) -> set[str]:
    """Merge and order, in place, the lists for which the patch has a `$setElementOrder`. Return their names.

    Raises `ApiError` for a malformed order.
    """
    done: set[str] = set()
    for directive, order in patch.items():
        name = _read_directive_field(directive, _SET_ORDER)
        if not name:
            continue
        current, added = result.get(name), patch.get(name)
        for value in (order, [] if current is None else current, [] if added is None else added):
            if not isinstance(value, list):
                raise _make_malformed_error(_SET_ORDER)
        field = _get_field(schema, name)
        key = _find_merge_key(field, order, current or [], added or [])
        _require_same_order(name, added or [], order, key)
        if name in patch and added is None:
            continue  # an explicit null removes the list, so there is nothing to order
        if current is not None or added is not None:
            merged = _merge_lists(current or [], added, field) if added is not None else current
            result[name] = _sort_items(merged or [], order, current or [], key)
        done.add(name)
    return done


def _require_same_order(name: str, patch: list[Any], order: list[Any], key: str) -> None:
    """Raise `ApiError` (422) unless the items of the patch, without directives, are a subsequence of the order.

    key: the merge key of the items; "" for a list of scalars.
    """
    if not patch or not order:
        return
    remaining = iter([_identify_item(item, key) for item in order])
    for item in patch:
        if key and _DIRECTIVE in item:
            continue
        if _identify_item(item, key) not in remaining:
            raise unprocessable(f"The order in patch list: {shorten_text(name)} doesn't match {_SET_ORDER} list")


def _sort_items(items: list[Any], order: list[Any], current: list[Any], key: str) -> list[Any]:
    """Return the items sorted: items in `order` by that order, and the others in the order of `current`.

    The two groups interleave as they do in `current`. Equal scalars are merged to one.
    """
    if not key:
        items = list({_identify_item(item, key): item for item in items}.values())
    ranks = _rank_items(order, key)
    places = _rank_items(current, key)
    named = sorted(
        (item for item in items if _identify_item(item, key) in ranks), key=lambda i: ranks[_identify_item(i, key)]
    )
    others = [item for item in items if _identify_item(item, key) not in ranks]
    others.sort(key=lambda item: places.get(_identify_item(item, key), len(places)))
    result: list[Any] = []
    waiting = iter(named)
    following = next(waiting, None)
    for item in others:
        place = places.get(_identify_item(item, key))
        while following is not None:
            named_place = places.get(_identify_item(following, key))
            if place is not None and named_place is not None and place < named_place:
                break
            result.append(following)
            following = next(waiting, None)
        result.append(item)
    if following is not None:
        result += [following, *waiting]
    return result


def _rank_items(items: Iterable[Any], key: str) -> dict[Any, int]:
    ranks: dict[Any, int] = {}
    for rank, item in enumerate(items):
        ranks.setdefault(_identify_item(item, key), rank)
    return ranks


def _identify_item(item: Any, key: str) -> Any:
    """Return the identity of a list's item: the value of its merge key, or the scalar. `1` differs from `true`.

    Raises `ApiError` (422) if the item has no merge key, or if the identity is no scalar.
    """
    value = item
    if key:
        if key not in item:
            raise unprocessable(f"map does not contain declared merge key: {key}")
        value = item[key]
    if isinstance(value, dict | list):
        raise unprocessable("lists of lists are not supported" if not key else f"merge key {key} is not a scalar")
    return type(value), value


def _are_objects(*lists: Sequence[Any]) -> bool:
    """Return whether the items of these lists are objects.

    Raises `ApiError` (422) if some items are objects and some are not.
    """
    kinds = {isinstance(item, dict) for items in lists for item in items}
    if len(kinds) > 1:
        raise unprocessable("list element types are not identical")
    return kinds == {True}


def _find_merge_key(field: _Field, *lists: Sequence[Any]) -> str:
    """Return the merge key of lists of objects, or "" for lists of scalars. Raises `ApiError` (422) for mixed lists."""
    if not _are_objects(*lists):
        return ""
    if not field.merge_key:
        raise unprocessable("cannot merge lists without merge key")
    return field.merge_key


def _delete_scalars(result: dict[str, Any], name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise _make_malformed_error(_DELETE_FROM_LIST)
    current = result.get(name)
    if isinstance(current, list) and not _are_objects(current, values):
        deleted = {_identify_item(value, "") for value in values}
        result[name] = [item for item in current if _identify_item(item, "") not in deleted]


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the object, reduced to the members in `$retainKeys` if the patch has this directive.

    Raises `ApiError` for a malformed directive.
    """
    if _RETAIN_KEYS not in patch:
        return dict(original)
    keys = patch[_RETAIN_KEYS]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise _make_malformed_error(_RETAIN_KEYS)
    retained = set(keys)
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in retained:
            raise _make_malformed_error(_RETAIN_KEYS)
    return {key: value for key, value in original.items() if key in retained}


def _read_directive_field(key: str, directive: str) -> str:
    """Return the FIELD of `DIRECTIVE/FIELD`; "" for any other key. Raises `ApiError` (400) if the field is missing."""
    if not key.startswith(directive):
        return ""
    head, _, name = key.partition("/")
    if head != directive or not name:
        raise _make_malformed_error(directive)
    return name


def _make_malformed_error(directive: str) -> ApiError:
    return bad_request(f"invalid patch format of {_NAMES[directive]}")


def _make_fresh_value(value: Any) -> Any:
    """Return a value of the patch without nulls and directives, as the value of a new member."""
    if isinstance(value, dict):
        return _make_fresh_members(value)
    return _make_fresh_items(value) if isinstance(value, list) else value


def _make_fresh_items(items: list[Any]) -> list[Any]:
    return [_make_fresh_value(item) for item in items if not (isinstance(item, dict) and _DIRECTIVE in item)]


def _make_fresh_members(value: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _make_fresh_value(item)
        for key, item in value.items()
        if item is not None
        and not (isinstance(item, dict) and item.get(_DIRECTIVE) == "delete")
        and key not in (_DIRECTIVE, _RETAIN_KEYS)
        and not key.startswith((f"{_SET_ORDER}/", f"{_DELETE_FROM_LIST}/"))
    }


def _get_field(schema: Schema, key: str) -> _Field:
    properties = schema.get("properties") or {}
    member = properties.get(key) or schema.get("additionalProperties")
    if not isinstance(member, Mapping):
        member = {}
    items = member.get("items")
    strategies = str(member.get("x-kubernetes-patch-strategy", "")).split(",")
    return _Field(
        schema=items if isinstance(items, Mapping) else member,
        merges_lists="merge" in strategies,
        replaces="replace" in strategies,
        merge_key=str(member.get("x-kubernetes-patch-merge-key", "")),
    )
