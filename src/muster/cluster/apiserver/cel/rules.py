"""The validation rules of custom resources: `x-kubernetes-validations` (kubernetes KEP-2876).

`compile_rules` takes a structural schema and returns a validator, once for each schema. The server calls the validator
for every write whose document is otherwise valid by the schema. The schema checks themselves are in the package
`schema`. The semantics are upstream's:

- A rule that uses `oldSelf` applies to updates only.
- A rule that an unchanged value already broke does not fail the update ("ratcheting").
- The rules of one object share a cost budget.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct

from muster.api.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, FieldError
from muster.api.validation.server.structuralschema import RULES
from muster.cluster.apiserver.cel.closures import key_of
from muster.cluster.apiserver.cel.errors import CompileError
from muster.cluster.apiserver.cel.evaluate import CostBudget, Program, compile_expression
from muster.cluster.apiserver.cel.front import check
from muster.cluster.apiserver.cel.shapes import ANYTHING, Shape, shape_of
from muster.cluster.apiserver.cel.syntax import is_mentioned
from muster.cluster.apiserver.cel.values import NONE, CelError, CostLimitError, Optional, make_sentence
from muster.cluster.apiserver.schema.walk import Schema

_REASONS = {
    "FieldValueForbidden": FORBIDDEN,
    "FieldValueRequired": REQUIRED,
    "FieldValueDuplicate": DUPLICATE,
}
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]")
# The most loop iterations that a rule may need for one object whose lists all have their maximum length. Upstream
# applies the same number to the cost, and an iteration costs several units. So Muster accepts every rule that upstream
# accepts.
_MAX_TURNS = 10_000_000
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

# Takes the new value and the replaced value (None if there is none), and returns the errors.
Validator: TypeAlias = Callable[[Any, Any], list[FieldError]]


class RuleError(ValueError):
    """A schema with invalid rules. The paths of the errors begin at the schema: `properties[spec].x-kubernetes-...`."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


def compile_rules(schema: Schema) -> Validator | None:
    """Return the validator for the rules of a structural schema; None if the schema has no rules.

    Raises `RuleError` if at least one rule is invalid.
    """
    if not _has_rules(schema):
        return None
    errors: list[FieldError] = []
    node = _compile(schema, shape_of(schema, root=True), _Place((), correlated=True, count=1, errors=errors))
    if errors:
        raise RuleError(errors)
    if node is None:
        return None

    def validate(new: Any, old: Any) -> list[FieldError]:
        walk = _Walk([], CostBudget())
        with suppress(_StoppedError):  # the rule added the reason to the errors before it stopped the walk
            node(new, old, None, walk)
        return walk.errors

    return validate


class _StoppedError(Exception):
    """The signal that stops the validation at the cost limit: no further rule runs."""


class _Walk(Struct, frozen=True):
    errors: list[FieldError]
    budget: CostBudget


_Path: TypeAlias = "tuple[_Path, str] | None"  # a linked list whose steps are spelled as in messages: `.spec`, `[0]`
_Check: TypeAlias = Callable[[Any, Any, _Path, _Walk], None]


def _has_rules(schema: Schema) -> bool:
    inner = (schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values())
    return bool(schema.get(RULES)) or any(isinstance(each, Mapping) and _has_rules(each) for each in inner)


