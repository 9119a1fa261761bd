"""Variables in a file, as .env files have them: `NAME=value`, with quotes, comments and `export`. Pure.

A value in single quotes is what stands there. In double quotes a backslash escapes quotes, dollars and itself, and
makes line ends and tabs of n, r and t. Without quotes a value ends before a `#` that follows a space. No variables are
put in, and no quote spans lines.
"""

import re

# What a program can be given is less.
MOST_BYTES = 1 << 20

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[^\s=#'\"]+)\s*=(?P<rest>.*)", re.DOTALL)
_SINGLE = re.compile(r"\s*'(?P<text>[^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'\s*"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_BARE = re.compile(r"(?:^|(?<=\s))#.*")
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class DotenvError(ValueError):
    """A file that cannot be read as variables; the message says where and why."""


def variables(data: bytes) -> dict[str, str]:
    """By name, the last of a name counting. Raises `DotenvError`."""
    if len(data) > MOST_BYTES:
        raise DotenvError(f"it has more than {MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = data.count(b"\n", 0, error.start) + 1
        raise DotenvError(f"line {where}: it is not UTF-8") from None
    found = {}
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removesuffix("\r")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if "\0" in line:
            raise DotenvError(f"line {number}: no variable can have a zero byte")
        parts = _LINE.fullmatch(line)
        if parts is None or not parts["name"].isprintable():
            raise DotenvError(f"line {number}: expected NAME=VALUE")  # what stands there may be secret
        found[parts["name"]] = _value(parts["rest"], number)
    return found


def _value(rest: str, number: int) -> str:
    if single := _SINGLE.fullmatch(rest):
        return single["text"]
    if double := _DOUBLE.fullmatch(rest):
        return _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[0]), double["text"])
    if rest.lstrip()[:1] in ("'", '"'):
        raise DotenvError(f"line {number}: a quote that does not end the line, or ends in another one")
    return _BARE.sub("", rest).strip()
