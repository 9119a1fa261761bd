"""Implement `scontrol show hostnames` for scripts with #SBATCH lines, which use it to find their first node."""

import os
import sys
from collections.abc import Mapping, Sequence

_USAGE = 2


def list_hosts(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the host names for the arguments `show hostnames [LIST]`: those in LIST, or the job's nodes without LIST.

    Raises `ValueError` for any other command, and for a list with brackets.
    """
    if words[:2] not in (["show", "hostnames"], ["show", "hostname"]) or len(words) > 3:
        raise ValueError(f"{' '.join(words)}: in a job there is only: scontrol show hostnames [LIST]")
    names = words[2] if len(words) > 2 else environment.get("SLURM_JOB_NODELIST", "")
    if "[" in names:
        raise ValueError(f"{names}: nodes of a job are listed one by one, with commas between them")
    return names.split(",")


def main(words: Sequence[str]) -> int:
    """Run the `scontrol` command with these arguments: print one host name per line; return the exit code."""
    try:
        hosts = list_hosts(words, os.environ)
    except ValueError as error:
        print(f"scontrol: {error}", file=sys.stderr)
        return _USAGE
    sys.stdout.write("".join(f"{host}\n" for host in hosts))  # at once: scripts read it with head -n 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
