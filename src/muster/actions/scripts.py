"""Job scripts: their text is the command, and lines such as `#MUSTER --workers 4` are options of `muster run`. Pure.

The text itself goes into the job, as sbatch spools it: what becomes of the file later makes no difference to it.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from muster.api.values.shells import SHELLS

# Of one argument, in bytes: Linux gives no program a longer one.
MOST_BYTES = 128 * 1024 - 1

_MARK = "#MUSTER"
# How interpreters take a text in place of a file; to shells its name can be told as well.
_BY_E = frozenset({"perl", "ruby", "node", "lua", "julia"})
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")


class ScriptError(Exception):
    """A script that cannot be a job; the message says which, where and why."""


class Directive(Struct, frozen=True):
    """The options of one line."""

    number: int
    words: tuple[str, ...]


class Script(Struct, frozen=True):
    """One that was read. by_input: it came by the standard input, and not out of a file of that name."""

    name: str
    text: str
    by_input: bool = False


def read(name: str, data: bytes, *, by_input: bool = False) -> Script:
    """Raises `ScriptError`."""
    if len(data) > MOST_BYTES:
        raise ScriptError(
            f"{name} has more than {MOST_BYTES} bytes, the most that a job can carry; let it call the rest"
        )
    if b"\0" in data:
        raise ScriptError(f"{name} is no script: it has zero bytes")
    try:
        return Script(name, data.decode("utf-8-sig").replace("\r\n", "\n"), by_input)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScriptError(f"{name}, line {line}: it is not UTF-8, and a job can only carry text") from None


def has_directives(data: bytes) -> bool:
    """Whether a file that begins so has lines for us."""
    return data.startswith(b"#") and any(_words(line) is not None for line in _head(data.decode(errors="replace")))


def directives(script: Script) -> Iterator[Directive]:
    """The lines before the first that is neither empty nor a comment, as sbatch reads them. Raises `ScriptError`."""
    for number, line in enumerate(_head(script.text), 1):
        text = _words(line)
        if text is None:
            continue
        try:
            words = shlex.split(text, comments=True)
        except ValueError as error:
            raise ScriptError(f"{script.name}, line {number}: {str(error).lower()}") from None
        yield Directive(number, tuple(words))


def command(script: Script, arguments: Sequence[str]) -> list[str]:
    """What runs it. Raises `ScriptError` if its first line names what cannot be given a text."""
    words = _interpreter(script)
    program = next((word for word in words if PurePath(word).name != "env" and word[:1] != "-"), "")
    called = PurePath(program).name
    if called in SHELLS:
        return [*words, "-c", script.text, script.name, *arguments]
    if _PYTHON.fullmatch(called):
        return [*words, "-c", script.text, *arguments]
    if called in _BY_E:
        return [*words, "-e", script.text, *arguments]
    raise ScriptError(
        f"{script.name}, line 1: a job script is for a shell, Python, Perl, Ruby, Node, Lua or Julia, not {called!r}; "
        "make it a command that such a script calls"
    )


def _interpreter(script: Script) -> list[str]:
    first = script.text.partition("\n")[0]
    if not first.startswith("#!"):
        return ["sh"]
    return first[2:].split() or ["sh"]


def _head(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            return
        yield line


def _words(line: str) -> str | None:
    """What stands behind the mark."""
    rest = line.removeprefix(_MARK)
    return rest if rest != line and (not rest or rest[0].isspace()) else None
