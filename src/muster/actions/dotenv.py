r"""Parses .env files: `NAME=value` lines with quotes, comments and `export`. Pure.

The text in single quotes is taken literally. In double quotes a backslash escapes quotes, dollars and itself, and
`\n`, `\r` and `\t` are line ends and a tab. A value without quotes ends before a `#` that follows a space. The parser
expands no variables, and no quoted text spans several lines.
"""

import re

# Linux passes less than this to a program.
MOST_BYTES = 1 << 20

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[^\s=#'\"]+)\s*=(?P<rest>.*)", re.DOTALL)
_SINGLE = re.compile(r"\s*'(?P<text>[^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'\s*"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_BARE = re.compile(r"(?:^|(?<=\s))#.*")
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class DotenvError(ValueError):
    """A file that cannot be parsed as variables; the message says where and why."""


def variables(data: bytes) -> dict[str, str]:
    """Return the variables by name; the last line of a name wins. Raises `DotenvError`."""
    if len(data) > MOST_BYTES:
        raise DotenvError(f"the file has more than {MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = data.count(b"\n", 0, error.start) + 1
        raise DotenvError(f"line {where}: it is not UTF-8") from None
    values = {}
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removesuffix("\r")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if "\0" in line:
            raise DotenvError(f"line {number}: no variable can have a zero byte")
        parts = _LINE.fullmatch(line)
        if parts is None or not parts["name"].isprintable():
            raise DotenvError(
                f"line {number}: expected NAME=VALUE"
            )  # the message leaves out the line, which may be secret
        values[parts["name"]] = _parse_value(parts["rest"], number)
    return values


def _parse_value(rest: str, number: int) -> str:
    if single := _SINGLE.fullmatch(rest):
        return single["text"]
    if double := _DOUBLE.fullmatch(rest):
        return _ESCAPED.sub(lambda escape: _MEANINGS.get(escape[1], escape[0]), double["text"])
    if rest.lstrip()[:1] in ("'", '"'):
        raise DotenvError(f"line {number}: a quote that does not end the line, or ends in another one")
    return _BARE.sub("", rest).strip()
