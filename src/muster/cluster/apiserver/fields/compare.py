"""Compare two versions of a document, and return their difference as field sets."""

from typing import Any, NamedTuple

from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import SELF, FieldSet, unite_sets

_ABSENT = object()
_CONTAINERS = (dict, list)


class Changes(NamedTuple):
    """The difference between two documents.

    gained: the paths that are new or have a different value.
    removed: the paths that no longer exist.
    """

    gained: FieldSet
    removed: FieldSet

    @property
    def lost(self) -> FieldSet:
        """The paths that every manager except the writer loses: the gained and the removed paths."""
        return unite_sets(self.gained, self.removed) if self.gained and self.removed else self.gained or self.removed


def compare(old: Document, new: Document, schema: FieldSchema) -> Changes:
    """Return the changes from one document to the next. The comparison does not descend into equal parts."""
    changes = Changes({}, {})
    _compare_members(old, new, schema, changes)
    return changes


def list_all_paths(value: Any, schema: FieldSchema) -> FieldSet:
    """Return the field set of a value: its own path, and the paths of all parts that can have another manager."""
    if not value:
        return {}
    shape = schema.shape
    if type(value) is dict and shape == "map":
        below: FieldSet = {SELF: {}}
        for name, item in value.items():
            # Most members are scalars, which have no paths below them under any schema.
            below["f:" + name] = list_all_paths(item, schema.member(name)) if item and type(item) in _CONTAINERS else {}
        return below
    if type(value) is list and schema.element is not None:
        items = schema.items_of(value)
        if items is not None:
            element = schema.element
            return {SELF: {}} | {key: list_all_paths(item, element) for key, item in items.items()}
    return {}


def _compare_members(old: Document, new: Document, schema: FieldSchema, changes: Changes) -> None:
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is _ABSENT:
            changes.gained["f:" + name] = (
                list_all_paths(value, schema.member(name)) if type(value) in _CONTAINERS else {}
            )
        elif before is value or before == value:
            continue
        elif type(value) in _CONTAINERS or type(before) in _CONTAINERS:
            _compare_values("f:" + name, before, value, schema.member(name), changes)
        else:
            changes.gained["f:" + name] = {}
    for name, before in old.items():
        if name not in new:
            changes.removed["f:" + name] = list_all_paths(before, schema.member(name))


def _compare_items(old: dict[str, Any], new: dict[str, Any], element: FieldSchema, changes: Changes) -> None:
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is _ABSENT:
            changes.gained[key] = list_all_paths(value, element)
        elif before != value:
            _compare_values(key, before, value, element, changes)
    for key, before in old.items():
        if key not in new:
            changes.removed[key] = list_all_paths(before, element)


def _compare_values(key: str, old: Any, new: Any, schema: FieldSchema, changes: Changes) -> None:
    """Add the difference between two values of one path to `changes`. The values are not equal."""
    inner = Changes({}, {})
    if not _compare_contents(old, new, schema, inner):
        changes.gained[key] = list_all_paths(new, schema)
        return
    if inner.gained:
        changes.gained[key] = inner.gained
    if inner.removed:
        changes.removed[key] = inner.removed


def _compare_contents(old: Any, new: Any, schema: FieldSchema, changes: Changes) -> bool:
    """Add the differences between the contents of two objects or lists to `changes`, and return True.

    A null counts as empty. Return False and add nothing if only the whole values can be compared.
    """
    if not (old or new):
        return False
    if schema.shape == "map":
        before, after = {} if old is None else old, {} if new is None else new
        if type(before) is not dict or type(after) is not dict:
            return False
        _compare_members(before, after, schema, changes)
        return True
    if schema.element is None:
        return False
    olds, news = _map_items_by_key(old, schema), _map_items_by_key(new, schema)
    if olds is None or news is None:
        return False
    _compare_items(olds, news, schema.element, changes)
    return True


def _map_items_by_key(value: Any, schema: FieldSchema) -> dict[str, Any] | None:
    """Return the items of a list by path element; None if the value is no list or an item has no key."""
    if value is None:
        return {}
    return schema.items_of(value) if type(value) is list else None
