"""Walk through objects and lists, for both dialects.

`compile_check` takes a schema and a dialect, and returns a `Check`. A `Check` takes a value, its path and the findings
so far. It adds to the findings and returns the value to store: the same object if nothing changes, else a copy. The
dialects handle scalars, nulls, defaults and constraints. Paths are linked tuples, because a step then costs almost
nothing; only a finding renders its path.
"""

import copy
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from muster.api.schema import DEFINITION
from muster.api.status import REQUIRED, FieldError
from muster.cluster.apiserver.schema.members import LazyMembers

Schema: TypeAlias = Mapping[str, Any]
Path: TypeAlias = "tuple[Path, str | int] | None"  # None is the document itself

MAX_UNKNOWN = 1000  # unknown fields that a walk names; a document can have hundreds of thousands


class Findings:
    """The errors and undeclared fields that one check of a document finds.

    sound: the `id`s of the parts that the check skips, because an earlier check accepted them.
    """

    __slots__ = ("errors", "sound", "unknown")

    def __init__(self, sound: AbstractSet[int] = frozenset()) -> None:
        self.sound = sound
        self.errors: list[FieldError] = []
        self.unknown: list[str] = []

    def add_unknown(self, path: Path) -> None:
        """Record a field that the schema does not declare, unless `MAX_UNKNOWN` are recorded already."""
        if len(self.unknown) < MAX_UNKNOWN:
            self.unknown.append(render(path))


Check: TypeAlias = Callable[[Any, Path, Findings], Any]
Constraint: TypeAlias = Callable[[Any, Path, Findings], None]


class Checked(NamedTuple):
    """The result of a check.

    value: the document to store.
    unknown: the paths of the undeclared fields that the check removed, at most `MAX_UNKNOWN`.
    errors: the errors of the fields (custom resources only).
    """

    value: Any
    unknown: tuple[str, ...]
    errors: tuple[FieldError, ...]


class Checker(Protocol):
    """A compiled schema, which checks whole documents."""

    def __call__(self, document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        """Check a document; return the document to store, with the errors and unknown fields.

        sound: the parts that an earlier check accepted (`sound_parts`), so that this check skips them.
        """
        ...


# A check returns this to remove the member.
ABSENT: Final = object()
# The replacement of a null that the check treats like any other value, and so refuses.
REFUSED: Final = object()


class ValuePlace(NamedTuple):
    """The place of a value in the schema, for messages that name it.

    struct: the innermost named type around the value.
    names: the members on the way to the value.
    """

    struct: str = ""
    names: tuple[str, ...] = ()


class Compiled(NamedTuple):
    """The compiled check of a value.

    plain: the type whose values need no check; None if all values need it.
    null: the replacement of a null: `ABSENT`, `REFUSED`, or a value.
    """

    plain: type | None
    check: Check
    null: Any


def _yield_no_constraints(_schema: Schema) -> tuple[()]:
    return ()


class SchemaDialect(Struct, frozen=True):
    """The rules in which the kinds of schemas differ. Each takes a schema.

    scalar: returns the type that needs no check, and the check of a value that is neither object nor list.
    mismatch: returns the check that handles a value of a wrong type.
    member_null: returns the replacement of a null that is a named member of an object.
    element_null: returns the replacement of a null in a list or in a map.
    keeps_unknown: returns whether an object keeps undeclared members.
    omits_empty: returns whether a named member is removed if it is an empty list or map.
    default: returns a function that makes the value for an absent member, or None if the member stays absent.
    required: returns the names of the required members.
    constraints: returns the checks of an object or list beyond the checks of its contents.
    """

    scalar: Callable[[Schema, ValuePlace], tuple[type | None, Check]]
    mismatch: Callable[[Schema, ValuePlace], Check]
    member_null: Callable[[Schema], Any]
    element_null: Callable[[Schema], Any]
    keeps_unknown: Callable[[Schema], bool]
    omits_empty: Callable[[Schema], bool] = lambda _: False
    default: Callable[[Schema], Callable[[], Any] | None] = lambda _: None
    required: Callable[[Schema], tuple[str, ...]] = _yield_no_constraints
    constraints: Callable[[Schema], tuple[Constraint, ...]] = _yield_no_constraints


def compile_check(schema: Schema, dialect: SchemaDialect, field: ValuePlace, *, member: bool) -> Compiled:
    """Return the compiled check of a value.

    member: whether the value is a named member of an object, and not an element of a list or map.
    """
    null = dialect.member_null(schema) if member else dialect.element_null(schema)
    omits_empty = member and dialect.omits_empty(schema)
    match type_of(schema):
        case "object":
            return Compiled(None, _make_object_check(schema, dialect, field, omits_empty=omits_empty), null)
        case "array":
            return Compiled(None, _make_list_check(schema, dialect, field, omits_empty=omits_empty), null)
        case _:
            plain, check = dialect.scalar(schema, field)
            return Compiled(plain, check, null)


def checker_of(check: Check) -> Checker:
    """Return a checker of whole documents, made from a check of values.

    The checker returns the document to store, with all errors and unknown fields.
    """

    def checker(document: Any, sound: AbstractSet[int] = frozenset(), /) -> Checked:
        findings = Findings(sound)
        value = check(document, None, findings)
        return Checked(value, tuple(findings.unknown), tuple(findings.errors))

    return checker


def sound_parts(document: Mapping[str, Any]) -> AbstractSet[int]:
    """Return the `id`s of the objects and lists at the top of a stored document, of its metadata and of its status.

    If a changed document shares such a part, the part needs no new check. The caller must keep the stored document
    alive while it uses the result.
    """
    status = document.get("status")
    members = status.values() if type(status) is dict else ()
    tops = (*document.values(), *document["metadata"].values(), *members)
    return {id(part) for part in tops if type(part) in (dict, list)}


def type_of(schema: Schema) -> str:
    """Return the type of a schema. If the schema omits it, as inside `anyOf`, its keywords decide; "" without them."""
    if "type" in schema:
        return str(schema["type"])
    if "properties" in schema or "additionalProperties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else ""


def render(path: Path) -> str:
    """Return the path in the spelling of messages: `spec.containers[0].name`."""
    parts: list[str] = []
    while path is not None:
        path, step = path
        parts.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(parts)).removeprefix(".")


