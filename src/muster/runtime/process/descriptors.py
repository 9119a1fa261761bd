"""Raise the limit of open files of the process."""

import resource

DESCRIPTORS = 16 * 1024  # enough for a server's admitted connections, or a node's containers, and everything else


def allow_descriptors(limit: int = DESCRIPTORS) -> None:
    """Raise this process's limit of open files to `limit`, or to its hard limit. Shells set it to 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