def _render(path: _Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    # Upstream's library prints `<nil>` for a path without steps.
    return "".join(reversed(steps)).removeprefix(".") or "<nil>"


class _Rule(Struct, frozen=True):
    """A compiled rule of a schema.

    text: the expression, for messages.
    uses_old: whether the rule uses `oldSelf`, so that it applies to updates only.
    optional_old: whether `oldSelf` is an optional, so that the rule also runs without an old value.
    field_path: the steps from the value to the field that the error names.
    """

    program: Program
    text: str
    shape: Shape
    uses_old: bool
    optional_old: bool
    message: str
    message_program: Program | None
    field_path: str
    error_type: str

    def run(self, new: Any, old: Any, path: _Path, walk: _Walk) -> None:
        """Add an error to the walk if the rule is not true of the value. Raises `_StoppedError` at the cost limit.

        An unchanged value may break a rule that does not use `oldSelf`.

        old: the replaced value. None if there is none, or if it cannot be correlated with the new value.
        """
        if self.uses_old and old is None and not self.optional_old:
            return
        try:
            variables = self._adapt_variables(new, old)
            if self.program(*variables, budget=walk.budget) is True:
                return
            error = self._make_error(path, variables, walk)
        except CelError as failure:
            error = FieldError(_render(path), INVALID, self.shape.schema_type, self._describe_failure(str(failure)))
        except CostLimitError as failure:
            walk.errors.append(self._make_cost_error(path, failure, walk))
            raise _StoppedError from None
        if self.uses_old or old is None or old != new:
            walk.errors.append(error)

    def _adapt_variables(self, new: Any, old: Any) -> tuple[Any, Any]:
        adapt = self.shape.adapt
        if adapt is not None:
            new, old = adapt(new), None if old is None else adapt(old)
        if self.optional_old:
            old = NONE if old is None else Optional(True, old)
        return new, old

    def _make_error(self, path: _Path, variables: tuple[Any, Any], walk: _Walk) -> FieldError:
        value = None if self.error_type in (FORBIDDEN, REQUIRED) else self.shape.schema_type
        where = _render((path, self.field_path)) if self.field_path else _render(path)
        return FieldError(where, self.error_type, value, self._make_message(variables, walk))

    def _make_message(self, variables: tuple[Any, Any], walk: _Walk) -> str:
        if self.message_program is not None:
            # If the message expression fails, the error falls back to the fixed message or the text of the rule.
            with suppress(CelError):
                if text := make_sentence(self.message_program(*variables, budget=walk.budget)):
                    return text
        return self.message or f"failed rule: {self.text}"

    def _describe_failure(self, failure: str) -> str:
        rule = self.message or self.text
        if failure.startswith("no such overload"):
            reason = "call arguments did not match a supported operator, function or macro signature"
            return f"'{failure}': {reason} for rule: {rule}"
        return f"{failure} evaluating rule: {rule}"

    def _make_cost_error(self, path: _Path, failure: CostLimitError, walk: _Walk) -> FieldError:
        if walk.budget.left <= 0:
            return FieldError(_render(path), INVALID, self.shape.schema_type, _OUT_OF_BUDGET)
        stop = "no further validation rules will be run due to call cost exceeds limit"
        detail = f"'{failure}': {stop} for rule: {self.message or self.text}"
        return FieldError(_render(path), INVALID, self.shape.schema_type, detail)


class _Place(Struct, frozen=True):
    """A position in the schema during compilation.

    where: the steps from the root of the schema, spelled as in messages.
    correlated: whether a new value here can be matched with the value that it replaces.
    count: the maximum number of values that an object may have here. Lists and maps without a limit count as one value.
    errors: the errors of the whole schema, shared by all places.
    """

    where: tuple[str, ...]
    correlated: bool
    count: int
    errors: list[FieldError]

    def below(self, step: str, *, correlated: bool = True, count: int = 1) -> "_Place":
        return _Place((*self.where, step), self.correlated and correlated, self.count * count, self.errors)

    def complain(self, field: str, type_: str, value: Any, detail: str) -> None:
        self.errors.append(FieldError(".".join((*self.where, field)), type_, value, detail))


def _compile(schema: Schema, shape: Shape, place: _Place) -> _Check | None:
    """Return the check of a value by the rules of its schema and of all nested schemas; None if there are no rules."""
    rules = tuple(_yield_rules(schema, shape, place))
    inner = _make_contents_check(schema, shape, place)
    if not rules and inner is None:
        return None

    def run(new: Any, old: Any, path: _Path, walk: _Walk) -> None:
        if new is None:
            return  # the schema around the value decides whether null is allowed
        for rule in rules:
            rule.run(new, old, path, walk)
        if inner is not None:
            inner(new, old, path, walk)

    return run


def _make_contents_check(schema: Schema, shape: Shape, place: _Place) -> _Check | None:
    if "items" in schema and shape.element is not None:
        below = place.below("items", correlated=bool(shape.keys), count=schema.get("maxItems", 1))
        check_item = _compile(schema["items"], shape.element, below)
        return check_item and (
            _make_keyed_check(check_item, shape.keys) if below.correlated else _make_items_check(check_item)
        )
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping) and shape.element is not None:
        below = place.below("additionalProperties", count=schema.get("maxProperties", 1))
        check_value = _compile(others, shape.element, below)
        return check_value and _make_values_check(check_value)
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    checks = []
    for name, member in properties.items():
        shape_of_member = shape.fields.get(name) or shape_of(member)
        check_member = _compile(member, shape_of_member, place.below(f"properties[{name}]"))
        if check_member is not None:
            checks.append((name, f".{name}", check_member))
    return _make_members_check(checks) if checks else None


def _make_members_check(checks: Sequence[tuple[str, str, _Check]]) -> _Check:
    def run(new: Any, old: Any, path: _Path, walk: _Walk) -> None:
        if not isinstance(new, dict):
            return
        before = old if isinstance(old, dict) else {}
        for name, step, check_member in checks:
            if name in new:
                check_member(new[name], before.get(name), (path, step), walk)

    return run


