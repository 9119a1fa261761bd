"""Merge a configuration into an object, and remove the fields that its manager no longer sets.

`merge` and `prune_given_up` change no operand. The result shares its unchanged parts with the object.
"""

from collections.abc import Mapping
from typing import Any

from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet, is_member


def merge(live: Document, config: Document, schema: FieldSchema) -> Document:
    """Return a copy of the object, with the values of the configuration merged into it by the rules of the schema."""
    result = live.copy()
    for name, value in config.items():
        result[name] = _merge_value(live[name], value, schema.member(name)) if name in live else copy_value(value)
    return result


def _merge_value(live: Any, config: Any, schema: FieldSchema) -> Any:
    if schema.shape == "map":
        if type(live) is dict and type(config) is dict and (live or config):
            return merge(live, config, schema)
        # A null does not delete the members of an object: only `prune_given_up` deletes fields that no manager owns any
        # more.
        return live if config is None and type(live) is dict and live else copy_value(config)
    if schema.element is not None and type(live) is list and live:
        if config is None:
            return live
        olds, news = schema.items_of(live), schema.items_of(config)
        if olds is not None and news is not None:
            return _merge_items(live, olds, news, schema, schema.element)
    return copy_value(config)


def _merge_items(
    live: list[Any], olds: Mapping[str, Any], news: Mapping[str, Any], schema: FieldSchema, element: FieldSchema
) -> list[Any]:
    """Return the items of both lists. Two items with the same key are merged into one.

    The items of the configuration keep the configuration's order. An item that only the object contains keeps its place
    before the shared item that follows it.

    olds, news: the items of the object and of the configuration, by key. If several items have the same key, they are
    in a tuple.
    """
    shared = [key for key in news if key in olds]
    turn = 0  # the index of the next shared key
    place = 0  # the index of the next item of the object's list
    result = []
    keys = list(olds) if len(olds) == len(live) else [schema.key_of(item) for item in live]
    for key, value in news.items():
        following = shared[turn] if turn < len(shared) else None
        while place < len(live) and keys[place] != following:
            if keys[place] not in news:
                result.append(live[place])
            place += 1
        result.append(copy_value(value) if key not in olds else _merge_item(olds[key], value, element))
        if key == following:
            turn += 1
    result += [item for item, key in zip(live[place:], keys[place:], strict=True) if key not in news]
    return result


def _merge_item(live: Any, config: Any, element: FieldSchema) -> Any:
    # A tuple has the items that the object repeats under one key: the applied item replaces them all.
    return copy_value(config) if type(live) is tuple else _merge_value(live, config, element)


def copy_value(value: Any) -> Any:
    """Return a deep copy of a value of the configuration, which later changes of the result do not reach."""
    if type(value) is dict:
        return {name: copy_value(item) for name, item in value.items()}
    return [copy_value(item) for item in value] if type(value) is list else value


def prune_given_up(document: Document, previous: FieldSet, owned: FieldSet, schema: FieldSchema) -> Document:
    """Return the object without the fields that the previous apply set and that no manager owns now.

    previous: the fields of the manager's previous apply.
    owned: the fields that any manager owns now, including the fields of the manager's new configuration.
    """
    result = document
    for name, value in document.items():
        key = "f:" + name
        last = previous.get(key)
        if last is None:
            continue
        owned_below = owned.get(key)
        named = schema.fields[name] is not None
        # A member that the schema names stays as long as a manager owns a field in it.
        goes = (named or is_member(last)) and (owned_below is None or not (named or is_member(owned_below)))
        left = None if goes else _prune_value(value, last, owned_below, schema.member(name))
        if left is value:
            continue
        if result is document:
            result = document.copy()
        if left is None:
            del result[name]
        else:
            result[name] = left
    return result


def _prune_value(value: Any, last: FieldSet, node: FieldSet | None, schema: FieldSchema) -> Any:
    """Return the remaining part of a value, or the value itself if nothing changes.

    Return None if nothing remains and no manager owns the empty value.

    last: the fields of the previous apply in the value; {} if it set only the value as a whole.
    node: the fields that any manager owns in the value; None if there are none.
    """
    if not last or not value:
        return value
    owned = node or {}
    left: Any = value
    if type(value) is dict and schema.shape == "map":
        left = prune_given_up(value, last, owned, schema)
    elif type(value) is list and schema.element is not None:
        items = [_prune_item(item, schema.key_of(item), last, owned, schema.element) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            left = [item for item in items if item is not None]
    return left if left or (node is not None and is_member(node)) else None


def _prune_item(item: Any, key: str | None, previous: FieldSet, owned: FieldSet, element: FieldSchema) -> Any:
    last = previous.get(key) if key is not None else None
    if last is None or key is None:
        return item
    node = owned.get(key)
    if is_member(last) and (node is None or not is_member(node)):
        return None
    return _prune_value(item, last, node, element)
