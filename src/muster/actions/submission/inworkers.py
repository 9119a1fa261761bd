"""Make the shell line with which a worker calls Muster. Pure."""

import shlex

# In an image without Muster, a shell would only report that a command was not found.
_CALL = 'command -v {program} >/dev/null || {{ echo "{missing}" >&2; exit 127; }}; exec {muster} {words} -- "$@"'


def call_muster(muster: str, words: str, missing: str) -> str:
    """Return the shell line with which a worker runs a Muster command.

    The command's arguments follow the line after `--`.

    muster: the shell command that starts Muster.
    words: the Muster command and its options.
    missing: the message to print if the program does not exist.
    """
    program = shlex.quote(shlex.split(muster)[0])
    return _CALL.format(program=program, missing=missing, muster=muster, words=words)