def _make_values_check(check_value: _Check) -> _Check:
    def run(new: Any, old: Any, path: _Path, walk: _Walk) -> None:
        if not isinstance(new, dict):
            return
        before = old if isinstance(old, dict) else {}
        for key, value in new.items():
            check_value(value, before.get(key), (path, f"[{key}]"), walk)

    return run


def _make_keyed_check(check_item: _Check, keys: Sequence[str]) -> _Check:
    def run(new: Any, old: Any, path: _Path, walk: _Walk) -> None:
        if not isinstance(new, list):
            return
        before = {key_of(item, keys): item for item in old} if isinstance(old, list) else {}
        for index, item in enumerate(new):
            check_item(item, before.get(key_of(item, keys)), (path, f"[{index}]"), walk)

    return run


def _make_items_check(check_item: _Check) -> _Check:
    """Return the check of a list whose items have no keys, so that no item can be matched with its old value.

    An unchanged list may break the rules of its items.
    """

    def run(new: Any, old: Any, path: _Path, walk: _Walk) -> None:
        if not isinstance(new, list):
            return
        known = len(walk.errors)
        for index, item in enumerate(new):
            check_item(item, None, (path, f"[{index}]"), walk)
        if len(walk.errors) > known and old == new:
            del walk.errors[known:]

    return run


def _yield_rules(schema: Schema, shape: Shape, place: _Place) -> Iterator[_Rule]:
    for index, text in enumerate(schema.get(RULES) or ()):
        here = place.below(f"{RULES}[{index}]")
        if not str(text.get("rule", "")).strip():
            continue  # the validation of the schema reports the empty rule
        try:
            rule = _make_rule(text, shape, correlated=place.correlated)
        except _UnsoundError as error:
            here.complain(error.field, INVALID, error.value, str(error))
            continue
        turns = rule.program.turns * place.count
        if turns > _MAX_TURNS:
            here.complain("rule", FORBIDDEN, None, _format_excess(turns))
        yield rule


def _format_excess(turns: int) -> str:
    excess = turns / _MAX_TURNS
    factor = "more than 100x" if excess > 100 else f"{excess:f}x" if excess < 1.5 else f"{excess:.1f}x"
    return (
        f"estimated rule cost exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


class _UnsoundError(ValueError):
    def __init__(self, field: str, value: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.value = value


def _make_rule(rule: Mapping[str, Any], shape: Shape, *, correlated: bool) -> _Rule:
    text = str(rule.get("rule", "")).strip()
    optional_old = bool(rule.get("optionalOldSelf"))
    old = Shape(type="optional") if optional_old else shape
    shapes = {"self": shape, "oldSelf": old}
    program, uses_old = _compile_program("rule", text, shapes, "bool")
    if uses_old and not correlated:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        raise _UnsoundError("rule", text, detail)
    message_text = str(rule.get("messageExpression", "")).strip()
    message_program = _compile_program("messageExpression", message_text, shapes, "string")[0] if message_text else None
    return _Rule(
        program=program,
        text=text,
        shape=shape,
        uses_old=uses_old,
        optional_old=optional_old,
        message=str(rule.get("message", "")).strip(),
        message_program=message_program,
        field_path=_convert_field_path(str(rule.get("fieldPath", "")), shape),
        error_type=_REASONS.get(str(rule.get("reason", "")), INVALID),
    )


def _compile_program(field: str, text: str, shapes: Mapping[str, Shape], result: str) -> tuple[Program, bool]:
    try:
        expression, type_ = check(text, {name: shape.type for name, shape in shapes.items()})
        program = compile_expression(expression, shapes)
    except CompileError as error:
        raise _UnsoundError(field, text, f"compilation failed: {error}") from None
    if type_ == "dyn":
        type_ = program.shape.type
    if type_ not in (result, "dyn"):
        what = "cel expression" if field == "rule" else field
        raise _UnsoundError(field, text, f"compilation failed: {what} must evaluate to a {result}")
    return program, is_mentioned(expression.root, "oldSelf")


def _convert_field_path(path: str, shape: Shape) -> str:
    """Convert a `fieldPath` (`.spec['my-field']`) to the spelling of messages.

    A step leads to a declared field, or into the values of a map or the items of a list. Raises `_UnsoundError` if the
    path does not lead to a field of the shape.
    """
    rendered, at = "", 0
    while at < len(path):
        step = _STEP.match(path, at)
        name = step and (step.group(1) or re.sub(r"\\(.)", r"\1", step.group(2) or ""))
        if not step or not name or not (name in shape.fields or shape.element is not None or shape is ANYTHING):
            raise _UnsoundError("fieldPath", path, "fieldPath must be a valid path: does not refer to a valid field")
        rendered += f".{name}" if name in shape.fields else f"[{name}]"
        shape, at = shape.member(name), step.end()
    return rendered
