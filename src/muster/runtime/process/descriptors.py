"""How many files a process may have open."""

import resource

DESCRIPTORS = 16 * 1024  # of a server all connections that are let in, of a node its containers, and what else there is


def allow_descriptors(wanted: int = DESCRIPTORS) -> None:
    """Let this process have so many files open, as far as it may: a shell gives it 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
