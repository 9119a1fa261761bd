"""Put Muster's `srun` and `scontrol` first on the PATH of a batch script. Pure."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePath

from muster.api.values.shells import SHELLS

# The programs that scripts call by Slurm's names.
PROGRAMS = Path(__file__).parent / "bin"


def add_programs(path: str) -> str:
    """Return `path` preceded by the directory with Muster's `srun` and `scontrol`."""
    return f"{PROGRAMS}{os.pathsep}{path}"


def find_programs_first(command: Sequence[str]) -> list[str]:
    """Return a shell command (`bash -lc SCRIPT`) with a script that first puts Muster's programs on the PATH.

    The assignment replaces the script's `#!` line, so that all lines keep their numbers. If it were not in the script,
    a login shell's startup files would overwrite the PATH. Any other command is returned unchanged.
    """
    words = list(command)
    at = words.index("-c") + 1 if "-c" in words else 0
    if not at or not any(PurePath(word).name in SHELLS for word in words[: at - 1]):
        return words
    first, newline, rest = words[at].partition("\n")
    if first.startswith("#!"):
        words[at] = f"PATH={shlex.quote(str(PROGRAMS))}:$PATH{newline}{rest}"
    return words
