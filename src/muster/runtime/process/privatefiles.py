"""Write files that only their owner may read."""

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically by one that only its owner may read. Raises `OSError`."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