def _make_members(schema: Schema, dialect: SchemaDialect, field: ValuePlace) -> LazyMembers[Compiled]:
    """Return the checks of an object's members."""
    schemas, others = schema.get("properties") or {}, schema.get("additionalProperties")
    struct = str(schema.get(DEFINITION, field.struct)).rpartition(".")[2]

    def compile_member(name: str) -> Compiled:
        return compile_check(schemas[name], dialect, ValuePlace(struct, (*field.names, name)), member=True)

    rest = compile_check(others, dialect, field, member=False) if isinstance(others, Mapping) else None
    return LazyMembers(schemas, compile_member, rest)


def _make_object_check(schema: Schema, dialect: SchemaDialect, field: ValuePlace, *, omits_empty: bool) -> Check:
    """Return the check of an object: of each member by its own schema, and then of the object as a whole.

    omits_empty: whether an empty object counts as absent.
    """
    members = _make_members(schema, dialect, field)
    keeps_unknown = dialect.keeps_unknown(schema)
    mismatch = dialect.mismatch(schema, field)
    complete = _make_completion(schema, dialect)

    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not dict:
            return mismatch(value, path, findings)
        if omits_empty and not value:
            return ABSENT
        result, sound = value, findings.sound
        for name, item in value.items():
            known = members[name]
            if known is None:
                if keeps_unknown:
                    continue
                findings.add_unknown((path, name))
                checked = ABSENT
            else:
                plain, check_item, null = known
                if type(item) is plain or id(item) in sound:
                    continue
                if item is None and null is not REFUSED:
                    checked = _copy_if_mutable(null)
                else:
                    checked = check_item(item, (path, name), findings)
                if checked is item:
                    continue
            if result is value:
                result = value.copy()
            if checked is ABSENT:
                del result[name]
            else:
                result[name] = checked
        return complete(result, path, findings)

    return check


def _make_completion(schema: Schema, dialect: SchemaDialect) -> Check:
    """Return the check that completes an object after its members: defaults, required members, constraints."""
    made = {name: dialect.default(member) for name, member in (schema.get("properties") or {}).items()}
    defaults = [(name, make) for name, make in made.items() if make is not None]
    required = dialect.required(schema)
    constraints = dialect.constraints(schema)
    if not (defaults or required or constraints):
        return _accept_anything

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


def _make_list_check(schema: Schema, dialect: SchemaDialect, field: ValuePlace, *, omits_empty: bool) -> Check:
    """Return the check of a list: of each item, and then of the list as a whole.

    omits_empty: whether an empty list counts as absent.
    """
    items = schema.get("items")
    constraints = dialect.constraints(schema)
    mismatch = dialect.mismatch(schema, field)
    plain, check_item, null = (
        compile_check(items, dialect, field, member=False) if items else Compiled(None, _accept_anything, REFUSED)
    )

    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not list:
            return mismatch(value, path, findings)
        if omits_empty and not value:
            return ABSENT
        result = value
        for index, item in enumerate(value):
            if type(item) is plain:
                continue
            if item is None and null is not REFUSED:
                checked = _copy_if_mutable(null)
            else:
                checked = check_item(item, (path, index), findings)
            if checked is not item:
                if result is value:
                    result = value.copy()
                result[index] = checked
        for constraint in constraints:
            constraint(result, path, findings)
        return result

    return check


def _copy_if_mutable(value: Any) -> Any:
    """Return a copy of the value if it is an object or a list, so that no two documents share it."""
    return copy.deepcopy(value) if isinstance(value, dict | list) else value


def _accept_anything(value: Any, _path: Path, _findings: Findings) -> Any:
    return value
