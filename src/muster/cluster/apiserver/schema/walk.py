"""The walk that both dialects share: objects and lists, what is in them, and where that is.

A `Check` takes a value, its path and the findings so far, adds to the findings, and returns the value to keep: the
same object if it is fine, a changed copy if something in it had to go or to come. Paths are linked tuples, made for
next to nothing at every step and spelled out only for what is found.
"""

import copy
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from muster.api.schema import DEFINITION
from muster.api.status import REQUIRED, FieldError

Schema: TypeAlias = Mapping[str, Any]
Path: TypeAlias = "tuple[Path, str | int] | None"  # None is the document itself

MAX_UNKNOWN = 1000  # that are named, of a document that can have hundreds of thousands


class Findings:
    """What one walk has found; `sound` are the parts (by `id`) that it need not go into."""

    __slots__ = ("errors", "sound", "unknown")

    def __init__(self, sound: AbstractSet[int] = frozenset()) -> None:
        self.sound = sound
        self.errors: list[FieldError] = []
        self.unknown: list[str] = []

    def is_unknown(self, path: Path) -> None:
        """Note a field that the schema does not know; of very many, the first ones."""
        if len(self.unknown) < MAX_UNKNOWN:
            self.unknown.append(render(path))


Check: TypeAlias = Callable[[Any, Path, Findings], Any]
Constraint: TypeAlias = Callable[[Any, Path, Findings], None]


class Checked(NamedTuple):
    """A document that was checked.

    value: the document as it is to be kept.
    unknown: the paths of (so many of) the fields that the schema does not know and `value` no longer has.
    errors: rules that fields break (custom resources only).
    """

    value: Any
    unknown: tuple[str, ...]
    errors: tuple[FieldError, ...]


class Checker(Protocol):
    """A compiled schema."""

    def __call__(self, document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        """Check a document; its parts that are among the `sound` ones (`sound_parts`) have been checked before."""
        ...


# In place of a value: the member is to go.
ABSENT: Final = object()
# In place of what a null becomes: it is checked like any value, and so refused.
REFUSED: Final = object()


class Field(NamedTuple):
    """Where in the schema a value stands, for messages that name it so."""

    struct: str = ""  # the innermost named type around it
    names: tuple[str, ...] = ()  # the members on the way to it


class Compiled(NamedTuple):
    """A schema as a check.

    plain: values of exactly this type need no check at all.
    null: what a null becomes: `ABSENT`, `REFUSED`, or the value.
    """

    plain: type | None
    check: Check
    null: Any


def _nothing(_schema: Schema) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where the kinds of schemas differ.

    scalar: the check of anything but an object or a list, and the type that needs none.
    mismatch: what to do about a value of another type than the schema's.
    member_null: what a null becomes as a named member of an object.
    element_null: what a null becomes in a list or as a value of a map.
    keeps_unknown: whether an object keeps members that the schema does not name.
    omits_empty: whether a named member goes that is an empty list or map.
    default: makes what stands in for an absent member; None if it stays absent.
    required: members that must be there.
    constraints: what the value of an object or a list must keep to, beyond what is in it.
    """

    scalar: Callable[[Schema, Field], tuple[type | None, Check]]
    mismatch: Callable[[Schema, Field], Check]
    member_null: Callable[[Schema], Any]
    element_null: Callable[[Schema], Any]
    keeps_unknown: Callable[[Schema], bool]
    omits_empty: Callable[[Schema], bool] = lambda _: False
    default: Callable[[Schema], Callable[[], Any] | None] = lambda _: None
    required: Callable[[Schema], tuple[str, ...]] = _nothing
    constraints: Callable[[Schema], tuple[Constraint, ...]] = _nothing


def compile_check(schema: Schema, dialect: Dialect, field: Field, *, member: bool) -> Compiled:
    """The check of a value: a named `member` of an object, or else an element of a list or map."""
    null = dialect.member_null(schema) if member else dialect.element_null(schema)
    match type_of(schema):
        case "object":
            return Compiled(None, _object(schema, dialect, field), null)
        case "array":
            return Compiled(None, _list(schema, dialect, field), null)
        case _:
            plain, check = dialect.scalar(schema, field)
            return Compiled(plain, check, null)


def checker_of(check: Check) -> Checker:
    """A check from the outside: of whole documents, with all that it finds."""

    def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        findings = Findings(sound)
        value = check(document, None, findings)
        return Checked(value, tuple(findings.unknown), tuple(findings.errors))

    return checker


def sound_parts(document: Mapping[str, Any]) -> AbstractSet[int]:
    """The parts of a stored document that are the same where a change has left them: objects and lists at its top.

    They are told by `id`, so the document has to be there as long as this is used.
    """
    tops = (*document.values(), *document["metadata"].values())
    return {id(part) for part in tops if type(part) in (dict, list)}


def type_of(schema: Schema) -> str:
    """The schema's type; schemas within `anyOf` and its like leave it out."""
    if "type" in schema:
        return str(schema["type"])
    if "properties" in schema or "additionalProperties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else ""


def render(path: Path) -> str:
    """The path as messages have it: `spec.containers[0].name`."""
    parts: list[str] = []
    while path is not None:
        path, step = path
        parts.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(parts)).removeprefix(".")


