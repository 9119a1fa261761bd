#!/usr/bin/env python3
"""Stands in for mpirun where there is none: it starts its command on each host of the job, by the remote shell.

As launchers do, it reads the hosts from the file and the remote shell from the variables that Hydra knows, and calls
`REMOTE_SHELL -x HOST COMMAND`. It passes SIGTERM on, waits for all, and ends with the greatest exit code.
"""

import os
import shlex
import signal
import subprocess
import sys


def main(command):
    if command[0] == "-np":  # as many as there are slots
        command = command[2:]
    with open(os.environ["HYDRA_HOST_FILE"]) as file:
        hosts = [line.strip().rpartition(":") for line in file]
    shell, words = os.environ["HYDRA_LAUNCHER_EXEC"], shlex.join(command)
    size = sum(int(slots) for _, _, slots in hosts)
    calls: list[subprocess.Popen[bytes]] = []
    for host, _, slots in hosts:
        for _ in range(int(slots)):
            told = f"exec env PMI_RANK={len(calls)} PMI_SIZE={size} {words}"
            calls.append(subprocess.Popen([shell, "-x", host, told]))

    def end(*_):
        for call in calls:
            call.terminate()

    signal.signal(signal.SIGTERM, end)
    sys.exit(max(call.wait() % 256 for call in calls))


if __name__ == "__main__":
    main(sys.argv[1:])
