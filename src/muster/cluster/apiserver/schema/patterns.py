"""Regular expressions that stand in manifests: RE2's syntax as upstream has it, behind one function.

The engine below is Python's `re`, which backtracks. Two limits keep that harmless for the patterns of the schemas that
come with us: the length of a pattern and the length of what is matched. Schemas that strangers may install need a
linear-time engine (google-re2) in this place and nowhere else.
"""

import re
from collections.abc import Callable

MAX_PATTERN_CHARACTERS = 4096
# Above the longest subject of any pattern in the schemas we ship (1,024), below where quadratic matching is felt.
MAX_SUBJECT_CHARACTERS = 4096

# An escape, a character class, flags for the rest of a group, or one of the characters `$ ( ) |`.
_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[ims]+\)|[$()|]", re.DOTALL)


class PatternError(ValueError):
    """The pattern is none that we can match."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that tells whether the pattern occurs in a text. Raises `PatternError`.

    A text over the limit never matches.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise PatternError(f"pattern is longer than {MAX_PATTERN_CHARACTERS} characters")
    try:
        search = re.compile(_translated(pattern), re.ASCII).search
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"pattern {pattern!r}: {error}") from error
    return lambda text: len(text) <= MAX_SUBJECT_CHARACTERS and search(text) is not None


def _translated(pattern: str) -> str:
    """The same pattern in Python's syntax, where RE2's differs.

    RE2's `$` and escaped `z` are the end of the text; Python's `$` also stands before a final newline. Flags within a
    group hold to its end, across `|`; Python has them only for groups of their own.
    """
    open_flags: list[list[str]] = [[]]  # for each group that is open, the flag groups opened in it

    def translate(match: re.Match[str]) -> str:
        token = match.group()
        inner = open_flags[-1]
        match token:
            case "$" | r"\z":
                return r"\Z"
            case "(":
                open_flags.append([])
            case ")" if len(open_flags) > 1:
                open_flags.pop()
                return ")" * len(inner) + ")"
            case "|":
                return ")" * len(inner) + "|" + "".join(inner)
            case _ if token.startswith("(?"):
                inner.append(token[:-1] + ":")
                return inner[-1]
        return token

    return _TOKENS.sub(translate, pattern) + ")" * len(open_flags[0])
