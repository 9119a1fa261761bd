"""Name this installation of Muster, for programs on the same machine that call it."""

import shlex
import sys


def compose_muster_call() -> str:
    """Return the shell words by which a program on this machine calls this installation of Muster.

    The installation may not be on the PATH. The words keep Python from using its environment variables (-E) and the
    current directory (-P), which belong to the program.
    """
    return f"{shlex.quote(sys.executable)} -E -P -m muster.cli"
