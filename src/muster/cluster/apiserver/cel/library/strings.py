"""The functions of strings: CEL's own, the string extension, and the regular expressions that Kubernetes adds."""

from collections.abc import Callable
from typing import Any

from muster.api.values.patterns import Pattern, PatternError, pattern_of
from muster.cluster.apiserver.cel.library.formatting import format_text
from muster.cluster.apiserver.cel.library.overloads import Functions
from muster.cluster.apiserver.cel.values import CelError, CostLimitError

MAX_RESULT = 10_000_000  # characters; longer results cost more than any expression may

_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
# The characters that Go's `strings.TrimSpace` trims: Unicode's White_Space.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
_QUOTED = {
    "\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\v": "\\v",
}  # fmt: skip


def _get_character(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _find_first_index(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _find_last_index(text: str, part: str, last: int | None = None) -> int:
    if last is None:
        return text.rfind(part)
    if not 0 <= last <= len(text):
        raise CelError(f"index out of range: {last}")
    return text.rfind(part, 0, last + len(part))


def _cut_substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old)
    count = count if limit < 0 else min(count, limit)
    if len(text) + count * len(new) > MAX_RESULT:
        raise CostLimitError
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        characters = list(text)
        return characters if limit < 0 or limit >= len(characters) else [*characters[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(parts: list[Any], separator: str = "") -> str:
    if not all(type(part) is str for part in parts):
        raise CelError("no such overload: join of a list of other than strings")
    if sum(map(len, parts)) + len(parts) * len(separator) > MAX_RESULT:
        raise CostLimitError
    return separator.join(parts)


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(character, character) for character in text) + '"'


def _compile_pattern(pattern: str) -> Pattern:
    try:
        return pattern_of(pattern)
    except PatternError as error:
        raise CelError(f"error parsing regexp: {error}") from None


def _wrap_search(search: Callable[..., Any]) -> Callable[..., Any]:
    def run(text: str, pattern: str, *args: int) -> Any:
        try:
            return search(_compile_pattern(pattern), text, *args)
        except UnicodeEncodeError:
            raise CelError("the text is not valid Unicode") from None

    return run


def _find(pattern: Pattern, text: str) -> str:
    match = next(pattern.finditer(text), None)
    return match.group() if match else ""


def _find_all(pattern: Pattern, text: str, limit: int = -1) -> list[str]:
    result: list[str] = []
    for match in pattern.finditer(text):
        if len(result) == limit:
            break
        result.append(match.group())
    return result


FUNCTIONS = Functions(
    table=(
        ("charAt", "string.(int) -> string", _get_character),
        ("indexOf", "string.(string) -> int", _find_first_index),
        ("indexOf", "string.(string, int) -> int", _find_first_index),
        ("lastIndexOf", "string.(string) -> int", _find_last_index),
        ("lastIndexOf", "string.(string, int) -> int", _find_last_index),
        ("lowerAscii", "string.() -> string", lambda text: text.translate(_LOWER)),
        ("upperAscii", "string.() -> string", lambda text: text.translate(_UPPER)),
        ("replace", "string.(string, string) -> string", _replace),
        ("replace", "string.(string, string, int) -> string", _replace),
        ("split", "string.(string) -> list<string>", _split),
        ("split", "string.(string, int) -> list<string>", _split),
        ("substring", "string.(int) -> string", _cut_substring),
        ("substring", "string.(int, int) -> string", _cut_substring),
        ("trim", "string.() -> string", lambda text: text.strip(_SPACE)),
        ("reverse", "string.() -> string", lambda text: text[::-1]),
        ("join", "list.() -> string", _join),
        ("join", "list.(string) -> string", _join),
        ("format", "string.(list) -> string", format_text),
        ("strings.quote", "(string) -> string", _quote),
        ("find", "string.(string) -> string", _wrap_search(_find)),
        ("findAll", "string.(string) -> list<string>", _wrap_search(_find_all)),
        ("findAll", "string.(string, int) -> list<string>", _wrap_search(_find_all)),
    ),
    standard=(
        ("contains", "string.(string) -> bool", lambda text, part: part in text),
        ("startsWith", "string.(string) -> bool", str.startswith),
        ("endsWith", "string.(string) -> bool", str.endswith),
        ("matches", "string.(string) -> bool", _wrap_search(lambda pattern, text: pattern.search(text) is not None)),
    ),
)
