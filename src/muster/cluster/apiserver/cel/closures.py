"""The closures to which `evaluate` compiles the nodes of an expression.

Each function takes the closures of the operands and returns the closure of the node. A closure takes a frame and
returns the value of the node. A frame is a list: the first item is the remaining cost, and the others are variables,
indexed by slot. `evaluate` decides which closure a node needs.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from muster.cluster.apiserver.cel import operators
from muster.cluster.apiserver.cel.library import Overload
from muster.cluster.apiserver.cel.shapes import Shape
from muster.cluster.apiserver.cel.values import (
    CelError,
    CostLimitError,
    Optional,
    equals,
    make_overload_error,
    measure_extent,
    type_name,
)

Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Any]

_SIZED = frozenset((str, bytes, list, dict))
_PER_UNIT = 10  # characters or elements that together cost one unit, as much as a node


def charge(frame: Frame, units: int) -> None:
    """Subtract the units from the remaining cost of the frame. Raises `CostLimitError` if it falls below 0."""
    frame[0] -= units
    if frame[0] < 0:
        raise CostLimitError


def make_selection(operand: Run, name: str) -> Run:
    """Return the closure of `operand.name`."""

    def run(frame: Frame) -> Any:
        value = operand(frame)
        try:
            return value[name]
        except (KeyError, TypeError):
            return operators.select(value, name)

    return run


def make_variable_selection(slot: int, name: str) -> Run:
    """Return the closure of `variable.name`, the most frequent node. It saves a call compared with `make_selection`.

    slot: the slot of the variable in the frame.
    """

    def run(frame: Frame) -> Any:
        value = frame[slot]
        try:
            return value[name]
        except (KeyError, TypeError):
            return operators.select(value, name)

    return run


def make_presence_test(operand: Run, name: str) -> Run:
    """Return the closure of `has(operand.name)`."""

    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return name in value
        if type(value) is Optional:
            return operators.optional_select(value, name).present
        raise CelError(f"no such overload: has({name}) on {type_name(value)}")

    return run


def make_optional_selection(operand: Run, name: str) -> Run:
    """Return the closure of `operand.?name`."""
    return lambda frame: operators.optional_select(operand(frame), name)


def make_adapter(operand: Run, adapt: Callable[[Any], Any] | None) -> Run:
    """Return the closure that converts the JSON value of the operand to a CEL value; the operand if `adapt` is None."""
    if adapt is None:
        return operand

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is Optional:
            return Optional(True, adapt(value.value)) if value.present else value
        return adapt(value)

    return run


def make_junction(left: Run, right: Run, *, decided: bool, name: str) -> Run:
    """Return the closure of `&&` (decided by false) or `||` (decided by true).

    The closure raises the error of one side only if the other side does not decide.
    """

    def run(frame: Frame) -> bool:
        try:
            first: object = left(frame)
        except CelError:
            other: object = right(frame)
            if other is decided:
                return decided
            raise
        if first is decided:
            return decided
        second = right(frame)
        if second is decided or (type(first) is bool and type(second) is bool):
            return bool(second)
        raise make_overload_error(name, first, second)

    return run


def make_conditional(test: Run, then: Run, otherwise: Run) -> Run:
    """Return the closure of `test ? then : otherwise`."""

    def run(frame: Frame) -> Any:
        value = test(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise make_overload_error("_?_:_", value)

    return run


def make_loop_condition(operand: Run) -> Run:
    """Return the closure of a loop's condition: whether the operand is not false. An error counts as true."""

    def run(frame: Frame) -> bool:
        try:
            return operand(frame) is not False
        except CelError:
            return True

    return run


def make_unary(operator: Callable[[Any], Any], operand: Run) -> Run:
    """Return the closure of an operator with one operand."""
    return lambda frame: operator(operand(frame))


def make_binary(operator: Callable[[Any, Any], Any], left: Run, right: Run) -> Run:
    """Return the closure of an operator with two operands."""
    return lambda frame: operator(left(frame), right(frame))


