"""Escape text that must survive the expansion of `$(NAME)` in commands, arguments and environment."""

import re

# The texts that the expansion changes: `$$` becomes `$`, and `$(NAME)` the value of a variable. The kubelet also treats
# the first byte after a dollar as a whole character, which breaks a character that is not ASCII.
_CHANGED = r"\$\$+|\$(?=\(|[^\x00-\x7f])"


def escape(text: str) -> str:
    """Escape a text so that it expands to itself, whatever variables exist."""
    return re.sub(_CHANGED, lambda dollars: dollars[0] * 2, text)
