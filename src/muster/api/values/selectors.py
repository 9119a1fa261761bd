"""The selectors of objects by their labels or by some of their fields.

A label selector is a text (`app in (a, b), !old`) or a `LabelSelector` in a manifest. A field selector is a text
(`spec.nodeName=n1,status.phase!=Failed`). The grammar and the error messages are the API server's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache

from msgspec import Struct

from muster.api.meta import LabelSelector
from muster.api.status import INVALID, FieldError
from muster.api.validation import names


class SelectorError(ValueError):
    """An invalid selector. The message is the API server's."""


class Operator(Enum):
    """The operator of a requirement."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_POSITIVE = (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS)
_NEGATIVE = (Operator.NOT_IN, Operator.NOT_EQUALS)


class Requirement(Struct, frozen=True):
    """One requirement on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet the requirement. A missing label meets `!=` and `notin`."""
        label = labels.get(self.key)
        if self.operator in _POSITIVE:
            return label in self.values
        if self.operator in _NEGATIVE:
            return label not in self.values
        if self.operator is Operator.EXISTS:
            return label is not None
        if self.operator is Operator.DOES_NOT_EXIST:
            return label is None
        number, limit = _parse_integer(label), _parse_integer(next(iter(self.values)))
        if number is None or limit is None:
            return False
        return number > limit if self.operator is Operator.GREATER_THAN else number < limit

    @property
    def only(self) -> str | None:
        """The only value that the label may have, for lookups in indexes; None if there may be several."""
        return next(iter(self.values)) if self.operator in _POSITIVE and len(self.values) == 1 else None

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in (Operator.IN, Operator.NOT_IN):
            return f"{self.key} {self.operator.value} ({values})"
        sign = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}.get(self.operator, self.operator.value)
        return f"{self.key}{sign}{values}"


class LabelMatcher(Struct, frozen=True):
    """A matcher of labels, which must meet all its requirements. Without requirements, it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet all the requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class _Nothing(LabelMatcher, frozen=True):
    """A matcher that matches nothing, for an absent selector in a manifest."""

    def matches(self, labels: Mapping[str, str]) -> bool:  # noqa: ARG002  (it is an override)
        return False


EVERYTHING = LabelMatcher()
NOTHING: LabelMatcher = _Nothing()

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def label_matcher(selector: LabelSelector | None) -> LabelMatcher:
    """Convert the selector of a manifest. An absent one matches nothing, and an empty one everything.

    Raises:
        SelectorError: the selector is invalid.
    """
    if selector is None:
        return NOTHING
    requirements = [_make_requirement(key, Operator.EQUALS, [value]) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(_make_requirement(expression.key, operator, list(expression.values)))
    return _make_matcher(requirements)


def labels_matcher(labels: Mapping[str, str]) -> LabelMatcher:
    """Return a matcher of objects with all these labels, such as the selector of a Service."""
    return _make_matcher([Requirement(key, Operator.EQUALS, frozenset((value,))) for key, value in labels.items()])


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelMatcher:
    """Parse a label selector.

    Raises:
        SelectorError: the text is invalid.
    """
    return _make_matcher(list(_Parser(text).requirements()))


def _make_matcher(requirements: list[Requirement]) -> LabelMatcher:
    return LabelMatcher(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _make_requirement(key: str, operator: Operator, values: list[str]) -> Requirement:
    errors = list(_find_requirement_errors(key, operator, values))
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise SelectorError(text)
    return Requirement(key, operator, frozenset(values))


def _find_requirement_errors(key: str, operator: Operator, values: list[str]) -> Iterator[str]:
    if messages := names.label_key(key):
        yield str(FieldError("key", INVALID, key, "; ".join(messages)))
    if operator in (Operator.IN, Operator.NOT_IN) and not values:
        yield str(FieldError("values", INVALID, values, "for 'in', 'notin' operators, values set can't be empty"))
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
        yield str(FieldError("values", INVALID, values, "values set must be empty for exists and does not exist"))
    for i, value in enumerate(values):
        if operator in (Operator.GREATER_THAN, Operator.LESS_THAN) and _parse_integer(value) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield str(FieldError(f"values[{i}]", INVALID, value, detail))
        if messages := names.label_value(value):
            yield str(FieldError(f"values[{i}][{key}]", INVALID, value, "; ".join(messages)))


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def _parse_integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


# The parser of the text form. A word is everything between blanks and symbols. `in` and `notin` may also be values.
_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^=!(),<> \t\r\n]+)|$)")
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_BINARY_NAMES = "in, notin, =, ==, !=, gt, lt"


class _Token(Struct, frozen=True):
    text: str  # "" at the end of the text
    is_word: bool = False


