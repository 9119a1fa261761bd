"""Compile checked expressions.

`compile_expression` takes a checked expression with the shapes of its variables, and returns a `Program`. The compiler
turns each node into a closure once; a run calls the outermost closure with a frame. `front` checks the types that the
text determines; this module also checks the types that only the shapes determine.

Cost follows upstream's idea. A node costs one unit, and each character or element that a function reads or creates
costs a tenth. The nodes outside of loops are known from the text, so a run pays for them at its start. Each iteration
of a loop pays for the nodes in the loop.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from muster.cluster.apiserver.cel import closures, operators
from muster.cluster.apiserver.cel.closures import Run
from muster.cluster.apiserver.cel.front import make_compile_error
from muster.cluster.apiserver.cel.library import OVERLOADS
from muster.cluster.apiserver.cel.operands import CONSTANTS, EXAMPLES, applies
from muster.cluster.apiserver.cel.shapes import ANYTHING, Shape
from muster.cluster.apiserver.cel.syntax import (
    Call,
    Comprehension,
    Const,
    Expression,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    list_children,
)
from muster.cluster.apiserver.cel.values import CALL_LIMIT, TYPES, CelError, CostLimitError

# Upstream's limit of the cost of all expressions that run for one object.
BUDGET: Final = 10_000_000


class CostBudget:
    """The remaining cost that all expressions for one object share."""

    __slots__ = ("left",)

    def __init__(self, left: int = BUDGET) -> None:
        self.left = left


class Program(Struct, frozen=True):
    """A compiled expression. A call with the values of its variables evaluates it.

    weight: the cost of a run without the iterations of its loops.
    slots: the number of variables in a frame.
    shape: the known shape of the value.
    turns: the maximum number of iterations of all loops in a run.
    """

    run: Run
    weight: int
    slots: int
    shape: Shape
    turns: int

    def __call__(self, *variables: Any, budget: CostBudget) -> Any:
        """Evaluate the expression and return its value.

        Raises `CelError` if the expression has no value for these variables, and `CostLimitError` if the cost exceeds
        the limit of an expression or the budget.
        """
        allowed = min(CALL_LIMIT, budget.left)
        frame = [allowed - self.weight, *variables, *(None,) * (self.slots - len(variables))]
        try:
            if frame[0] < 0:
                raise CostLimitError
            return self.run(frame)
        except RecursionError:
            raise CelError("the value is nested too deeply") from None
        finally:
            budget.left -= allowed - max(frame[0], 0)


def compile_expression(expression: Expression, variables: Mapping[str, Shape]) -> Program:
    """Compile an expression to a program that takes the variables in the order of the mapping.

    Raises `CompileError` if an operator or field does not fit the shapes.
    """
    compiler = _Compiler(expression)
    scope = {name: _Variable(slot, shape) for slot, (name, shape) in enumerate(variables.items(), start=1)}
    compiler.slots = len(scope)
    run, shape = compiler.compile(expression.root, scope)
    return Program(run, _weigh_node(expression.root), compiler.slots, shape, compiler.most_iterations)


class _Variable(NamedTuple):
    slot: int
    shape: Shape


class _Part(NamedTuple):
    """The closure of a compiled node, and the known shape of its value."""

    run: Run
    shape: Shape = ANYTHING


_Scope: TypeAlias = Mapping[str, _Variable]


def _weigh_node(node: Node) -> int:
    """Return the cost of one run of a node. The loop itself charges the nodes that it repeats."""
    if isinstance(node, Comprehension):
        return 1 + _weigh_node(node.range) + _weigh_node(node.start) + _weigh_node(node.result)
    return 1 + sum(_weigh_node(child) for child in list_children(node))


class _Compiler:
    """A compiler of the nodes of one expression. Every variable of a loop gets a slot of its own."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.slots = 0
        self.loops = 0  # how many loops surround the current node
        self.turns = 1  # the most iterations of the surrounding loops, multiplied
        self.most_iterations = 0  # of all loops compiled so far

    def compile(self, node: Node, scope: _Scope) -> _Part:
        match node:
            case Const():
                value = node.value
                return _Part(lambda _: value, CONSTANTS.get(type(value), ANYTHING))
            case Ident():
                return self._compile_identifier(node, scope)
            case Select():
                return self._compile_selection(node, scope)
            case Call():
                return self._compile_call(node, scope)
            case ListLiteral():
                return self._compile_list(node, scope)
            case MapLiteral():
                return self._compile_map(node, scope)
            case Comprehension():
                return self._compile_comprehension(node, scope)

    def _compile_identifier(self, node: Ident, scope: _Scope) -> _Part:
        if node.name not in scope:
            type_ = TYPES[node.name]
            return _Part(lambda _: type_)
        slot, shape = scope[node.name]
        return _Part(lambda frame: frame[slot], shape)

    def _compile_selection(self, node: Select, scope: _Scope) -> _Part:
        operand, shape = self.compile(node.operand, scope)
        name, member = self._find_field(node, shape, node.field)
        if node.test_only:
            return _Part(closures.make_presence_test(operand, name))
        if isinstance(node.operand, Ident) and node.operand.name in scope:
            run = closures.make_variable_selection(scope[node.operand.name].slot, name)
        else:
            run = closures.make_selection(operand, name)
        return _Part(closures.make_adapter(run, member.adapt), _find_member_shape(shape, member))

    def _find_field(self, node: Node, shape: Shape, field: str) -> tuple[str, Shape]:
        """Return the JSON name of a field, and the field's shape. Raises `CompileError` for an undeclared field."""
        if shape.element is not None:
            return field, shape.element
        # Upstream also accepts unescaped reserved words (`metadata.namespace`).
        name = shape.names.get(field, field)
        if name in shape.fields:
            return name, shape.fields[name]
        if shape.type in EXAMPLES:
            raise make_compile_error(self.expression, node, f"type '{shape.type}' does not support field selection")
        if not shape.open:
            raise make_compile_error(self.expression, node, f"undefined field '{field}'")
        return field, ANYTHING

    def _compile_call(self, node: Call, scope: _Scope) -> _Part:
        """Compile a call of a function or operator. Raises `CompileError` if no overload fits the arguments."""
        parts = [self.compile(arg, scope) for arg in node.args]
        runs = [part.run for part in parts]
        shapes = [part.shape for part in parts]
        if not applies(node.function, [shape.type for shape in shapes]):
            types = ", ".join(shape.type for shape in shapes)
            message = f"found no matching overload for '{node.function}' applied to '({types})'"
            raise make_compile_error(self.expression, node, message)
        match node.function, node.args:
            case "_[_]" | "_[?_]" | "_?._", (_, key):
                return self._compile_access(node, parts[0], key, runs[1])
            case "_?_:_", _:
                return _Part(closures.make_conditional(*runs), _find_common_shape(shapes[1], shapes[2]))
            case "_==_" | "_!=_", _:
                same = closures.make_equality(_choose_equality(*shapes))
                equal = node.function == "_==_"
                return _Part(closures.make_comparison(runs[0], runs[1], same, equal=equal, repeated=self.loops > 0))
            case "_+_", _:
                return _Part(closures.make_sized_binary(operators.add, *runs), _find_common_shape(*shapes))
            case name, _ if name in _SPECIAL:
                return _Part(_SPECIAL[name](*runs))
            case name, (_,) if name in operators.UNARY:
                return _Part(closures.make_unary(operators.UNARY[name], *runs))
            case name, (_, _) if name in operators.BINARY:
                return _Part(closures.make_binary(operators.BINARY[name], *runs))
            case name, _:
                return _Part(closures.make_function_call(name, OVERLOADS[name], runs))

    def _compile_access(self, node: Call, container: _Part, key: Node, key_run: Run) -> _Part:
        """Compile `container[key]`, `container[?key]` or `container.?key`."""
        if node.function == "_?._" and isinstance(key, Const):
            name, member = self._find_field(node, container.shape, key.value)
            run = closures.make_optional_selection(container.run, name)
        else:
            member = self._find_element_shape(container.shape, key)
            run = closures.make_binary(operators.BINARY[node.function], container.run, key_run)
        run = closures.make_adapter(run, member.adapt)
        if node.function == "_[_]":
            return _Part(run, _find_member_shape(container.shape, member))
        return _Part(run, _make_optional_shape(member))

    def _find_element_shape(self, shape: Shape, key: Node) -> Shape:
        if shape.is_object and isinstance(key, Const) and isinstance(key.value, str):
            return shape.fields.get(key.value, ANYTHING)
        return shape.element or ANYTHING

    def _compile_list(self, node: ListLiteral, scope: _Scope) -> _Part:
        parts = [self.compile(each, scope) for each in node.elements]
        element = parts[0].shape if parts else ANYTHING
        for part in parts[1:]:
            element = _find_common_shape(element, part.shape)
        # The closure of a field access has already adapted the element.
        shape = Shape(element=_make_plain_shape(element)) if parts else ANYTHING
        return _Part(closures.make_list([part.run for part in parts], node.optional), shape)

    def _compile_map(self, node: MapLiteral, scope: _Scope) -> _Part:
        entries = [
            (self.compile(key, scope).run, self.compile(value, scope).run, optional)
            for key, value, optional in node.entries
        ]
        return _Part(closures.make_map(entries))

    def _reserve_slot(self) -> int:
        self.slots += 1
        return self.slots

    def _compile_comprehension(self, node: Comprehension, scope: _Scope) -> _Part:
        """Compile the loop of a macro, and add its maximum number of iterations to the total of all loops."""
        start = self.compile(node.start, scope)
        if isinstance(node.range, ListLiteral) and not node.range.elements:
            # `cel.bind(name, value, result)` expands to a loop without iterations.
            slot = self._reserve_slot()
            result = self.compile(node.result, {**scope, node.accumulator: _Variable(slot, start.shape)})
            return _Part(closures.make_binding(slot, start.run, result.run), result.shape)
        items = self.compile(node.range, scope)
        element = items.shape.element or ANYTHING
        first, second, fold = self._reserve_slot(), self._reserve_slot(), self._reserve_slot()
        keyed = bool(node.second_variable)
        of_keys = keyed or items.shape.schema_type == "object"
        inner = {**scope, node.variable: _Variable(first, ANYTHING if of_keys else _make_plain_shape(element))}
        if keyed:
            inner[node.second_variable] = _Variable(second, _make_plain_shape(element))
        loop = closures.Loop(items.run, element.adapt, first, second if keyed else None, _weigh_node(node.step))
        turns = self.turns
        self.loops += 1
        self.turns *= max(items.shape.most, 1)
        self.most_iterations += self.turns
        if (quantified := _recognize_quantifier(node)) is not None:
            predicate, decided = quantified
            part = _Part(closures.make_quantifier(loop, self.compile(predicate, inner).run, decided=decided))
        else:
            inner[node.accumulator] = _Variable(fold, ANYTHING)
            part = self._compile_fold(node, loop, inner, start.run, fold)
        self.loops -= 1
        self.turns = turns
        return part

    def _compile_fold(self, node: Comprehension, loop: closures.Loop, scope: _Scope, start: Run, slot: int) -> _Part:
        condition = None if _holds_always(node.condition) else self.compile(node.condition, scope).run
        step, shape = self._compile_step(node.step, node.accumulator, scope, slot)
        result = self.compile(node.result, {**scope, node.accumulator: _Variable(slot, shape)})
        return _Part(closures.make_fold(loop, start, condition, step, result.run, slot), result.shape)

    def _compile_step(self, node: Node, accumulator: str, scope: _Scope, slot: int) -> _Part:
        """Compile the step of a loop.

        A step that appends to a list does so in place, because nothing else uses the list.

        accumulator: the name of the loop's accumulator.
        slot: the accumulator's index in the frame.
        """
        match node:
            case Call(function="_?_:_", args=(test, then, Ident(name=name))) if name == accumulator:
                run, shape = self._compile_step(then, accumulator, scope, slot)
                return _Part(
                    closures.make_conditional(self.compile(test, scope).run, run, lambda frame: frame[slot]), shape
                )
            case Call(function="_+_", args=(Ident(name=name), ListLiteral() as added)) if name == accumulator:
                run, shape = self.compile(added, scope)
                return _Part(closures.make_append_step(run, slot), shape)
        return self.compile(node, scope)


