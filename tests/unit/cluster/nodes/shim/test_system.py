"""Errors of the system, described for users."""

import errno

import pytest

from muster.cluster.nodes.shim.system import RefusedError, describe

NO_PROCESS = (
    "resource temporarily unavailable: the user has as many processes as ulimit -u allows, or the cgroup as many as "
    "its pids.max"
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RefusedError("no such user"), "no such user"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "cannot allocate memory"),
        (OSError(errno.ENOENT, "No such file or directory", "/a"), "/a: no such file or directory"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), NO_PROCESS),  # os.fork raises this
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable", "/bin/a"), f"/bin/a: {NO_PROCESS}"),
    ],
)
def test_describe(error, text):
    assert describe(error) == text
