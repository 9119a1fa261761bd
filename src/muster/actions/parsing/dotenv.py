r"""Parse .env files: `NAME=value` lines with quotes, comments and `export`. Pure.

Text in single quotes is taken literally. In double quotes a backslash escapes quotes, dollars and itself, and `\n`,
`\r` and `\t` are line ends and a tab. A quoted text may span several lines. A value without quotes ends before a `#`
that follows a space. The parser does not expand variables.
"""

import re
from collections.abc import Iterator

# Linux passes slightly less than this number of bytes to a program.
MOST_BYTES = 1 << 20

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[^\s=#'\"]+)\s*=(?P<rest>.*)", re.DOTALL)
_SINGLE = re.compile(r"\s*'(?P<text>[^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'\s*"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:#.*)?', re.DOTALL)
_BARE = re.compile(r"(?:^|(?<=\s))#.*")
_OPENING = re.compile(r"[^\S\n]*(?:export[^\S\n]+)?[^\s=#'\"]+[^\S\n]*=[^\S\n]*(?P<quote>['\"])")
_CLOSING = {"'": re.compile(r"[^']*'[^\n]*"), '"': re.compile(r'(?:[^"\\]|\\.)*"[^\n]*', re.DOTALL)}
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class DotenvError(ValueError):
    """A file that cannot be parsed as variables. The message contains the line and the reason."""


def parse_variables(data: bytes) -> dict[str, str]:
    """Return the variables of a `.env` file by name. If a name occurs repeatedly, its last line counts.

    Raises `DotenvError`.
    """
    if len(data) > MOST_BYTES:
        raise DotenvError(f"the file has more than {MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        where = data.count(b"\n", 0, error.start) + 1
        raise DotenvError(f"line {where}: it is not UTF-8") from None
    values = {}
    for number, line in _split_entries(text):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if "\0" in line:
            raise DotenvError(f"line {number}: no variable can have a zero byte")
        parts = _LINE.fullmatch(line)
        if parts is None or not parts["name"].isprintable():
            raise DotenvError(f"line {number}: expected NAME=VALUE")  # the message omits the line, which may be secret
        values[parts["name"]] = _parse_value(parts["rest"], number)
    return values


def _split_entries(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, from 1. A value whose quotes span several lines is joined to its first line."""
    position, number = 0, 1
    while position <= len(text):
        opening = _OPENING.match(text, position)
        closing = _CLOSING[opening["quote"]].match(text, opening.end()) if opening is not None else None
        end = closing.end() if closing is not None else text.find("\n", position)
        entry = text[position:] if end < 0 else text[position:end]
        yield number, entry
        position += len(entry) + 1
        number += entry.count("\n") + 1


def _parse_value(rest: str, number: int) -> str:
    if single := _SINGLE.fullmatch(rest):
        return single["text"]
    if double := _DOUBLE.fullmatch(rest):
        return _ESCAPED.sub(lambda escape: _MEANINGS.get(escape[1], escape[0]), double["text"])
    if rest.lstrip()[:1] in ("'", '"'):
        raise DotenvError(f"line {number}: a quote that is not closed, or is followed by more than a comment")
    return _BARE.sub("", rest).strip()
