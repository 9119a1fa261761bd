"""Checked expressions: what the CEL library makes of a text, read from its serialized form.

The form is `cel.expr.CheckedExpr` of the CEL specification in protobuf; only what evaluation needs is read. It comes
from the library alone, so it is trusted to be what it says.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from muster.cluster.apiserver.cel.values import Duration, Timestamp, UInt
from muster.cluster.apiserver.protobuf import wireformat
from muster.cluster.apiserver.protobuf.wireformat import signed


class UnsupportedError(ValueError):
    """The expression is sound, but makes something that does not exist here."""


class Const(Struct, frozen=True):
    """A literal."""

    id: int
    value: Any


class Ident(Struct, frozen=True):
    """A variable, or a type by its name."""

    id: int
    name: str


class Select(Struct, frozen=True):
    """`operand.field`, or `has(operand.field)`."""

    id: int
    operand: "Node"
    field: str
    test_only: bool


class Call(Struct, frozen=True):
    """A function or operator (`_+_`); the receiver, if it has one, is the first of the arguments."""

    id: int
    function: str
    args: tuple["Node", ...]


class ListLiteral(Struct, frozen=True):
    """`[a, ?b]`; `optional` are the positions of the elements that come only if they have a value."""

    id: int
    elements: tuple["Node", ...]
    optional: frozenset[int]


class MapLiteral(Struct, frozen=True):
    """`{key: value, ?key: value}`; the third of an entry says whether it comes only if it has a value."""

    id: int
    entries: tuple[tuple["Node", "Node", bool], ...]


class Comprehension(Struct, frozen=True):
    """What the macros become: a loop over a list or map that folds it into the accumulator."""

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
    """A text that was parsed and checked; `positions` are the offsets of its nodes in it."""

    text: str
    root: Node
    positions: Mapping[int, int]


def children(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
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


def mentions(node: Node, name: str) -> bool:
    """Whether a variable occurs in an expression."""
    return (isinstance(node, Ident) and node.name == name) or any(mentions(child, name) for child in children(node))


def read(text: str, serialized: bytes) -> Expression:
    """The expression that the library has checked and serialized (as a `google.protobuf.Any`).

    Raises `UnsupportedError`.
    """
    checked = _message(_message(serialized)[2][-1])
    source = _message(checked[5][-1]) if 5 in checked else {}
    positions = [_message(entry) for entry in source.get(4, ())]
    return Expression(text, _node(checked[4][-1]), {_int(p, 1): _int(p, 2) for p in positions})


_Fields: TypeAlias = dict[int, list[Any]]


def _message(data: bytes) -> _Fields:
    found: _Fields = {}
    for number, _, value in wireformat.fields(data):
        found.setdefault(number, []).append(value)
    return found


def _int(fields: _Fields, number: int) -> int:
    return signed(fields[number][-1]) if number in fields else 0


def _text(fields: _Fields, number: int) -> str:
    return bytes(fields[number][-1]).decode() if number in fields else ""


def _node(data: bytes) -> Node:
    fields = _message(data)
    id_ = _int(fields, 2)
    kind = next(number for number in fields if number != 2)
    return _NODES[kind](id_, fields[kind][-1])


def _const(id_: int, data: bytes) -> Node:
    [(kind, [value])] = _message(data).items()
    return Const(id_, _CONSTANTS[kind](value))


def _nanos(data: bytes) -> int:
    fields = _message(data)
    return _int(fields, 1) * 10**9 + _int(fields, 2)


_CONSTANTS: dict[int, Callable[[Any], Any]] = {
    1: lambda _: None,
    2: bool,
    3: signed,
    4: UInt,
    5: lambda value: struct.unpack("<d", value)[0],
    6: lambda value: value.decode(),
    7: bytes,
    8: lambda value: Duration(_nanos(value)),
    9: lambda value: Timestamp(_nanos(value)),
}


def _ident(id_: int, data: bytes) -> Node:
    return Ident(id_, _text(_message(data), 1).removeprefix("."))


def _select(id_: int, data: bytes) -> Node:
    fields = _message(data)
    return Select(id_, _node(fields[1][-1]), _text(fields, 2), bool(_int(fields, 3)))


def _call(id_: int, data: bytes) -> Node:
    fields = _message(data)
    args = (*fields.get(1, ()), *fields.get(3, ()))
    return Call(id_, _text(fields, 2), tuple(_node(arg) for arg in args))


def _list(id_: int, data: bytes) -> Node:
    fields = _message(data)
    packed = b"".join(value if isinstance(value, bytes) else bytes([value]) for value in fields.get(2, ()))
    return ListLiteral(id_, tuple(_node(each) for each in fields.get(1, ())), frozenset(wireformat.numbers(packed)))


def _map(id_: int, data: bytes) -> Node:
    fields = _message(data)
    if 1 in fields:
        raise UnsupportedError(f"messages such as {_text(fields, 1)} cannot be made here")
    entries = [_message(entry) for entry in fields.get(2, ())]
    return MapLiteral(id_, tuple((_node(e[3][-1]), _node(e[4][-1]), bool(_int(e, 5))) for e in entries))


def _comprehension(id_: int, data: bytes) -> Node:
    fields = _message(data)
    range_, start, condition, step, result = (_node(fields[number][-1]) for number in (2, 4, 5, 6, 7))
    first, second, accumulator = (_text(fields, number) for number in (1, 8, 3))
    return Comprehension(id_, first, second, range_, accumulator, start, condition, step, result)


_NODES: dict[int, Callable[[int, bytes], Node]] = {
    3: _const,
    4: _ident,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}
