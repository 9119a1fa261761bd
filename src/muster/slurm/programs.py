"""Puts `srun` and `scontrol` where a batch script finds them. Pure."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePath

from muster.api.values.shells import SHELLS

# The programs that scripts call by Slurm's names.
PROGRAMS = Path(__file__).parent / "bin"


def add_programs(path: str) -> str:
    """Return a PATH with these programs before all others."""
    return f"{PROGRAMS}{os.pathsep}{path}"


def find_programs_first(command: Sequence[str]) -> list[str]:
    """Return a command in which the script of a shell sets this PATH itself, in place of its `#!` line.

    The files of a login shell set another PATH before the script begins. All lines keep their numbers.
    """
    words = list(command)
    at = words.index("-c") + 1 if "-c" in words else 0
    if not at or not any(PurePath(word).name in SHELLS for word in words[: at - 1]):
        return words
    first, newline, rest = words[at].partition("\n")
    if first.startswith("#!"):
        words[at] = f"PATH={shlex.quote(str(PROGRAMS))}:$PATH{newline}{rest}"
    return words
