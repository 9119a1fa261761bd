"""What a pod's user reads about an error of the system."""

import errno
import os
from pathlib import Path

import pytest

from muster.cluster.nodes.disk.complaints import describe_os_error, naming_path

NO_ROOM = (
    "No space left on device on /proc: free some there (see df -h and df -i of /proc), and the pod continues by itself"
    "; the node could not write /proc/pods/token"
)
NO_QUOTA = (
    "Disk quota exceeded on /proc: free some there (see quota -s), and the pod continues by itself; "
    "the node could not write /proc/pods/token"
)

NO_FILES = "Too many open files: start the server again, in a shell where ulimit -Hn shows more"
NO_PROCESSES = "Resource temporarily unavailable: start the server again, in a shell where ulimit -u shows more"


def refusal(number: int, *path: str) -> OSError:
    return OSError(number, os.strerror(number), *path)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (refusal(errno.ENOSPC, "/proc/pods/token"), NO_ROOM),
        (refusal(errno.EDQUOT, "/proc/pods/token"), NO_QUOTA),
        (refusal(errno.EACCES, "/proc/pods/token"), "/proc/pods/token: Permission denied"),
        (refusal(errno.ENOSPC), "No space left on device"),
        (refusal(errno.EMFILE), NO_FILES),
        (refusal(errno.EMFILE, "/proc/pods/token"), f"{NO_FILES}; the node could not open /proc/pods/token"),
        (refusal(errno.EAGAIN), NO_PROCESSES),
        (OSError("the fence of node-0 is gone."), "the fence of node-0 is gone."),
    ],
)
def test_an_error_names_the_path_and_what_to_do(error: OSError, message: str) -> None:
    assert describe_os_error(error) == message


def test_a_refused_write_gets_the_path_that_the_kernel_does_not_say() -> None:
    with pytest.raises(OSError, match="No space left on device") as refused, naming_path(Path("/dev/full")):
        Path("/dev/full").write_text("more than nothing")
    assert refused.value.filename == "/dev/full"


def test_an_error_with_a_path_keeps_it() -> None:
    with pytest.raises(FileNotFoundError) as refused, naming_path(Path("/other")):
        raise refusal(errno.ENOENT, "/first")
    assert refused.value.filename == "/first"
