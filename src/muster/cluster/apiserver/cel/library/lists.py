"""The functions of lists: the functions that Kubernetes adds, the sets extension, and the list extension."""

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

from muster.cluster.apiserver.cel.library.overloads import Functions
from muster.cluster.apiserver.cel.operators import add
from muster.cluster.apiserver.cel.values import (
    NONE,
    CelError,
    CostLimitError,
    Optional,
    equals,
    is_less,
    make_overload_error,
    measure_extent,
)

_MOST_PAIRS = 1_000_000  # the most comparisons that one call may make


def _is_sorted(items: list[Any]) -> bool:
    return not any(is_less(b, a) for a, b in pairwise(items))


def _sum(items: list[Any]) -> Any:
    if items and type(items[0]) in (str, list, bytes):
        raise make_overload_error("sum", items)
    return reduce(add, items) if items else 0


def _make_extreme(name: str, before: Callable[[Any, Any], bool]) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, item: item if before(item, best) else best, items)

    return run


def _find_first_index(items: list[Any], item: Any) -> int:
    _require_affordable(items, [item])
    return next((i for i, each in enumerate(items) if equals(each, item)), -1)


def _find_last_index(items: list[Any], item: Any) -> int:
    _require_affordable(items, [item])
    return next((i for i in range(len(items) - 1, -1, -1) if equals(items[i], item)), -1)


def _require_affordable(a: list[Any], b: list[Any]) -> None:
    if _count_values(a) * len(b) > _MOST_PAIRS or len(a) * _count_values(b) > _MOST_PAIRS:
        raise CostLimitError


def _count_values(items: list[Any]) -> int:
    """Return how many values a comparison of the items reads."""
    return sum(measure_extent(item) if type(item) in (list, dict) else 1 for item in items)


def _contains(items: list[Any], others: list[Any]) -> bool:
    _require_affordable(items, others)
    return all(any(equals(item, other) for item in items) for other in others)


def _intersects(items: list[Any], others: list[Any]) -> bool:
    _require_affordable(items, others)
    return any(any(equals(item, other) for item in items) for other in others)


def _slice_list(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    measure_extent(items)  # raises if nested lists repeat so often that flattening would take too long
    return _flatten_list(items, depth)


def _flatten_list(items: list[Any], depth: int) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    result: list[Any] = []
    for item in items:
        if type(item) is not list:
            result.append(item)
        else:
            result.extend(_flatten_list(item, depth - 1) if depth > 1 else item if depth else [item])
    return result


def _drop_duplicates(items: list[Any]) -> list[Any]:
    _require_affordable(items, items)
    result: list[Any] = []
    for item in items:
        if not any(equals(item, each) for each in result):
            result.append(item)
    return result


def _sort(items: list[Any]) -> list[Any]:
    for a, b in pairwise(items):
        is_less(a, b)  # raises for items without an order
    return sorted(items)


def _make_end_getter(place: int) -> Callable[[list[Any]], Optional]:
    return lambda items: Optional(True, items[place]) if items else NONE


FUNCTIONS = Functions(
    table=(
        ("isSorted", "list.() -> bool", _is_sorted),
        ("sum", "list.() -> dyn", _sum),
        ("min", "list.() -> dyn", _make_extreme("min", is_less)),
        ("max", "list.() -> dyn", _make_extreme("max", lambda a, b: is_less(b, a))),
        ("indexOf", "list.(dyn) -> int", _find_first_index),
        ("lastIndexOf", "list.(dyn) -> int", _find_last_index),
        ("sets.contains", "(list, list) -> bool", _contains),
        ("sets.intersects", "(list, list) -> bool", _intersects),
        ("sets.equivalent", "(list, list) -> bool", lambda a, b: _contains(a, b) and _contains(b, a)),
        ("slice", "list.(int, int) -> list", _slice_list),
        ("flatten", "list.() -> list", _flatten),
        ("flatten", "list.(int) -> list", _flatten),
        ("distinct", "list.() -> list", _drop_duplicates),
        ("reverse", "list.() -> list", lambda items: items[::-1]),
        ("sort", "list.() -> list", _sort),
    ),
    standard=(
        ("first", "list.() -> optional", _make_end_getter(0)),
        ("last", "list.() -> optional", _make_end_getter(-1)),
    ),
)
