"""The syntax tree of a checked expression, and its decoder.

`read` takes the `cel.expr.CheckedExpr` message (CEL specification, protobuf) that the CEL library serializes, and
returns an `Expression`. The decoder reads only the fields that evaluation needs. It does not validate the message,
because only the library produces it.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from muster.cluster.apiserver.cel.values import Duration, Timestamp, UInt
from muster.cluster.apiserver.protobuf import wireformat
from muster.cluster.apiserver.protobuf.wireformat import to_signed


class UnsupportedError(ValueError):
    """A valid expression that constructs a message type, which Muster does not implement."""


class Const(Struct, frozen=True):
    """A literal."""

    id: int
    value: Any


class Ident(Struct, frozen=True):
    """A reference to a variable or to a type."""

    id: int
    name: str


class Select(Struct, frozen=True):
    """A field access: `operand.field`, or `has(operand.field)` if `test_only` is set."""

    id: int
    operand: "Node"
    field: str
    test_only: bool


class Call(Struct, frozen=True):
    """A call of a function or an operator (`_+_`). The receiver of a method is the first argument."""

    id: int
    function: str
    args: tuple["Node", ...]


class ListLiteral(Struct, frozen=True):
    """A list literal: `[a, ?b]`.

    optional: the positions of the elements that are left out if they have no value.
    """

    id: int
    elements: tuple["Node", ...]
    optional: frozenset[int]


class MapLiteral(Struct, frozen=True):
    """A map literal: `{key: value, ?key: value}`.

    entries: key, value, and whether the map omits the entry if the value is missing.
    """

    id: int
    entries: tuple[tuple["Node", "Node", bool], ...]


class Comprehension(Struct, frozen=True):
    """A loop over a list or map that folds the elements into the accumulator. Macros expand to it."""

    id: int
    variable: str
    second_variable: str
    range: "Node"
    accumulator: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node: TypeAlias = Const | Ident | Select | Call | ListLiteral | MapLiteral | Comprehension


class Expression(Struct, frozen=True):
    """A parsed and checked expression.

    positions: the offset of each node in the text, by the node's id.
    """

    text: str
    root: Node
    positions: Mapping[int, int]


def list_children(node: Node) -> Iterator[Node]:
    """Yield the direct children of a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            yield from node.args
        case ListLiteral():
            yield from node.elements
        case MapLiteral():
            for key, value, _ in node.entries:
                yield key
                yield value
        case Comprehension():
            yield from (node.range, node.start, node.condition, node.step, node.result)


def is_mentioned(node: Node, name: str) -> bool:
    """Return whether a variable occurs in an expression."""
    return (isinstance(node, Ident) and node.name == name) or any(
        is_mentioned(child, name) for child in list_children(node)
    )


def read(text: str, serialized: bytes) -> Expression:
    """Decode the expression that the library checked and serialized (as a `google.protobuf.Any`).

    Raises `UnsupportedError` if the expression constructs a message.
    """
    checked = _read_message(_read_message(serialized)[2][-1])
    source = _read_message(checked[5][-1]) if 5 in checked else {}
    positions = [_read_message(entry) for entry in source.get(4, ())]
    return Expression(text, _read_node(checked[4][-1]), {_read_int(p, 1): _read_int(p, 2) for p in positions})


_Fields: TypeAlias = dict[int, list[Any]]


def _read_message(data: bytes) -> _Fields:
    values_by_number: _Fields = {}
    for number, _, value in wireformat.read_fields(data):
        values_by_number.setdefault(number, []).append(value)
    return values_by_number


def _read_int(fields: _Fields, number: int) -> int:
    return to_signed(fields[number][-1]) if number in fields else 0


def _read_text(fields: _Fields, number: int) -> str:
    return bytes(fields[number][-1]).decode() if number in fields else ""


def _read_node(data: bytes) -> Node:
    fields = _read_message(data)
    id_ = _read_int(fields, 2)
    kind = next(number for number in fields if number != 2)
    return _NODES[kind](id_, fields[kind][-1])


def _read_const(id_: int, data: bytes) -> Node:
    [(kind, [value])] = _read_message(data).items()
    return Const(id_, _CONSTANTS[kind](value))


def _read_nanos(data: bytes) -> int:
    fields = _read_message(data)
    return _read_int(fields, 1) * 10**9 + _read_int(fields, 2)


_CONSTANTS: dict[int, Callable[[Any], Any]] = {
    1: lambda _: None,
    2: bool,
    3: to_signed,
    4: UInt,
    5: lambda value: struct.unpack("<d", value)[0],
    6: lambda value: value.decode(),
    7: bytes,
    8: lambda value: Duration(_read_nanos(value)),
    9: lambda value: Timestamp(_read_nanos(value)),
}


def _read_ident(id_: int, data: bytes) -> Node:
    return Ident(id_, _read_text(_read_message(data), 1).removeprefix("."))


def _read_select(id_: int, data: bytes) -> Node:
    fields = _read_message(data)
    return Select(id_, _read_node(fields[1][-1]), _read_text(fields, 2), bool(_read_int(fields, 3)))


def _read_call(id_: int, data: bytes) -> Node:
    fields = _read_message(data)
    args = (*fields.get(1, ()), *fields.get(3, ()))
    return Call(id_, _read_text(fields, 2), tuple(_read_node(arg) for arg in args))


def _read_list(id_: int, data: bytes) -> Node:
    fields = _read_message(data)
    packed = b"".join(value if isinstance(value, bytes) else bytes([value]) for value in fields.get(2, ()))
    return ListLiteral(
        id_, tuple(_read_node(each) for each in fields.get(1, ())), frozenset(wireformat.read_numbers(packed))
    )


def _read_map(id_: int, data: bytes) -> Node:
    fields = _read_message(data)
    if 1 in fields:
        raise UnsupportedError(f"messages such as {_read_text(fields, 1)} cannot be made here")
    entries = [_read_message(entry) for entry in fields.get(2, ())]
    return MapLiteral(id_, tuple((_read_node(e[3][-1]), _read_node(e[4][-1]), bool(_read_int(e, 5))) for e in entries))


def _read_comprehension(id_: int, data: bytes) -> Node:
    fields = _read_message(data)
    range_, start, condition, step, result = (_read_node(fields[number][-1]) for number in (2, 4, 5, 6, 7))
    first, second, accumulator = (_read_text(fields, number) for number in (1, 8, 3))
    return Comprehension(id_, first, second, range_, accumulator, start, condition, step, result)


_NODES: dict[int, Callable[[int, bytes], Node]] = {
    3: _read_const,
    4: _read_ident,
    5: _read_select,
    6: _read_call,
    7: _read_list,
    8: _read_map,
    9: _read_comprehension,
}
