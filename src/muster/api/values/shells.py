"""Shells that run some lines before a command: how manifests spell them, and how to find the user's command in them."""

from collections.abc import Sequence
from pathlib import PurePath

from muster.api.values.expansion import escape

# The shells that take a script as an argument, followed by its name.
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})

# The name of the scripts that Muster adds, which distinguishes them from the user's.
NAME = "muster"

# The annotation of a pod whose terminal for one client (stdinOnce) is hung up when this client leaves. Container
# runtimes leave it open, so that the client can attach again.
HANGS_UP = "muster.dev/hangs-up"

_EXEC = 'exec "$@"'


def wrap_in_shell(lines: str, command: Sequence[str], become: str = _EXEC) -> list[str]:
    """Return the command, for a manifest, of a shell that runs these lines and then executes the user's command.

    become: the last line of the script, which replaces the shell with the command.
    """
    return [escape(word) for word in wrap_with_arguments(lines + become, ())] + list(command)


def wrap_with_arguments(lines: str, command: Sequence[str]) -> list[str]:
    """Return the command, for a manifest, of a shell that runs these lines with the user's command as its arguments."""
    return ["sh", "-c", lines, NAME, *command]


def find_typed_command(words: Sequence[str]) -> Sequence[str]:
    """Return the command that the user typed, without Muster's shells. A script becomes its name and its arguments."""
    while len(words) > 4 and words[0] == "sh" and words[1] == "-c" and words[3] == NAME:
        words = words[4:]
    shell, name = (words.index("-c"), words.index("-c") + 2) if "-c" in words else (0, len(words))
    if name >= len(words) or not any(PurePath(word).name in SHELLS for word in words[:shell]):
        return words
    text = words[name - 1]
    return words[name:] if text.startswith("#") and "\n" in text else words
