"""Recognises shells that prepare something before they become a command, and finds that command. Pure."""

from collections.abc import Sequence
from pathlib import PurePath

from muster.api.values.expansion import escape

# These take a text in place of a file, and behind it a name for it.
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})

# What ours call themselves, so that they are told from those that the user typed.
NAME = "muster"

# On a pod: a terminal of it that is for one client (stdinOnce) is hung up when that one leaves. Container runtimes
# leave it open, so that the client can come again.
HANGS_UP = "muster.dev/hangs-up"

_EXEC = 'exec "$@"'


def prepared(lines: str, command: Sequence[str], become: str = _EXEC) -> list[str]:
    """Return the words of a shell, for a manifest, that runs these lines and then the command.

    become: how it becomes the command, if that is not its words as they stand.
    """
    return ["sh", "-c", escape(lines + become), NAME, *command]


def typed(words: Sequence[str]) -> Sequence[str]:
    """Return the command without what prepares it; of a script of a shell, its name and arguments without its text."""
    while len(words) > 4 and words[0] == "sh" and words[1] == "-c" and words[3] == NAME:
        words = words[4:]
    shell, name = (words.index("-c"), words.index("-c") + 2) if "-c" in words else (0, len(words))
    if name >= len(words) or not any(PurePath(word).name in SHELLS for word in words[:shell]):
        return words
    text = words[name - 1]
    return words[name:] if text.startswith("#") and "\n" in text else words
