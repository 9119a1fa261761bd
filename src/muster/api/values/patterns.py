"""Regular expressions of users, as manifests have them: RE2, the engine whose syntax upstream's is, in linear time.

Time and memory are bounded by the engine: a match takes time in proportion to the text, and a pattern that would need
too large a program is refused.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol

import re2

_REMEMBERED = 128  # characters of a text whose answer is kept


class PatternError(ValueError):
    """The pattern is none that we can match."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str | bytes) -> object | None:
        """Return a match if the pattern occurs in the text."""

    def finditer(self, text: str) -> Iterator["Match"]:
        """Yield the occurrences that do not overlap, from the left."""


class Match(Protocol):
    """One occurrence of a pattern."""

    def group(self, group: int = 0) -> str:
        """Return what matched."""


@lru_cache(maxsize=1024)
def pattern_of(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises `PatternError`."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"pattern {pattern!r}: {shown}") from error
    except UnicodeEncodeError as error:
        raise PatternError(f"pattern {pattern!r} is not valid Unicode") from error
    return compiled


def line_pattern(pattern: str) -> Callable[[bytes], bool]:
    """Return a function that returns whether the pattern occurs in a line, which need not be text.

    Raises `PatternError`.
    """
    search = pattern_of(pattern).search
    return lambda line: search(line) is not None


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether the pattern occurs in a text. Raises `PatternError`."""
    search = pattern_of(pattern).search

    # Names, types and reasons are the same in most objects; asking the engine costs much more than to remember.
    @lru_cache(maxsize=256)
    def known(text: str) -> bool:
        return search(text) is not None

    def matches(text: str) -> bool:
        if len(text) <= _REMEMBERED and text.isascii():
            return known(text)
        try:
            return search(text) is not None
        except UnicodeEncodeError:  # half a surrogate pair: no text at all
            return False

    return matches