def _object(schema: Schema, dialect: Dialect, field: Field) -> Check:
    struct = str(schema.get(DEFINITION, field.struct)).rpartition(".")[2]
    member_of = {
        name: _member(member, dialect, Field(struct, (*field.names, name)))
        for name, member in (schema.get("properties") or {}).items()
    }.get
    others = schema.get("additionalProperties")
    rest = compile_check(others, dialect, field, member=False) if isinstance(others, Mapping) else None
    keeps_unknown = dialect.keeps_unknown(schema)
    mismatch = dialect.mismatch(schema, field)
    complete = _completion(schema, dialect)

    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not dict:
            return mismatch(value, path, findings)
        result, sound = value, findings.sound
        for name, item in value.items():
            known = member_of(name) or rest
            if known is None:
                if keeps_unknown:
                    continue
                findings.is_unknown((path, name))
                kept = ABSENT
            else:
                plain, check_item, null = known
                if type(item) is plain or id(item) in sound:
                    continue
                if item is None and null is not REFUSED:
                    kept = _fresh(null)
                else:
                    kept = check_item(item, (path, name), findings)
                if kept is item:
                    continue
            if result is value:
                result = value.copy()
            if kept is ABSENT:
                del result[name]
            else:
                result[name] = kept
        return complete(result, path, findings)

    return check


def _member(schema: Schema, dialect: Dialect, field: Field) -> Compiled:
    compiled = compile_check(schema, dialect, field, member=True)
    if not dialect.omits_empty(schema):
        return compiled
    container: type = list if type_of(schema) == "array" else dict

    def check(value: Any, path: Path, findings: Findings) -> Any:
        return ABSENT if not value and type(value) is container else compiled.check(value, path, findings)

    return compiled._replace(check=check)


def _completion(schema: Schema, dialect: Dialect) -> Check:
    """What is left to do for an object after its members: defaults, required members, constraints."""
    made = {name: dialect.default(member) for name, member in (schema.get("properties") or {}).items()}
    defaults = [(name, make) for name, make in made.items() if make is not None]
    required = dialect.required(schema)
    constraints = dialect.constraints(schema)
    if not (defaults or required or constraints):
        return _anything

    def complete(value: Any, path: Path, findings: Findings) -> Any:
        result = value
        for name, make in defaults:
            if name not in result:
                result = {**result, name: make()}
        for name in required:
            if name not in result:
                findings.errors.append(FieldError(render((path, name)), REQUIRED))
        for constraint in constraints:
            constraint(result, path, findings)
        return result

    return complete


def _list(schema: Schema, dialect: Dialect, field: Field) -> Check:
    items = schema.get("items")
    constraints = dialect.constraints(schema)
    mismatch = dialect.mismatch(schema, field)
    plain, check_item, null = (
        compile_check(items, dialect, field, member=False) if items else Compiled(None, _anything, REFUSED)
    )

    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not list:
            return mismatch(value, path, findings)
        result = value
        for index, item in enumerate(value):
            if type(item) is plain:
                continue
            kept = _fresh(null) if item is None and null is not REFUSED else check_item(item, (path, index), findings)
            if kept is not item:
                if result is value:
                    result = value.copy()
                result[index] = kept
        for constraint in constraints:
            constraint(result, path, findings)
        return result

    return check


def _fresh(value: Any) -> Any:
    """The value as one document's own, which no other shares."""
    return copy.deepcopy(value) if isinstance(value, dict | list) else value


def _anything(value: Any, _path: Path, _findings: Findings) -> Any:
    return value
