"""The regular expressions of manifests, which run on RE2, the engine with upstream's syntax.

RE2 bounds time and memory: a match takes time in proportion to the text, and a pattern that needs too large a program
is refused.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol

import re2

_REMEMBERED = 128  # the most characters of a text whose result is cached


class PatternError(ValueError):
    """A pattern that RE2 does not accept."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str | bytes) -> object | None:
        """Return the first match of the pattern in the text; None without a match."""

    def finditer(self, text: str) -> Iterator["Match"]:
        """Yield the non-overlapping matches from the left."""


class Match(Protocol):
    """A match of a pattern."""

    def group(self, group: int = 0) -> str:
        """Return the matched text."""


@lru_cache(maxsize=1024)
def pattern_of(pattern: str) -> Pattern:
    """Compile a pattern.

    Raises:
        PatternError: the pattern is invalid.
    """
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
    """Return a function that tells whether the pattern occurs in a line of bytes.

    Raises:
        PatternError: the pattern is invalid.
    """
    search = pattern_of(pattern).search
    return lambda line: search(line) is not None


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether the pattern occurs in a text.

    Raises:
        PatternError: the pattern is invalid.
    """
    search = pattern_of(pattern).search

    # Results are cached, because names, types and reasons repeat in most objects, and the engine is much slower.
    @lru_cache(maxsize=256)
    def known(text: str) -> bool:
        return search(text) is not None

    def matches(text: str) -> bool:
        if len(text) <= _REMEMBERED and text.isascii():
            return known(text)
        try:
            return search(text) is not None
        except UnicodeEncodeError:  # half of a surrogate pair, which is no valid text
            return False

    return matches
