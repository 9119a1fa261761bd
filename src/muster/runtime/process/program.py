"""Names this installation of Muster, for programs on the same machine that call it."""

import shlex
import sys


def compose_muster_call() -> str:
    """Return the shell words by which a program on this machine calls Muster, which need not be on the PATH.

    Variables for Python (-E) and the current directory (-P) are for the program itself.
    """
    return f"{shlex.quote(sys.executable)} -E -P -m muster.cli"