def make_sized_binary(operator: Callable[[Any, Any], Any], left: Run, right: Run) -> Run:
    """Return the closure of an operator whose cost and result grow with its operands."""

    def run(frame: Frame) -> Any:
        a, b = left(frame), right(frame)
        if type(a) in _SIZED and type(b) in _SIZED:
            charge(frame, (len(a) + len(b)) // _PER_UNIT)
        return operator(a, b)

    return run


def make_comparison(left: Run, right: Run, same: Callable[[Any, Any], bool], *, equal: bool, repeated: bool) -> Run:
    """Return the closure of `==` or `!=`.

    repeated: whether a loop contains the comparison. Then the comparison also costs by the extent of its left operand.
    """

    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        if type(a) is str and type(b) is str:
            return (a == b) is equal
        if type(a) in _SIZED:
            cost = measure_extent(a) // _PER_UNIT
            if repeated:
                charge(frame, cost)
        return same(a, b) is equal

    return run


def make_membership_test(left: Run, right: Run) -> Run:
    """Return the closure of `item in container`."""

    def run(frame: Frame) -> bool:
        item, container = left(frame), right(frame)
        if type(container) is list:
            if type(item) is str:
                charge(frame, len(container) // _PER_UNIT)
                return item in container
            charge(frame, len(container) * (measure_extent(item) if type(item) in _SIZED else 1) // _PER_UNIT)
        return operators.contains(item, container)

    return run


def make_function_call(name: str, overloads: Sequence[Overload], args: Sequence[Run]) -> Run:
    """Return the closure of a library function, which chooses the overload by the types of the arguments."""
    exact = {types: each.run for each in overloads if object not in (types := each.types)}
    loose = [each for each in overloads if object in each.types]

    def run(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        for value in values:
            if type(value) in _SIZED:
                charge(frame, len(value) // _PER_UNIT)
        types = tuple(map(type, values))
        implementation = exact.get(types) or next((each.run for each in loose if each.takes(types)), None)
        if implementation is None:
            raise make_overload_error(name, *values)
        result = implementation(*values)
        if type(result) in _SIZED:
            charge(frame, len(result) // _PER_UNIT)
        return result

    return run


def make_list(elements: Sequence[Run], optional: frozenset[int]) -> Run:
    """Return the closure of `[a, ?b]`."""
    if not optional:
        return lambda frame: [element(frame) for element in elements]

    def run(frame: Frame) -> list[Any]:
        result = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index not in optional:
                result.append(value)
            elif value.present:
                result.append(value.value)
        return result

    return run


def make_map(entries: Sequence[tuple[Run, Run, bool]]) -> Run:
    """Return the closure of `{key: value, ?key: value}`."""

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_of, value_of, optional in entries:
            key, value = key_of(frame), value_of(frame)
            if not optional:
                _insert(result, key, value)
            elif value.present:
                _insert(result, key, value.value)
        return result

    return run


def _insert(mapping: dict[Any, Any], key: Any, value: Any) -> None:
    if type(key) not in operators.KEYS:
        raise CelError(f"unsupported key type: {type_name(key)}")
    if key in mapping:
        raise CelError(f"insert failed: key {key} already exists")
    mapping[key] = value


def make_append_step(added: Run, slot: int) -> Run:
    """Return the loop step that appends to the accumulator list in place. Nothing else refers to this list."""

    def run(frame: Frame) -> list[Any]:
        result: list[Any] = frame[slot]
        result.extend(added(frame))
        return result

    return run


def make_insert_step(mapping: Run, key: Run, value: Run) -> Run:
    """Return the loop step that adds an entry to the accumulator map in place. Nothing else refers to this map."""

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = mapping(frame)
        _insert(result, key(frame), value(frame))
        return result

    return run


def make_binding(slot: int, value: Run, result: Run) -> Run:
    """Return the closure of `cel.bind(variable, value, result)`."""

    def run(frame: Frame) -> Any:
        frame[slot] = value(frame)
        return result(frame)

    return run


class Loop(Struct, frozen=True):
    """The iteration of a macro over a list or map.

    items: the closure that returns the list or map.
    adapt: converts an element to its CEL value; None if they are equal.
    first: the slot of the first variable: the element of a list, the key of a map, or with `second` the index or key.
    second: the slot of the second variable, the element; None if the macro has one variable.
    weight: the cost of an iteration.
    """

    items: Run
    adapt: Callable[[Any], Any] | None
    first: int
    second: int | None
    weight: int

    def list_turns(self, frame: Frame) -> list[Any]:
        """Return the values of the loop's variables, one item for each iteration.

        Raises `CelError` if the value is neither a list nor a map.
        """
        items = self.items(frame)
        if type(items) is list:
            elements = [self.adapt(item) for item in items] if self.adapt else items
            return elements if self.second is None else list(enumerate(elements))
        if type(items) is dict:
            if self.second is None:
                return list(items)
            return [(key, self.adapt(item) if self.adapt else item) for key, item in items.items()]
        raise CelError(f"no such overload: a {type_name(items)} cannot be the range of a comprehension")

    def enter(self, frame: Frame, turn: Any) -> None:
        """Start an iteration: charge its cost to the frame and set the slots. turn: the values of the variables.

        Raises `CostLimitError` if the cost limit is exceeded.
        """
        frame[0] -= self.weight
        if frame[0] < 0:
            raise CostLimitError
        if self.second is None:
            frame[self.first] = turn
        else:
            frame[self.first], frame[self.second] = turn


def make_quantifier(loop: Loop, predicate: Run, *, decided: bool) -> Run:
    """Return the closure of `all` (decided by a false) or `exists` (decided by a true).

    The closure raises the error of an iteration only if no other iteration decides.
    """

    def run(frame: Frame) -> bool:
        failure: CelError | None = None
        for turn in loop.list_turns(frame):
            loop.enter(frame, turn)
            try:
                holds: object = predicate(frame)
            except CelError as error:
                failure = error
                continue
            if holds is decided:
                return decided
            if type(holds) is not bool:
                failure = make_overload_error("_||_" if decided else "_&&_", holds)
        if failure is not None:
            raise failure
        return not decided

    return run


def make_fold(loop: Loop, start: Run, condition: Run | None, step: Run, result: Run, slot: int) -> Run:
    """Return the closure of a loop that folds its items into an accumulator while the condition holds.

    slot: the slot of the accumulator.
    """

    def run(frame: Frame) -> Any:
        turns = loop.list_turns(frame)
        frame[slot] = start(frame)
        for turn in turns:
            if condition is not None and condition(frame) is not True:
                break
            loop.enter(frame, turn)
            frame[slot] = step(frame)
        return result(frame)

    return run


def make_equality(shape: Shape) -> Callable[[Any, Any], bool]:
    """Return the equality of values of a shape. The equality ignores the order of sets and list-maps."""
    if shape.unordered:
        return lambda a, b: _is_same(a, b, shape)
    if shape.typed:
        # No place can be a bool or a number, so Python's equality is CEL's.
        return lambda a, b: bool(a == b)
    return equals


def _is_same(a: Any, b: Any, shape: Shape) -> bool:
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(_is_same(a[key], b[key], shape.member(key)) for key in a)
    if type(a) is not list or type(b) is not list or shape.element is None:
        return equals(a, b)
    if len(a) != len(b):
        return False
    element = shape.element
    if shape.keys:
        others = {key_of(item, shape.keys): item for item in b}
        return len(others) == len(b) and all(
            (key := key_of(item, shape.keys)) in others and _is_same(item, others[key], element) for item in a
        )
    if shape.is_set:
        return all(any(equals(x, y) for y in b) for x in a)
    return all(_is_same(x, y, element) for x, y in zip(a, b, strict=True))


def key_of(item: Any, keys: Sequence[str]) -> tuple[Any, ...]:
    """Return the key that identifies an item of a list-map.

    Objects from before the schema declared the list-map may have items of any type, so the key works for every value.
    """
    values = (item.get(key) for key in keys) if isinstance(item, dict) else (item,)
    return tuple(value if isinstance(value, Hashable) else repr(value) for value in values)
