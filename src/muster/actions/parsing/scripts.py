"""Parse job scripts, whose text becomes the command of a job. Pure.

Lines such as `#MUSTER --workers 4` are options of `muster run`, and lines such as `#SBATCH -n 4` are options of sbatch.
The job contains the text of the script, as with sbatch, so a later change of the file does not change the job.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from muster.api.values.shells import SHELLS

# The maximum number of bytes that Linux passes to a program in one argument.
MOST_BYTES = 128 * 1024 - 1

# The prefixes of lines with options of `muster run` and of sbatch.
MUSTER, SBATCH = "#MUSTER", "#SBATCH"
_LIKE_A_MARK = re.compile(r"#[A-Za-z]{4,9}(?=\s+-)")
_LIKENESS = 0.8  # a lower value would match words of prose
# Interpreters that accept a program text after -e. Shells and Python accept it after -c.
_RUN_WITH_E = frozenset({"perl", "ruby", "node", "lua", "julia"})
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")


class ScriptError(Exception):
    """A script that cannot be run as a job. The message contains the script's name, the line and the reason."""


class Directive(Struct, frozen=True):
    """The options on one line of a script.

    number: the number of the line, from 1.
    words: the options, split into words.
    """

    number: int
    words: tuple[str, ...]


class Script(Struct, frozen=True):
    """A parsed job script.

    by_input: whether the script was read from standard input rather than from a file.
    """

    name: str
    text: str
    by_input: bool = False


def read(name: str, data: bytes, *, by_input: bool = False) -> Script:
    """Decode the content of a script.

    Raises `ScriptError` if the script is too long, contains zero bytes, or is not UTF-8.
    """
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


def has_directives(data: bytes, marks: Sequence[str] = (MUSTER, SBATCH)) -> bool:
    """Return whether a file that starts with these bytes has lines with options for a job."""
    return data.startswith(b"#") and any(
        _find_options(line, mark) is not None for line in _read_head(data.decode(errors="replace")) for mark in marks
    )


def find_misspelt_marks(data: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield each line whose options are ignored as a comment because its prefix is misspelt.

    Each result is the line's number, its first word, and the prefix that the word resembles. `##SBATCH` and `# SBATCH`
    are left out, because users disable a line that way.

    data: the beginning of the file.
    """
    for number, line in enumerate(_read_head(data.decode(errors="replace")) if data.startswith(b"#") else (), 1):
        if (found := _LIKE_A_MARK.match(line)) and found[0] not in (MUSTER, SBATCH):
            from difflib import get_close_matches

            for mark in get_close_matches(found[0].upper(), (MUSTER, SBATCH), n=1, cutoff=_LIKENESS):
                yield number, found[0], mark


def find_other_program(data: bytes) -> str:
    """Return the interpreter on a script's first line if it accepts no program text as an argument; else "".

    Shells, Python and some other languages accept one.

    data: the beginning of the file.
    """
    called = _find_program(_read_interpreter(data.partition(b"\n")[0].decode(errors="replace")))
    return "" if called in SHELLS or _PYTHON.fullmatch(called) or called in _RUN_WITH_E else called


def list_directives(script: Script, mark: str = MUSTER) -> Iterator[Directive]:
    """Yield the option lines with this prefix before the first line of code, as sbatch does.

    Raises `ScriptError` if the quotes in a line do not match.
    """
    for number, line in enumerate(_read_head(script.text), 1):
        text = _find_options(line, mark)
        if text is None:
            continue
        try:
            words = shlex.split(text, comments=True)
        except ValueError as error:
            raise ScriptError(f"{script.name}, line {number}: {str(error).lower()}") from None
        yield Directive(number, tuple(words))


def make_command(script: Script, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs the script.

    Raises `ScriptError` if the first line names an interpreter that accepts no program text as an argument.
    """
    words = _read_interpreter(script.text)
    called = _find_program(words)
    if called in SHELLS:
        return [*words, "-c", script.text, script.name, *arguments]
    if _PYTHON.fullmatch(called):
        return [*words, "-c", script.text, *arguments]
    if called in _RUN_WITH_E:
        return [*words, "-e", script.text, *arguments]
    raise ScriptError(
        f"{script.name}, line 1: a job script is for a shell, Python, Perl, Ruby, Node, Lua or Julia, not {called!r}; "
        "make it a command that such a script calls"
    )


def _find_program(words: Sequence[str]) -> str:
    program = next((word for word in words if PurePath(word).name != "env" and word[:1] != "-"), "")
    return PurePath(program).name


def _read_interpreter(text: str) -> list[str]:
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        return ["sh"]
    return first[2:].split() or ["sh"]


def _read_head(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            return
        yield line


def _find_options(line: str, mark: str) -> str | None:
    """Return the options that follow the prefix in a line; None if the line does not start with the prefix."""
    rest = line.removeprefix(mark)
    return rest if rest != line and (not rest or rest[0].isspace()) else None
