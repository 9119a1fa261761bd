"""Escapes text that must survive the expansion of `$(NAME)` in commands, arguments and environment. Pure."""

import re

# Where expansion changes something: `$$` becomes `$`, and `$(NAME)` the value of a variable. The kubelet also takes the
# first byte after a dollar for a whole character, so that one which is not ASCII would come out as others.
_CHANGED = re.compile(r"\$\$+|\$(?=\(|[^\x00-\x7f])")


def escape(text: str) -> str:
    """Return what expands to the text, whatever variables there are."""
    return _CHANGED.sub(lambda dollars: dollars[0] * 2, text)
