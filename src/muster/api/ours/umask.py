"""The umask of a pod's processes on a process node, from an annotation of the pod. Pure."""

import re
from typing import Final

# The annotation with the umask in octal digits, such as `0077`.
UMASK_ANNOTATION: Final = "muster.dev/umask"

# The umask of a pod without the annotation.
DEFAULT_UMASK: Final = 0o022

_UMASK = r"0?[0-7]{3}"


def parse_umask(text: str) -> int:
    """Parse the umask in the value of an annotation. Raises `ValueError`."""
    if not re.fullmatch(_UMASK, text):
        raise ValueError(f"annotation {UMASK_ANNOTATION}: {text!r} is no umask: write three octal digits, such as 077")
    return int(text, 8)


def render_umask(umask: int) -> str:
    """Return the value of the annotation for a umask."""
    return f"{umask:04o}"