# Calls that need closures of their own: they absorb errors, charge cost or change the accumulator in place.
_SPECIAL: Mapping[str, Callable[..., Run]] = {
    "_&&_": partial(closures.make_junction, decided=False, name="_&&_"),
    "_||_": partial(closures.make_junction, decided=True, name="_||_"),
    "@not_strictly_false": closures.make_loop_condition,
    "@in": closures.make_membership_test,
    "cel.@mapInsert": closures.make_insert_step,
}


def _find_common_shape(a: Shape, b: Shape) -> Shape:
    """Return the shape of a value that has one of two shapes; `ANYTHING` if they differ.

    If one of them is `ANYTHING`, the value is assumed to have the other one.
    """
    if a is b or b is ANYTHING:
        return a
    return b if a is ANYTHING else (a if a == b else ANYTHING)


def _make_optional_shape(shape: Shape) -> Shape:
    """Return the shape of an optional, which keeps the fields of the value in it but not the value's type."""
    return replace(shape, type="optional", typed=False)


def _find_member_shape(container: Shape, member: Shape) -> Shape:
    """Return the shape of a member of a container. A member of an optional container is optional too."""
    return _make_optional_shape(member) if container.type == "optional" else member


def _choose_equality(left: Shape, right: Shape) -> Shape:
    """Return the shape by which to compare two values: the left shape if it decides whether order matters."""
    if left.unordered:
        return left
    return ANYTHING if left is ANYTHING or right is ANYTHING else _find_common_shape(left, right)


def _make_plain_shape(shape: Shape) -> Shape:
    """Return the shape of a value that was converted from JSON already."""
    return replace(shape, adapt=None) if shape.adapt else shape


def _recognize_quantifier(node: Comprehension) -> tuple[Node, bool] | None:
    """Return the predicate of an `all` or `exists` and the value that decides it; None for any other loop."""
    match node.step, node.result:
        case (Call(function="_&&_" | "_||_" as name, args=(Ident(name=folded), predicate)), Ident(name=result)) if (
            folded == result == node.accumulator
        ):
            return predicate, name == "_||_"
    return None


def _holds_always(condition: Node) -> bool:
    return isinstance(condition, Const) and condition.value is True