class _Parser:
    """A recursive descent parser of the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def requirements(self) -> Iterator[Requirement]:
        if not (self._peek.is_word or self._peek.text in ("", "!")):
            raise SelectorError(f"found '{self._peek.text}', expected: !, identifier, or 'end of string'")
        while self._peek.text:
            try:
                yield self._parse_requirement()
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._take_token()
            if token.text == ",":
                if not (self._peek.is_word or self._peek.text == "!"):
                    raise SelectorError(f"found '{self._peek.text}', expected: identifier after ','")
            elif token.text:
                raise SelectorError(f"found '{token.text}', expected: ',' or 'end of string'")

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._position]

    def _take_token(self) -> _Token:
        token = self._peek
        self._position += bool(token.text)  # the position never moves past the end
        return token

    def _parse_requirement(self) -> Requirement:
        absent = self._peek.text == "!"
        if absent:
            self._take_token()
        key = self._take_token()
        if not key.is_word:
            raise SelectorError(f"found '{key.text}', expected: identifier")
        if messages := names.label_key(key.text):
            raise SelectorError(str(FieldError("<nil>", INVALID, key.text, "; ".join(messages))))
        if absent:
            return _make_requirement(key.text, Operator.DOES_NOT_EXIST, [])
        if self._peek.text in ("", ","):
            return _make_requirement(key.text, Operator.EXISTS, [])
        sign = self._take_token()
        operator = _BINARY.get(sign.text)
        if operator is None:
            raise SelectorError(f"found '{sign.text}', expected: {_BINARY_NAMES}")
        values = self._set() if operator in (Operator.IN, Operator.NOT_IN) else [self._parse_value()]
        return _make_requirement(key.text, operator, sorted(set(values)))

    def _parse_value(self) -> str:
        if self._peek.text in ("", ","):
            return ""
        token = self._take_token()
        if not token.is_word:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return token.text

    def _set(self) -> list[str]:
        """Parse `(a, b)`. Nothing between two commas is the empty value."""
        opening = self._take_token()
        if opening.text != "(":
            raise SelectorError(f"found '{opening.text}' expected: '('")
        first = self._peek
        if not (first.is_word or first.text in (",", ")")):
            raise SelectorError(f"found '{first.text}', expected: ',', ')' or identifier")
        values = []
        while True:
            values.append(self._take_token().text if self._peek.is_word else "")
            token = self._take_token()
            if token.text == ")":
                return values
            if token.text != ",":
                expected = "',' or ')'" if values[-1] else "',', or identifier"
                raise SelectorError(f"found '{token.text}', expected: {expected}")


def _tokens(text: str) -> Iterator[_Token]:
    text = text.partition("\0")[0]
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        if match["word"]:
            yield _Token(match["word"], is_word=True)
        elif match["symbol"]:
            yield _Token(match["symbol"])
        else:
            break
    yield _Token("")


class FieldRequirement(Struct, frozen=True):
    """One requirement on one field."""

    key: str
    value: str
    equal: bool = True


class FieldMatcher(Struct, frozen=True):
    """A matcher of fields, which must meet all its requirements. Without requirements, it matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields of the requirements."""
        return tuple(requirement.key for requirement in self.requirements)

    def exact(self, key: str) -> str | None:
        """Return the only value that a field may have, for lookups in indexes; None if there may be several."""
        return next((r.value for r in self.requirements if r.key == key and r.equal), None)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether the fields meet all requirements. A missing field counts as empty."""
        return all((fields.get(r.key, "") == r.value) is r.equal for r in self.requirements)

    def checked(self, known: Callable[[str], bool]) -> "FieldMatcher":
        """Return the matcher if all its fields are known.

        Raises:
            SelectorError: a field is unknown.
        """
        for key in self.keys:
            if not known(key):
                raise SelectorError(f"field label not supported: {key}")
        return self

    def __bool__(self) -> bool:
        return bool(self.requirements)


# A term ends at a comma without a backslash. Its value can have any character after a backslash.
_TERM = re.compile(r"(?:\\.|[^,\\]|\\$)*", re.DOTALL)
_FIELD = re.compile(r"(?P<key>.*?)(?P<sign>!=|==|=)(?P<value>.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@lru_cache(maxsize=1024)
def parse_field_selector(text: str) -> FieldMatcher:
    """Parse a field selector.

    Raises:
        SelectorError: the text is invalid.
    """
    terms = []
    position = 0
    while position <= len(text):
        match = _TERM.match(text, position)
        assert match is not None  # the pattern matches the empty string too
        terms.append(match[0])
        position = match.end() + 1
    return FieldMatcher(tuple(_parse_field_requirement(text, term) for term in sorted(filter(None, terms))))


def _parse_field_requirement(text: str, term: str) -> FieldRequirement:
    match = _FIELD.fullmatch(term)
    if match is None:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
    return FieldRequirement(match["key"], _unescape_value(match["value"]), match["sign"] != "!=")


def _unescape_value(value: str) -> str:
    if "\\" not in value and "=" not in value:
        return value
    plain = _ESCAPED.sub("", value)
    for sequence in _ESCAPED.finditer(value):
        if sequence[1] not in "\\,=":
            raise SelectorError(f"invalid field selector: invalid escape sequence: {sequence[0]}")
    if plain.endswith("\\"):
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    if "=" in plain:
        raise SelectorError(f"invalid field selector: unescaped character in value: {ord('=')}")
    return _ESCAPED.sub(r"\1", value)
