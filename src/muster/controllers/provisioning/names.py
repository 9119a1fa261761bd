"""Name ProvisioningRequests and their PodTemplates as Kueue does; the name contains the attempt."""

import re
from hashlib import sha1
from typing import Final

# A longer name is cut and gets a hash of the whole name as its end.
_HASH_LENGTH: Final = 5
_LONGEST: Final = 252 - _HASH_LENGTH
# The number of attempts whose shortened names are compared with a name.
_MOST_COMPARED: Final = 100


def name_request(workload: str, check: str, attempt: int) -> str:
    """Return the name of a workload's request for a check.

    attempt: the number of the attempt, from 1.
    """
    return _shorten_name(f"{workload}-{check}-{attempt}")


def name_template(request: str, podset: str) -> str:
    """Return the name of the PodTemplate of a request for a podset."""
    return _shorten_name(f"ppt-{request}-{podset}")


def parse_attempt(request: str, workload: str, check: str) -> int | None:
    """Return the attempt in the name of a request, or None if the request belongs to another workload or check."""
    prefix = f"{workload}-{check}-"
    if len(request) <= _LONGEST:
        match = re.fullmatch(re.escape(prefix) + r"([0-9]{1,9})", request)
        return int(match[1]) if match else None
    attempts = range(1, _MOST_COMPARED + 1)
    return next((one for one in attempts if name_request(workload, check, one) == request), None)


def _shorten_name(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]}"
