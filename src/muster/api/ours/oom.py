"""The end of a container that needed more memory than its limit, as nodes report it and people read it."""

import re
from typing import Final

from muster.api.values.quantity import format_amount

OOM_KILLED: Final = "OOMKilled"

_MEBIBYTE = 1 << 20
_SHAPE = r"(?a)it needed more memory than its limit of \w+ \(it used \d+Mi\)"


def describe_excess(used: int, limit: int) -> str:
    """Return the message of a container that was ended at its memory limit.

    used, limit: amounts of memory in bytes.
    """
    amount = format_amount("memory", limit)
    return f"it needed more memory than its limit of {amount} (it used {-(-used // _MEBIBYTE)}Mi)"


def is_excess(message: str) -> bool:
    """Return whether a container's termination message was made by `describe_excess`."""
    return re.fullmatch(_SHAPE, message) is not None
