"""How a configuration is merged into an object, and how what its manager no longer wants leaves it.

Neither changes its operands; the result shares with the object what stays as it was.
"""

from collections.abc import Mapping
from typing import Any

from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet, is_member


def merge(live: Document, config: Document, schema: FieldSchema) -> Document:
    """The object with all that the configuration says."""
    result = live.copy()
    for name, value in config.items():
        result[name] = _merged(live[name], value, schema.member(name)) if name in live else fresh(value)
    return result


def _merged(live: Any, config: Any, schema: FieldSchema) -> Any:
    if schema.shape == "map":
        if type(live) is dict and type(config) is dict and (live or config):
            return merge(live, config, schema)
        # A null is no wish to be rid of what is there: only ownership, given up, takes it away.
        return live if config is None and type(live) is dict and live else fresh(config)
    if schema.element is not None and type(live) is list and live:
        if config is None:
            return live
        olds, news = schema.items_of(live), schema.items_of(config)
        if olds is not None and news is not None:
            return _merged_items(live, olds, news, schema, schema.element)
    return fresh(config)


def _merged_items(
    live: list[Any], olds: Mapping[str, Any], news: Mapping[str, Any], schema: FieldSchema, element: FieldSchema
) -> list[Any]:
    """The items of both, in the order of the configuration; those that only the object has stay where they were
    among the others.
    """
    shared = [key for key in news if key in olds]
    turn = 0  # of `shared`
    place = 0  # in the object's list
    result = []
    keys = list(olds) if len(olds) == len(live) else [schema.key_of(item) for item in live]
    for key, value in news.items():
        following = shared[turn] if turn < len(shared) else None
        while place < len(live) and keys[place] != following:
            if keys[place] not in news:
                result.append(live[place])
            place += 1
        result.append(fresh(value) if key not in olds else _merged_item(olds[key], value, element))
        if key == following:
            turn += 1
    result += [item for item, key in zip(live[place:], keys[place:], strict=True) if key not in news]
    return result


def _merged_item(live: Any, config: Any, element: FieldSchema) -> Any:
    # Items that were there more than once (a tuple of them) become the one that is applied.
    return fresh(config) if type(live) is tuple else _merged(live, config, element)


def fresh(value: Any) -> Any:
    """A copy of a value of the configuration: what becomes of the object must not become of that."""
    if type(value) is dict:
        return {name: fresh(item) for name, item in value.items()}
    return [fresh(item) for item in value] if type(value) is list else value


def pruned(document: Document, given_up: FieldSet, owned: FieldSet, schema: FieldSchema) -> Document:
    """The object without what was given up and has no owner.

    given_up: what the manager applied the last time.
    owned: what any manager owns now, the manager's new configuration included.
    """
    result = document
    for name, value in document.items():
        key = "f:" + name
        last = given_up.get(key)
        if last is None:
            continue
        kept = owned.get(key)
        named = name in schema.fields
        # A member that the schema names belongs to the managers that own something in it.
        goes = (named or is_member(last)) and (kept is None or not (named or is_member(kept)))
        left = None if goes else _pruned_value(value, last, kept, schema.member(name))
        if left is value:
            continue
        if result is document:
            result = document.copy()
        if left is None:
            del result[name]
        else:
            result[name] = left
    return result


def _pruned_value(value: Any, last: FieldSet, kept: FieldSet | None, schema: FieldSchema) -> Any:
    """What is left of a value, the same object if it is all; None if nothing is, and no manager owns it empty."""
    if not last or not value:
        return value
    owned = kept or {}
    left: Any = value
    if type(value) is dict and schema.shape == "map":
        left = pruned(value, last, owned, schema)
    elif type(value) is list and schema.element is not None:
        items = [_pruned_item(item, schema.key_of(item), last, owned, schema.element) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            left = [item for item in items if item is not None]
    return left if left or (kept is not None and is_member(kept)) else None


def _pruned_item(item: Any, key: str | None, given_up: FieldSet, owned: FieldSet, element: FieldSchema) -> Any:
    last = given_up.get(key) if key is not None else None
    if last is None or key is None:
        return item
    kept = owned.get(key)
    if is_member(last) and (kept is None or not is_member(kept)):
        return None
    return _pruned_value(item, last, kept, element)
